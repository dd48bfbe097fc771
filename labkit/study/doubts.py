"""Doubts about the measurements of a place: said in the verdict, also when the study is read later."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from labkit.place import place_doubt
from labkit.scaling import Expectation, Term, Verdict
from labkit.scaling.deviation import deviation_for
from labkit.study.selection import NothingMeasured, bind

__all__ = ["doubted", "unmeasured"]


def doubted(verdict: Verdict, machines: Any) -> Verdict:
    """Give a verdict over measurements that are not valid the reason that their place is."""
    if not isinstance(machines, Mapping):
        return verdict
    places = {str(one["place"]) for one in machines.values() if isinstance(one, Mapping) and "place" in one}
    found = [doubt for doubt in map(place_doubt, sorted(places)) if doubt is not None]
    if not found:
        return verdict
    return replace(verdict, match="undecided", reasons=(*found, *verdict.reasons))


def unmeasured(
    nothing: NothingMeasured,
    expectation: str | Expectation,
    given: Mapping[str, float | int | str],
    deviation: str | Term | None,
) -> Verdict:
    """Return the verdict over a curve that is 0 everywhere: undecided, as any bound would hold."""
    curve = nothing.curve
    e = bind(expectation, curve, {**curve.given, **given})
    return Verdict(
        "undecided", e, None, None, deviation_for(e.term, deviation), reasons=(str(nothing),),
        metric=curve.metric, unit=curve.unit, phase=curve.phase,
    )  # fmt: skip
