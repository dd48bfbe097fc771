"""The search of mappings: against random ones, against all of them, and simulated."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import labkit as lk
from labkit.errors import DataError
from labkit.models import LinkLoads, search_mapping


def stencil(side: int, seed: int, volume: float = 1e6) -> NDArray[np.float64]:
    """Six neighbors on a periodic cube of ranks, the ranks shuffled."""
    order = np.random.default_rng(seed).permutation(side**3)
    places, volumes = np.arange(side**3).reshape((side,) * 3), np.zeros((side**3, side**3))
    for axis in range(3):
        beside = np.roll(places, 1, axis=axis).ravel()
        for one, other in ((places.ravel(), beside), (beside, places.ravel())):
            volumes[order[one], order[other]] += volume
    return volumes


def test_better_than_the_best_of_many_random_ones() -> None:
    volumes = stencil(4, 1)
    found, worst = search_mapping(volumes, "torus:4x4x4"), search_mapping(volumes, "torus:4x4x4", worst=True)
    loads, rng = LinkLoads(volumes, "torus:4x4x4"), np.random.default_rng(2)
    random = [loads.busiest_s(rng.permutation(64)) for _ in range(3000)]
    assert found.busiest_s <= min(random)
    assert worst.busiest_s >= max(random)
    assert sorted(found.hosts) == list(range(64))
    assert "busiest link" in str(found)

    def program(comm: Any) -> None:
        peers = np.flatnonzero(volumes[comm.rank])
        sends = [comm.Isend(lk.sized(10**6), int(peer)) for peer in peers]
        lk.MPI.Request.Waitall([*(comm.Irecv(lk.sized(10**6), int(peer)) for peer in peers), *sends])

    best_s, default_s, worst_s = (
        lk.run(program, 64, "torus:4x4x4", mapping=m).makespan_s for m in (found.hosts, None, worst.hosts)
    )
    assert best_s < default_s < worst_s
    assert best_s >= found.busiest_s
    assert worst_s >= worst.busiest_s


def test_the_best_of_all_is_found_where_all_can_be_tried() -> None:
    volumes = np.random.default_rng(3).integers(0, 100, (6, 6)) * 1e4
    loads = LinkLoads(volumes, "torus:3x2")
    everything = [loads.busiest_s(np.array(places)) for places in permutations(range(6))]
    assert search_mapping(volumes, "torus:3x2", steps=3000).busiest_s == pytest.approx(min(everything))
    assert search_mapping(volumes, "torus:3x2", steps=3000, worst=True).busiest_s == pytest.approx(
        max(everything)
    )


def test_the_same_seed_finds_the_same_and_no_steps_the_order() -> None:
    volumes = stencil(2, 4)
    assert search_mapping(volumes, "torus:2x2x2", seed=5) == search_mapping(volumes, "torus:2x2x2", seed=5)
    none = search_mapping(volumes, "torus:2x2x2", steps=0)
    assert none.hosts == list(range(8))
    assert none.busiest_s == none.default_s


@pytest.mark.parametrize("volume", [np.zeros((2, 3)), [[1.0]], [[0, -1], [0, 0]], [[0, np.nan], [0, 0]]])
def test_what_is_no_volume_is_refused(volume: Any) -> None:
    with pytest.raises(DataError):
        search_mapping(volume, "star")
    with pytest.raises(DataError):
        search_mapping(np.ones((2, 2)), "star", steps=-1)
