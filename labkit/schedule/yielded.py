"""The steps that an algorithm yields; what yields none, as beginners write it, is told in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from labkit.errors import ScheduleError
from labkit.schedule.group import Group
from labkit.schedule.step import Step

__all__ = ["steps_of"]

_WANTED = "an algorithm is a generator of steps: yield group.send(...), group.recv(...) and so on"


def steps_of(generator: Callable[[Group], Iterable[Step]], group: Group, label: str) -> Iterator[Step]:
    """Yield the steps of a generator.

    Parameters
    ----------
    generator : callable
        ``generator(group)`` yields steps.
    group : Group
    label : str
        Of the schedule, for messages.

    Yields
    ------
    Step

    Raises
    ------
    ScheduleError
        It returns what has no steps, yields what is none, or asks an array along the ranks for one answer.
    """
    called = f"{label}: {getattr(generator, '__name__', 'the algorithm')}(group)"
    try:
        made = generator(group)
        if not isinstance(made, Iterable):
            raise ScheduleError(f"{called} returned {_named(made)}; {_WANTED}")
        for step in made:
            if not isinstance(step, Step):
                raise ScheduleError(f"{called} yielded {_named(step)}; {_WANTED}")
            yield step
    except ValueError as error:  # NumPy has no class of its own for this one
        if "truth value of an array" not in str(error):
            raise
        raise ScheduleError(
            f"{called} asks an array for one answer, as in `if group.ranks == 0`: group.ranks holds all "
            "ranks at once; choose among them with where=, as in group.send(..., where=group.ranks == 0)"
        ) from error


def _named(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
