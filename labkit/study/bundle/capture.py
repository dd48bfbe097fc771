"""The sources of a sweep, kept while it runs: the text of its functions and the files that it names."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import replace
from types import FunctionType
from typing import Any

from labkit.study.bundle.source import SourceText, source_of

__all__ = ["captured", "resolved"]


def captured(job: Any, plan: Iterable[Any]) -> dict[int, SourceText | None]:
    """Return the source of every function that a sweep was given, by the function's id.

    Parameters
    ----------
    job : object
        With program, args and measure.
    plan : iterable
        Points with parameters.
    """
    values = [job.program, job.measure, *job.args]
    values += [value for point in plan for value in point.parameters.values()]
    found: dict[int, SourceText | None] = {}
    for value in values:
        function = getattr(value, "func", value)  # functools.partial
        if isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = None
            with contextlib.suppress(Exception):  # a sweep must not fail for what nobody may ever bundle
                found[id(function)] = source_of(function)
    return found


def resolved(point: Any) -> Any:
    """Return a point with the files it names read: a platform's, a model's, a mapping's."""
    with contextlib.suppress(Exception):  # as above
        if _is_file(point.on):
            from labkit.platform import platform

            return replace(point, on=platform(point.on))
    return point


def _is_file(text: Any) -> bool:
    return isinstance(text, str | os.PathLike) and os.path.isfile(text)
