"""The recipe of a study: what its sweep knew when it ran, enough to run the simulated points again."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING

from labkit.study.bundle.source import SourceText, source_of
from labkit.study.points import Point

if TYPE_CHECKING:
    from labkit.study.measure import Job

__all__ = ["Recipe", "recipe_of"]


@dataclass(frozen=True)
class Recipe:
    """A sweep as it was called.

    `job`: What all points have in common; repetition k of a simulated point ran with ``seed + k``.
    `points`: Those that gave rows, with these rows of the study's table, by the labels that they had then.
    `sources`: Texts of the functions, by their ids.
    """

    job: Job
    points: list[tuple[Point, range]]
    sources: dict[int, SourceText | None]


def recipe_of(job: Job, plan: Iterable[Point], numbers: Iterable[int]) -> Recipe:
    """Write down what a sweep knows; `numbers` are the rows' points.

    Sources and files are read now: cells may be changed before the study is bundled.
    """
    counts, points, begin = Counter(numbers), [], 0
    for point in sorted(plan, key=lambda one: one.number):
        end = begin + counts[point.number]
        if end > begin:
            points.append((_resolved(point), range(begin, end)))
        begin = end
    return Recipe(job, points, _sources(job, points))


def _sources(job: Job, points: list[tuple[Point, range]]) -> dict[int, SourceText | None]:
    values = [job.program, job.measure, *job.args]
    values += [value for point, _ in points for value in point.parameters.values()]
    found: dict[int, SourceText | None] = {}
    for value in values:
        function = getattr(value, "func", value)  # functools.partial
        if isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = None
            with contextlib.suppress(Exception):  # a sweep must not fail for what nobody may ever bundle
                found[id(function)] = source_of(function)
    return found


def _resolved(point: Point) -> Point:
    """Return a point with the platform's file that it names read."""
    with contextlib.suppress(Exception):  # as above
        if isinstance(point.on, str | os.PathLike) and os.path.isfile(point.on):
            from labkit.machines import platform

            return replace(point, on=platform(point.on))
    return point
