"""Pipelines with receives posted ahead: proved complete, the same messages; a broadcast gains by it."""

from __future__ import annotations

import pytest

from labkit import registry
from labkit.schedule import check, count
from labkit.sim.schedules import simulate

TREES = ("binary", "chain", "kary", "knomial", "pipeline", "smp_binary", "smp_binomial", "smp_linear")
CASES = [("bcast", name) for name in TREES] + [("bcast", "linear_segmented"), ("reduce", "pipeline")]


@pytest.mark.parametrize(("problem", "name"), CASES)
@pytest.mark.parametrize("ahead", [2, 3, 5, 100])
def test_any_number_of_segments_is_received_ahead(problem: str, name: str, ahead: int) -> None:
    for ranks in (1, 2, 3, 4, 5, 7, 8, 9, 16):
        made = registry.get(problem, f"{name}:segments=5:ahead={ahead}").build(ranks)
        assert check(made), f"{ranks} ranks"
        usual = registry.get(problem, f"{name}:segments=5").build(ranks)
        assert count(made, 1000.0) == count(usual, 1000.0)


def test_a_broadcast_that_posts_all_waits_for_nobody() -> None:
    times = [
        simulate(
            registry.get("bcast", f"pipeline:segments=32:ahead={ahead}").build(8), "star:8", n_bytes=1 << 18
        ).makespan_s
        for ahead in (1, 2, 32)
    ]
    assert times == sorted(times, reverse=True)
    assert times[-1] < times[0]
