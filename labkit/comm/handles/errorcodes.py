"""Error classes, codes and strings: MPI's own and those that a program adds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from labkit import context
from labkit.comm.handles.constants import ERROR_CLASSES, ERROR_TEXTS

__all__ = ["ErrorCodes", "class_of", "codes_in_use", "text_of"]

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
    own: dict[Any, Any] = running.calls.attributes.setdefault((-1, running.calls.hub.rank), {})
    codes: ErrorCodes = own.setdefault("error codes", ErrorCodes())
    return codes


def class_of(code: int) -> int:
    """Return the class of an error code; ERR_UNKNOWN of a code that nobody knows."""
    if code in ERROR_TEXTS:
        return code
    return codes_in_use().classes.get(code, _UNKNOWN)


def text_of(code: int) -> str:
    """Return MPI's words for an error code, or the program's."""
    if code in ERROR_TEXTS:
        return ERROR_TEXTS[code]
    codes = codes_in_use()
    return codes.texts.get(code, "") if code in codes.classes else ERROR_TEXTS[_UNKNOWN]
