"""The answers of labkit to the sets: the questions of compare.py in labkit's own calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import sets

from labkit.scaling import Model, Term, find_changes, fit_many, fit_surface, judge
from labkit.scaling import fit as fit_model


class ours:  # noqa: N801  a namespace
    """Answers, one call each."""

    @staticmethod
    def fit(curve: Any) -> Model:
        return fit_model(curve.x, curve.y)

    @staticmethod
    def fit_sets(data: Sequence[sets.Set]) -> list[Model]:
        groups: dict[bytes, list[int]] = {}
        for i, s in enumerate(data):
            groups.setdefault(s.x.tobytes(), []).append(i)
        models: dict[int, Model] = {}
        for rows in groups.values():
            found = fit_many(data[rows[0]].x, np.stack([data[i].y for i in rows]))
            models.update(zip(rows, found, strict=True))
        return [models[i] for i in range(len(data))]

    @staticmethod
    def predict(model: Model, x: float) -> float:
        return float(model.predict(x))

    @staticmethod
    def judge_noisy(s: sets.Set, sqrt: Term) -> dict[str, bool]:
        alone, right = fit_model(s.x, s.y), judge(s.x, s.y, str(s.term), space="ruler")
        joined, high = judge(s.x, s.y, str(s.term)), judge(s.x, s.y, str(s.term.times(sqrt)))
        out = {
            "exact leading term, no expectation": alone.term == s.term,
            "exact leading term, right expectation and its ruler": right.model.term == s.term,
            "exact leading term, right expectation, joined space": joined.model.term == s.term,
            "right expectation not rejected": joined.is_plausible,
            "expectation too high by sqrt(p) not rejected": high.is_plausible,
            "right expectation called none or undecided": joined.match in ("none", "undecided"),
        }
        for _k, (times, truth) in enumerate(zip(sets.BEYOND, s.beyond, strict=False)):
            low, top = alone.interval(s.x[-1] * times)
            out[f"95 % interval at {times} times the range holds the truth"] = bool(low <= truth <= top)
        return out

    @staticmethod
    def claims_exact(curve: sets.Curve) -> bool:
        """Return whether any single law is called an exact match of the curve."""
        term = fit_model(curve.x, curve.y).term
        return any(judge(curve.x, curve.y, e).match == "exact" for e in {str(term), "1", "log p"})

    @staticmethod
    def sum_terms(curve: sets.Curve) -> set[Term]:
        return {part.term for part in fit_model(curve.x, curve.y).parts}

    @staticmethod
    def holds(curve: sets.Curve) -> list[bool]:
        """Return whether the intervals beyond the range hold the truth."""
        model = fit_model(curve.x, curve.y)
        ends = [model.interval(times * curve.x[-1]) for times in sets.BEYOND]
        return [bool(low <= v <= top) for (low, top), v in zip(ends, curve.beyond, strict=True)]

    @staticmethod
    def changes(curve: sets.Curve) -> list[int]:
        return [int(np.searchsorted(curve.x, at)) for at in find_changes(curve.x, curve.y)]

    @staticmethod
    def surface(s: sets.Surface) -> set[tuple[Term, Term]]:
        return {one.terms for one in fit_surface(s.x1, s.x2, s.y).summands}

    @staticmethod
    def match(curve: Any, expectation: str) -> str:
        return judge(curve.x, curve.y, expectation).match
