"""Rounds and bytes counted on the registry's schedules at twelve numbers of ranks."""

from __future__ import annotations

import numpy as np
import pytest

from labkit import registry
from labkit.errors import ScheduleError
from labkit.scaling import fit, judge
from labkit.schedule import count

MIXED = np.sort(np.concatenate([2 ** np.arange(1, 7), 3 * 2 ** np.arange(6)]))
#: cheap to count; all others are marked slow
QUICK = {"barrier", "bcast", "scan", "exscan"}
#: their trees tell a few words of sizes beside the blocks
TELLING = {"gatherv", "scatterv"}


@pytest.mark.parametrize(
    ("problem", "name"),
    [pytest.param(*one, marks=[] if one[0] in QUICK else [pytest.mark.slow]) for one in registry.schedules()],
)
def test_a_count_has_its_exact_law_or_none(problem: str, name: str) -> None:
    for ranks in (MIXED, np.arange(2, 25, 2), 2 ** np.arange(1, 9)):
        try:
            counts = np.array([count(registry.get(problem, name).build(int(p)), 8192) for p in ranks])
            break
        except ScheduleError:  # refuses these numbers of ranks
            continue
    else:
        pytest.skip("two ranks only")
    limit = 1e-3 if problem in TELLING else 1e-9
    for y in counts.T[:2]:
        if y.min() <= 0:
            continue
        tolerance = limit if problem in TELLING else 0
        model = fit(ranks, y, tolerance=tolerance)
        verdict = judge(ranks, y, str(model.term), tolerance=tolerance)
        if model.error <= limit and model.before is None:
            assert verdict.match == "exact"
        else:  # no model, or one that changes on the way
            assert model.is_nearest or model.before is not None
            assert verdict.match != "exact"
