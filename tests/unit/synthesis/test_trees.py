"""An allreduce along many trees: complete on any machine, one message on a link, near the bound."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.schedule import check
from labkit.sim.schedules import perform
from labkit.synthesis import synthesize
from labkit.synthesis.attempts import up_and_down
from labkit.synthesis.fabric import fabric_of
from labkit.synthesis.programs import schedule_of
from tests.support.cables import ring_with_chords


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=5),
    st.lists(st.sampled_from([5, 10, 40]), min_size=1, max_size=4),
    st.integers(1, 7),
    st.integers(1, 2),
    st.booleans(),
)
def test_every_chunk_goes_up_and_down_one_tree(p, chords, bandwidths, parts, window, is_paced):
    platform = ring_with_chords(p, [(a % p, b % p) for a, b in chords], bandwidths)
    fabric = fabric_of(platform, p, lk.platform("star:2,model=raw").model)
    plan = up_and_down(fabric, parts, 1e5, seed=2, window=window)
    for chunk in range(parts):
        mine = [one for one in plan.transfers if one.chunks == (chunk,)]
        up = {(one.source, one.destination) for one in mine if one.is_combined}
        assert up == {(one.destination, one.source) for one in mine if not one.is_combined}
        assert len(mine) == 2 * (p - 1)
    if window == 1:
        of_link = {}
        for one in plan.transfers:
            for link in one.links:
                of_link.setdefault(link, []).append((one.begin_s, one.end_s))
        for spans in of_link.values():
            assert all(b[0] >= a[1] * (1 - 1e-9) for a, b in pairwise(sorted(spans)))
    schedule = schedule_of("allreduce", p, 0, parts, plan, is_paced)
    assert check(schedule)
    sent = [np.arange(11, dtype=np.int64) * (rank + 1) for rank in range(p)]
    got = [np.zeros(11, np.int64) for _ in range(p)]
    perform(schedule, [{"send": s, "recv": r} for s, r in zip(sent, got, strict=True)], platform, op="sum")
    assert all(np.array_equal(one, sum(sent)) for one in got)


@pytest.mark.parametrize(
    "edges",
    [
        [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5)],
        [(i, "switch", {"bw": "2Gbps" if i == 3 else "10Gbps"}) for i in range(6)],
    ],
)
def test_both_halves_overlap_where_a_link_is_narrow(edges):
    """The bound is the message once: an allgather after a reduce-scatter takes nearly twice as long."""
    made = synthesize(
        "allreduce", lk.graph(edges, range(6), bw="10Gbps", lat="1us"), n_bytes=1 << 20, model="raw"
    )
    assert made.ratio < 1.25
    assert "up and down many trees" in made.method
    others = [time_s for text, time_s in made.tried if "many trees" not in text]
    assert min(others) > 1.5 * made.bound.seconds
