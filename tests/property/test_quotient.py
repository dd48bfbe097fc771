"""Two ranks for all: the same times as the whole engine, or no quotient at all."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import registry
from labkit.schedule.schedule import Schedule
from labkit.schedule.step import Column, Step
from labkit.sim.schedules import simulate

SYMMETRIC = [
    *(("allreduce", name) for name in ("recursive_doubling", "rabenseifner", "ring")),
    *(("alltoall", name) for name in ("bruck", "linear", "pairwise")),
    *(("allgather", name) for name in ("bruck", "recursive_doubling", "ring")),
    *(("barrier", "dissemination"), ("reduce_scatter_block", "recursive_halving")),
]


@st.composite
def stars(draw):
    options = [f"bw={draw(st.integers(1, 5000))}MBps", f"lat={draw(st.integers(0, 50_000))}ns"]
    if draw(st.booleans()):
        options.append(f"limiter={draw(st.integers(1, 5000))}MBps")
    if draw(st.booleans()):
        options.append("loopback_bw=6GBps,loopback_lat=100ns")
    options.append(f"sharing={draw(st.sampled_from(['splitduplex', 'shared', 'fatpipe']))}")
    return "star," + ",".join(options)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    which=st.sampled_from(SYMMETRIC),
    ranks=st.sampled_from([64, 65, 72, 96]),
    n_bytes=st.sampled_from([0, 1, 8, 4096, 65_535, 65_536, 200_000]),
    on=stars(),
    model=st.sampled_from(["raw", "cm02", "lv08", "smpi", "lab", "loggps"]),
    start_s=st.sampled_from([None, 1e-3]),
    combine=st.sampled_from([0.0, 1e-9]),
)
def test_the_times_are_those_of_all_ranks(which, ranks, n_bytes, on, model, start_s, combine) -> None:
    schedule = registry.get(*which).build(ranks)
    starts = None if start_s is None else np.full(ranks, start_s)
    given_ = {"n_bytes": n_bytes, "start_s": starts, "combine_s_per_byte": combine}
    two, whole = (simulate(schedule, on, model, symmetry=yes, **given_) for yes in (True, False))
    assert (two.messages, two.bytes) == (whole.messages, whole.bytes)
    np.testing.assert_allclose(two.end_s, whole.end_s, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("problem", "name"), SYMMETRIC)
def test_these_are_simulated_by_two(problem, name) -> None:
    assert simulate(registry.get(problem, name).build(64), n_bytes=64).representatives == 2


@pytest.mark.parametrize(
    ("problem", "name", "ranks", "options"),
    [
        ("bcast", "binomial", 64, {}),
        ("scan", "recursive_doubling", 64, {}),
        ("allreduce", "recursive_doubling", 72, {}),  # some ranks step aside first
        ("allreduce", "rabenseifner", 64, {"n_bytes": 65}),  # parts of unequal length
        ("allreduce", "recursive_doubling", 64, {"on": "torus:8x8"}),
        ("allreduce", "recursive_doubling", 64, {"on": "star:64,bb_bw=1GBps"}),
        ("allreduce", "recursive_doubling", 64, {"on": "star:32,cores=2"}),
        ("allreduce", "recursive_doubling", 64, {"start_s": np.linspace(0, 1e-6, 64)}),
        ("allreduce", "recursive_doubling", 32, {}),
        ("alltoall", "linear", 64, {"model": "ib"}),  # its penalties count hosts
        (
            "alltoallv",
            "pairwise",
            16,
            {"counts": {"send": np.eye(64, dtype=int), "recv": np.eye(64, dtype=int)}},
        ),
    ],
)
def test_these_are_simulated_whole(problem, name, ranks, options) -> None:
    assert simulate(registry.get(problem, name).build(ranks), **options).representatives == ranks


def _changed(schedule: Schedule, change) -> Schedule:
    """The same schedule with one of its columns changed."""
    return dataclasses.replace(schedule, generator=lambda group: map(change, schedule.generator(group)))


def _other_peer(step: Step) -> Step:
    """Ranks 0 and 1 exchange their partners, everywhere: still a permutation, no longer one group."""
    swap = np.arange(64)
    swap[[0, 1]] = 1, 0
    columns = []
    for column in step.columns:
        peer = column.peer
        if isinstance(peer, np.ndarray):
            peer = swap[peer[swap]]
        columns.append(dataclasses.replace(column, peer=peer))
    return Step(tuple(columns))


def _shorter_for_one(step: Step) -> Step:
    columns: list[Column] = []
    for column in step.columns:
        buffer, first, length, run, stride = column.section
        lengths = np.full(len(column.ranks), length) if np.ndim(length) == 0 else length.copy()
        if column.kind.is_send and buffer >= 0:
            lengths[3] = 0
        columns.append(dataclasses.replace(column, section=(buffer, first, lengths, run, stride)))
    return Step(tuple(columns))


@pytest.mark.parametrize("change", [_other_peer, _shorter_for_one])
def test_a_schedule_with_one_odd_rank_is_simulated_whole(change) -> None:
    schedule = _changed(registry.get("allgather", "ring").build(64), change)
    assert simulate(schedule, n_bytes=8).representatives == 64


def test_a_million_ranks_cost_as_many_messages_as_two() -> None:
    schedule = registry.get("allreduce", "recursive_doubling").build(1 << 16)
    found = simulate(schedule, n_bytes=8)
    assert (found.representatives, found.messages) == (2, 16 << 16)
    assert found.end_s.shape == (1 << 16,)
    assert found.events < 1000
