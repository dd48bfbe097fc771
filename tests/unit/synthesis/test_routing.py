"""All-to-all through ranks in between: its ways, its times, its proof, and what it gains."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.schedule import check
from labkit.sim.schedules import perform
from labkit.synthesis.fabric import fabric_of
from labkit.synthesis.programs import schedule_of
from labkit.synthesis.spreading import has_relays, routed
from tests.support.cables import ring_with_chords


@settings(deadline=None, max_examples=25)
@given(
    st.integers(3, 9),
    st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), max_size=5),
    st.lists(st.sampled_from([5, 10, 40]), min_size=1, max_size=4),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_every_block_comes_to_its_rank_and_no_link_has_two_messages(p, chords, bandwidths, parts, window):
    platform = ring_with_chords(p, [(a % p, b % p) for a, b in chords], bandwidths)
    fabric = fabric_of(platform, p, lk.platform("star:2,model=raw").model)
    plan = routed(fabric, parts, 1e4, seed=1, window=window)
    trail = {}
    for one in plan.transfers:
        assert one.destination in fabric.beside[one.source]
        (chunk,) = one.chunks
        trail.setdefault(chunk, []).append(one)
    for chunk in (c for c in range(p * p * parts) if (c // parts) // p != (c // parts) % p):
        source, destination = divmod(chunk // parts, p)
        hops = trail.pop(chunk)
        assert (hops[0].source, hops[-1].destination) == (source, destination)
        assert all(a.destination == b.source and b.begin_s >= a.end_s * (1 - 1e-9) for a, b in pairwise(hops))
        visited = [one.source for one in hops]
        assert len(set(visited)) == len(visited)
    assert not trail
    if window == 1:
        of_link = {}
        for one in plan.transfers:
            for link in one.links:
                of_link.setdefault(link, []).append((one.begin_s, one.end_s))
        for spans in of_link.values():
            assert all(b[0] >= a[1] * (1 - 1e-9) for a, b in pairwise(sorted(spans)))
    for is_paced in (True, False):
        assert check(schedule_of("alltoall", p, 0, parts, plan, is_paced))


def test_it_goes_around_the_cable_that_routes_crowd_on():
    """Direct messages take the routes there are, here over a slow cable; blocks may go around it."""
    cables = [(0, 1), (1, 3), (0, 2), (2, 3), (0, 3, {"bw": "1Gbps"}), (3, 4), (4, 0)]
    platform = lk.graph(cables, range(5), bw="10Gbps", lat="1us")
    made = lk.synthesize("alltoall", platform, n_bytes=100_000, model="raw")
    relayed = min(s for text, s in made.tried if "near rank" in text)
    direct = min(s for text, s in made.tried if "near rank" not in text)
    assert relayed < 0.6 * direct
    assert made.time_s == relayed
    assert made.proof
    p, n = 5, 4
    data = np.arange(p * p * n).reshape(p, p, n)
    rows = [{"send": data[r].reshape(-1).copy(), "recv": np.zeros(p * n, int)} for r in range(p)]
    perform(made.schedule, rows, made.platform, made.model)
    for r in range(p):
        assert (rows[r]["recv"].reshape(p, n) == data[:, r]).all()


@pytest.mark.parametrize(("on", "expected"), [("star:6", False), ("torus:3x3", True), ("torus:2x2", True)])
def test_only_where_ranks_have_others_between_them(on, expected):
    platform = lk.platform(on)
    p = platform.capacity
    assert has_relays(fabric_of(platform.sized(p), p, platform.model)) is expected
