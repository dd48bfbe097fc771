"""Errors of labkit by their codes: what went wrong, whatever the sentence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from labkit.errors import LabkitError


@contextmanager
def raises_code(
    error: type[BaseException] | tuple[type[BaseException], ...], code: str, *facts: str
) -> Iterator[pytest.ExceptionInfo[LabkitError]]:
    """Expect an error with a code, whose message names what was wrong: values, names, lines, suggestions."""
    __tracebackhide__ = True
    with pytest.raises(error) as caught:
        yield caught  # type: ignore[misc]
    found = caught.value
    assert getattr(found, "code", None) == code, f"{type(found).__name__} with another code: {found}"
    missing = [fact for fact in facts if fact not in str(found)]
    assert not missing, f"{missing} not in: {found}"
