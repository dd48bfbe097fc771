"""Every exception labkit raises on purpose; all of them are `LabkitError`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "CheckError",
    "DataError",
    "DeadlockError",
    "ExpectationError",
    "LabkitError",
    "MachineError",
    "MismatchError",
    "PlatformError",
    "ProgramError",
    "RankError",
    "ScheduleError",
    "TimeLimitError",
    "UnknownNameError",
    "UnsupportedError",
    "unknown_name",
]


_NOTED_RANKS, _NOTED_LINES = 16, 5


class LabkitError(Exception):
    """Base of labkit's errors: the message says what arrived, what is allowed and what to do.

    Attributes
    ----------
    output : sequence of str
        What the ranks of a failed run had printed, in rank order; empty without a run.
    """

    output: Sequence[str] = ()

    def attach_output(self, output: Sequence[str]) -> None:
        """Keep what the ranks had printed; the last lines of the first ranks also become notes."""
        self.output = list(output)
        for rank, text in [(r, t) for r, t in enumerate(output) if t.strip()][:_NOTED_RANKS]:
            lines = text.rstrip().splitlines()
            cut = f" (the last {_NOTED_LINES} of {len(lines)} lines)" if len(lines) > _NOTED_LINES else ""
            shown = "\n".join(f"  {line}" for line in lines[-_NOTED_LINES:])
            self.add_note(f"rank {rank} had printed{cut}:\n{shown}")


#: an unbroken or quoted part of a message that is longer than this is cut in its middle
_MOST_ECHOED = 200
_LONG_LINE = re.compile(
    r"[^\n]{1001,}"
)  # no sentence of ours is so long: bytes of somebody else's, as escapes
_ECHO = re.compile(rf"(?<!\w)'[^'\n]{{{_MOST_ECHOED - 1},}}'(?!\w)|\S{{{_MOST_ECHOED + 1},}}")


def _cut(found: re.Match[str]) -> str:
    text = found[0]
    return f"{text[:120]}...({len(text)} characters)...{text[-40:]}"


def _cut_line(found: re.Match[str]) -> str:
    return f"{found[0][:600]}...{found[0][-200:]}"


class _InputError(LabkitError):
    """An error about what has arrived, however long: its message echoes at most 200 characters of it."""

    def __init__(self, *args: object) -> None:
        if args and isinstance(args[0], str):
            args = (_LONG_LINE.sub(_cut_line, _ECHO.sub(_cut, args[0])), *args[1:])
        super().__init__(*args)


class CheckError(LabkitError):
    """A result that is not what its algorithm promises; the message names the ranks and the reasons."""


class DataError(_InputError):
    """Input data that cannot be read or used (a file, an array, a measurement)."""


class ExpectationError(_InputError):
    """An expectation that cannot be read, or that cannot be judged on the data given."""


class MachineError(LabkitError):
    """A machine that cannot be used: no MPI, a launcher that fails, a wrong number of ranks."""


class MismatchError(LabkitError):
    """Ranks that do not agree in a collective: another call, another root, another size."""


class PlatformError(_InputError):
    """A platform that is not known, malformed, or too small for the ranks asked for."""


class ProgramError(_InputError):
    """A program that cannot be run: not a function of a communicator, no such script, wrong arguments."""


class ScheduleError(_InputError):
    """A schedule that is malformed, or that does not do what its collective promises."""


class UnknownNameError(_InputError, AttributeError):
    """A name that a module of labkit does not have; the message names the nearest one."""


class UnsupportedError(LabkitError, NotImplementedError):
    """A name of MPI that labkit does not simulate (yet)."""


class TimeLimitError(LabkitError):
    """A run that did not end within its time limit; the message says where each rank was."""


class DeadlockError(LabkitError):
    """Every rank that has not finished waits for something that can never happen.

    The message lists each blocked rank, its call, peer, tag and source line, and the cycle.
    """


class RankError(LabkitError):
    """A rank that ended with an exception, an exit or a signal.

    Attributes
    ----------
    rank : int
        The rank that failed first.
    traceback : str
        Its traceback as text, or what the launcher reported.
    """

    def __init__(self, rank: int, traceback: str, message: str | None = None) -> None:
        self.rank = rank
        self.traceback = traceback
        last = traceback.strip().splitlines()[-1] if traceback.strip() else "no traceback"
        super().__init__(message or f"rank {rank} failed: {last}\n{traceback}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by the arguments, so that the error crosses process borders whole."""
        return type(self), (self.rank, self.traceback, self.args[0]), self.__dict__


def unknown_name(module: str, name: str, known: Iterable[str]) -> UnknownNameError:
    """Return the error of a name that a module does not have, with the nearest ones that it has."""
    import difflib

    lower = {one.lower(): one for one in known}
    near = [lower[one] for one in difflib.get_close_matches(name.lower(), lower, 3, 0.6)]
    hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(sorted(lower.values()))}"
    return UnknownNameError(f"{module} has no {name!r}; {hint}")
