"""The recipe of a sweep: enough to run its simulated points again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Recipe", "RecipePoint"]


@dataclass(frozen=True)
class RecipePoint:
    """One point of a sweep.

    Attributes
    ----------
    number : int
        Its place in the plan.
    ranks : int
    on, model : object
        As the run got them.
    parameters : dict
        The program's keyword arguments.
    rows : range
        The rows of the study's table that it gave, by the labels they had then.
    """

    number: int
    ranks: int
    on: Any
    model: Any
    parameters: dict[str, Any]
    rows: range


@dataclass(frozen=True)
class Recipe:
    """A sweep as it was called.

    Attributes
    ----------
    program : callable or path
    args : tuple
    seed : int
        Repetition k of a simulated point ran with ``seed + k``.
    repeats : int
    timeout_s : float or None
    options : dict
        Further options of `labkit.run`.
    measure : callable or None
    has_own_runner : bool
        Whether something else than `labkit.run` ran the points; then nobody else can.
    points : list of RecipePoint
        Those that gave rows.
    captured : dict
        Sources of the functions, kept when the sweep ran: by the function's id.
    """

    program: Any
    args: tuple[Any, ...]
    seed: int
    repeats: int
    timeout_s: float | None
    options: dict[str, Any]
    measure: Callable[..., Any] | None
    has_own_runner: bool
    points: list[RecipePoint]
    captured: dict[int, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, plan: Iterable[Any], numbers: Iterable[int], **how: Any) -> Recipe:
        """Write a recipe down.

        Parameters
        ----------
        plan : iterable
            Points with number, ranks, on, model, parameters.
        numbers : iterable of int
            For each row of the study in its order, the number of its point.
        **how
            The other attributes.
        """
        counts: Mapping[int, int] = Counter(numbers)
        points, begin = [], 0
        for point in sorted(plan, key=lambda one: int(one.number)):
            end = begin + counts.get(point.number, 0)
            if end > begin:
                points.append(
                    RecipePoint(
                        point.number, point.ranks, point.on, point.model, point.parameters, range(begin, end)
                    )
                )
            begin = end
        return cls(points=points, **how)


def keep_recipe(
    study: Any, plan: Iterable[Any], job: Any, numbers: Iterable[int], has_own_runner: bool
) -> None:
    """Attach to a study what its sweep knew: `job` has the sweep's arguments, `numbers` the rows' points.

    Sources and files are taken now: cells may be changed before the study is bundled.
    """
    from labkit.study.bundle.capture import captured, resolved

    study.recipe = Recipe.of(
        [resolved(point) for point in plan],
        sorted(numbers),
        program=job.program, args=job.args, seed=job.seed, repeats=job.repeats, timeout_s=job.timeout_s,
        options=dict(job.options), measure=job.measure, has_own_runner=has_own_runner,
        captured=captured(job, plan),
    )  # fmt: skip
