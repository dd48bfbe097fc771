"""The place of a failure: cases that are too small to be tests of their own, named as parameters would be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["at"]


@contextmanager
def at(**case: object) -> Iterator[None]:
    """Add the case to whatever fails inside: ``with at(p=p):``."""
    try:
        yield
    except BaseException as error:
        error.add_note("at " + ", ".join(f"{name}={value!r}" for name, value in case.items()))
        raise
