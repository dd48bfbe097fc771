"""MPI.Exception, and the errors that calls outside or after a run raise."""

from __future__ import annotations

from typing import Any

from labkit.comm.handles.base import public
from labkit.comm.handles.constants import ERROR_CLASSES
from labkit.comm.handles.errorcodes import class_of, text_of
from labkit.errors import UnsupportedError

__all__ = ["Exception", "RunEnded", "make_ended", "make_error", "make_outside"]

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
        if detail:  # raised by a call, not made by a program
            note_error(code)

    def Get_error_code(self) -> int:
        """Error code."""
        return self._code

    def Get_error_class(self) -> int:
        """Error class."""
        return class_of(self._code)

    def Get_error_string(self) -> str:
        """MPI's words for the error."""
        return text_of(self._code)

    error_code = property(Get_error_code, doc="Error code.")
    error_class = property(Get_error_class, doc="Error class.")
    error_string = property(Get_error_string, doc="MPI's words for the error.")

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


def note_error(code: int) -> None:
    """Is told of the errors that calls raise (`labkit.comm.environment`)."""


class RunEnded(BaseException):
    """Unwinds the ranks of a run that has ended because of another rank.

    Not an `Exception`, so that ``except Exception`` in a program does not stop it; ``finally`` blocks run.
    """


def make_error(error_class: int, detail: str) -> _Exception:
    """Make the exception for an error class, for the compiled methods."""
    return Exception(error_class, detail)


def told_outside(name: str) -> None:
    """Is told of a call outside any rank's main thread: while runs are on, somebody may want to know."""


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
