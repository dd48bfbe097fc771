"""What ranks do when: without gaps, as hand-made runs say, and in cells as an integral of the intervals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.trace.activity import STATES, Activity, activity
from tests.support.refusals import raises_code

KINDS = [state.name for state in STATES]
COMPUTING, CALLS, MESSAGE, SENDER, RECEIVER = map(
    KINDS.index,
    ("computing", "start-ups and calls", "message under way", "late sender", "late receiver"),
)


def late(comm: object) -> None:
    """Rank 0 is late to send, rank 3 is late to receive a message too large to leave without it."""
    if comm.rank == 0:
        lk.compute(seconds=1.0)
        comm.send(b"x", 1)
    elif comm.rank == 1:
        comm.recv(source=0)
    elif comm.rank == 2:
        comm.send(b"x" * 1_000_000, 3)
    else:
        lk.compute(seconds=2.0)
        comm.recv(source=2)


def times(what: Activity, rank: int) -> dict[int, float]:
    rows = what.rank == rank
    spent = np.bincount(what.kind[rows], (what.end_s - what.begin_s)[rows], len(KINDS))
    return dict(enumerate(spent))


def test_who_waits_for_whom() -> None:
    what = activity(lk.run(late, 4, on="star:4,bw=1MBps", model="raw", trace=True).trace)
    assert times(what, 0)[COMPUTING] == pytest.approx(1.0)
    assert times(what, 1)[SENDER] == pytest.approx(1.0, abs=1e-3)
    assert times(what, 1)[COMPUTING] == 0
    assert times(what, 2)[RECEIVER] == pytest.approx(2.0, abs=1e-3)
    assert times(what, 2)[MESSAGE] == pytest.approx(times(what, 3)[MESSAGE], rel=1e-3)
    assert times(what, 2)[MESSAGE] > 0.9, "1 MB at 1 MB/s"


def all_kinds(comm: object) -> None:
    with lk.phase("work"):
        lk.compute(seconds=1e-5 * (comm.rank % 3))
    comm.bcast(b"x" * 100_000, 0)
    comm.alltoall([b"y" * 10] * comm.size)
    if comm.rank:
        comm.send(b"z" * 300_000, 0)
    else:
        for _ in range(1, comm.size):
            comm.recv()


@pytest.mark.parametrize("model", ["lab", "smpi", "raw"])
def test_the_intervals_of_a_rank_fill_its_time(model: str) -> None:
    trace = lk.run(all_kinds, 13, on="torus", model=model, trace=True).trace
    what = activity(trace)
    assert what.ranks == 13
    for rank in range(13):
        rows = np.flatnonzero(what.rank == rank)
        begin, end = what.begin_s[rows], what.end_s[rows]
        assert begin[0] == 0
        assert end[-1] == pytest.approx(trace.ends_s[rank], rel=1e-12)
        assert (end[:-1] == begin[1:]).all()
    assert (what.end_s > what.begin_s).all()
    assert what.shares().sum() == pytest.approx(sum(trace.ends_s) / 13 / max(trace.ends_s))


def integral(what: Activity, groups: int, bins: int) -> np.ndarray:
    size, step = -(-what.ranks // groups), what.makespan_s / bins
    table = np.zeros((len(KINDS), groups, bins))
    for rank, kind, begin, end in zip(what.rank, what.kind, what.begin_s, what.end_s, strict=True):
        for i in range(bins):
            members = min(size, what.ranks - rank // size * size)
            overlap = max(0.0, min(end, (i + 1) * step) - max(begin, i * step))
            table[kind, rank // size, i] += overlap / (members * step)
    return table


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_cells_are_the_integral_of_the_intervals(data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, 7))
    groups, bins = data.draw(st.integers(1, ranks)), data.draw(st.integers(1, 9))
    groups = -(-ranks // -(-ranks // groups))  # groups that are not empty
    columns: list[list[float]] = [[], [], [], []]
    for rank in range(ranks):
        at = 0.0
        for length in data.draw(st.lists(st.floats(1e-3, 5.0), max_size=6)):
            row = (rank, data.draw(st.integers(0, 4)), at, at + length)
            for column, value in zip(columns, row, strict=True):
                column.append(value)
            at += length
    rank_, kind = (np.array(c, np.int64) for c in columns[:2])
    begin, end = (np.array(c, np.float64) for c in columns[2:])
    what = Activity(rank_, kind, rank_, begin, end, ranks, float(end.max(initial=1.0)))
    np.testing.assert_allclose(what.cells(groups, bins), integral(what, groups, bins), atol=1e-9)


def test_a_run_without_messages_and_one_without_anything() -> None:
    what = activity(lk.run(lambda comm: lk.compute(seconds=1.0), 2, on="star", trace=True).trace)
    assert list(what.kind) == [COMPUTING] * 2
    nothing = activity(lk.run(lambda comm: None, 2, on="star", trace=True).trace)
    assert len(nothing) == 0
    assert nothing.makespan_s == 0


@pytest.mark.parametrize("times", [3, None, "abc", [1, 2], [(0, "x", 1)], [(0, 1)]])
def test_times_to_leave_out_are_spans_of_ranks(times) -> None:
    trace = lk.run(lambda comm: comm.barrier(), 2, on="star", trace=True).trace
    with raises_code(DataError, "wrong-type", "times"):
        trace.without(times)
