"""MPI.Exception, and the errors that calls outside or after a run raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit.comm.handles.base import public
from labkit.comm.handles.constants import ERROR_CLASSES, ERROR_TEXTS
from labkit.errors import UnsupportedError
from labkit.program import context

__all__ = [
    "Exception",
    "RunEnded",
    "class_of",
    "codes_in_use",
    "make_ended",
    "make_error",
    "make_outside",
    "text_of",
]


# Error classes, codes and strings: MPI's own and those that a program adds.


_LAST, _UNKNOWN = ERROR_CLASSES["ERR_LASTCODE"], ERROR_CLASSES["ERR_UNKNOWN"]


@dataclass
class ErrorCodes:
    """What a rank has added.

    Attributes
    ----------
    classes : dict of int to int
        The class of each added code; an added class is its own.
    texts : dict of int to str
    last : int
        The highest number in use.
    """

    classes: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    last: int = _LAST

    def add(self, of_class: int | None) -> int:
        """Add a code of a class, or with None a class; its number."""
        self.last += 1
        self.classes[self.last] = self.last if of_class is None else of_class
        return self.last

    def is_class(self, number: int) -> bool:
        """Whether it is an added class."""
        return self.classes.get(number) == number

    def is_used(self, number: int) -> bool:
        """Whether an added class has codes, or a text."""
        has_codes = any(own == number and code != number for code, own in self.classes.items())
        return has_codes or number in self.texts


def codes_in_use() -> ErrorCodes:
    """Return what the running rank has added; something empty outside any run."""
    running = context.simulated()
    if running is None:
        return ErrorCodes()
    own: dict[object, Any] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
    codes: ErrorCodes = own.setdefault("error codes", ErrorCodes())
    return codes


def class_of(code: int) -> int:
    """Return the class of an error code; ERR_UNKNOWN for an unknown code."""
    if code in ERROR_TEXTS:
        return code
    return codes_in_use().classes.get(code, _UNKNOWN)


def text_of(code: int) -> str:
    """Return the text of an error code, MPI's or the program's."""
    if code in ERROR_TEXTS:
        return ERROR_TEXTS[code]
    codes = codes_in_use()
    return codes.texts.get(code, "") if code in codes.classes else ERROR_TEXTS[_UNKNOWN]


_Exception = Exception


@public
class Exception(RuntimeError):
    """What an MPI call raises: an error class, and here also what was wrong with the call.

    Parameters
    ----------
    ierr : int
        Error code; a negative one becomes ERR_UNKNOWN.
    detail : str
        What was wrong, with the values that arrived.
    """

    def __init__(self, ierr: int = 0, detail: str = "", /) -> None:
        code = int(ierr)
        code = ERROR_CLASSES["ERR_UNKNOWN"] if code < 0 else code
        super().__init__(code, detail) if detail else super().__init__(code)
        self._code = code
        self._detail = detail

    def Get_error_code(self) -> int:
        """Error code."""
        return self._code

    def Get_error_class(self) -> int:
        """Error class."""
        return class_of(self._code)

    def Get_error_string(self) -> str:
        """MPI's text for the error."""
        return text_of(self._code)

    error_code = property(Get_error_code, doc="Error code.")
    error_class = property(Get_error_class, doc="Error class.")
    error_string = property(Get_error_string, doc="MPI's text for the error.")

    def __str__(self) -> str:
        text = self.Get_error_string()
        return f"{text}: {self._detail}" if self._detail else text

    def __int__(self) -> int:
        return self._code

    def __bool__(self) -> bool:
        return self._code != 0

    def __hash__(self) -> int:
        return hash(self._code)

    def __repr__(self) -> str:
        return f"MPI.Exception({self._code})"

    def __eq__(self, other: object) -> bool:
        return bool(self._code == other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: int) -> bool:
        return self._code < int(other)

    def __le__(self, other: int) -> bool:
        return self._code <= int(other)

    def __gt__(self, other: int) -> bool:
        return self._code > int(other)

    def __ge__(self, other: int) -> bool:
        return self._code >= int(other)


class RunEnded(BaseException):
    """Unwinds the ranks of a run that has ended because of another rank.

    Not an `Exception`, so that ``except Exception`` in a program does not stop it; ``finally`` blocks run.
    """


def make_error(error_class: int, detail: str) -> _Exception:
    """Make the exception for an error class, for the compiled methods."""
    return Exception(error_class, detail)


def told_outside(name: str) -> None:
    """Called for a call outside any rank's main thread, while runs are active."""


def owner_of_thread() -> tuple[Any, int] | None:
    """Return the hub and the rank whose thread this is: while runs are on, somebody may know it."""
    return None


def find_owner_of_thread() -> tuple[Any, int] | None:
    """Return what `owner_of_thread` says at present, for the compiled methods."""
    return owner_of_thread()


def make_outside(name: str) -> _Exception:
    """Make the error of a call that only means something inside a run."""
    told_outside(name)
    return UnsupportedError(
        f"{name}: labkit.MPI communicates only between the ranks of a run; call it in a program given to "
        "labkit.run(program, ranks=...), in the rank's own thread and outside reduction operators"
    )


def make_ended() -> BaseException:
    """Make the exception that unwinds a rank."""
    return RunEnded("the run is ending")
