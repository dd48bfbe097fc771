"""Nonblocking collectives in the trace, on the critical path and in the time line."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import labkit as lk
from labkit.plot import gantt
from labkit.plot.gantt_figure import lanes_of
from labkit.trace.activity import activity
from labkit.trace.explanation import critical_path


def program(comm):
    x, y, z = np.ones(30_000), np.zeros(30_000), np.zeros(2000)
    lk.compute(seconds=1e-4 * comm.rank)
    first, second = comm.Iallreduce(x, y), comm.Ibcast(z, comm.size - 1)
    lk.compute(seconds=4e-4)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(np.ones(100), right, 1, np.zeros(100), left, 1)
    second.Wait()
    first.Wait()
    third = comm.Ialltoall(np.ones(comm.size * 500), np.zeros(comm.size * 500))
    lk.compute(seconds=1e-4)
    third.Wait()


@pytest.fixture(scope="module", params=[3, 6, 7])
def run(request):
    return lk.run(program, request.param, on="star", trace=True)


def test_operations_are_recorded_with_their_messages(run) -> None:
    table, messages = run.trace.operations, run.trace.messages
    assert sorted(table["name"].unique()) == ["Iallreduce", "Ialltoall", "Ibcast"]
    assert len(table) == 3 * run.ranks
    assert (table["begin_s"] <= table["end_s"]).all()
    assert table["end_s"].max() <= run.makespan_s
    for side, rank in (("send_operation", "source"), ("recv_operation", "destination")):
        by = messages[messages[side] >= 0]
        assert (table["rank"].to_numpy()[by[side]] == by[rank]).all()
    # a Sendrecv is the ranks' own; all other messages are between operations of the same name
    assert ((messages["send_operation"] < 0) == (messages["recv_operation"] < 0)).all()
    assert (messages["send_operation"] < 0).sum() == run.ranks
    beside = messages[messages["send_operation"] >= 0]
    names = table["name"].to_numpy()
    assert (names[beside["send_operation"]] == names[beside["recv_operation"]]).all()


def test_waits_for_operations_are_waits_for_their_messages(run) -> None:
    waits, table = run.trace.waits, run.trace.operations
    ended = waits[waits["operation"] >= 0]
    assert len(ended)
    of = table.loc[ended["operation"]].reset_index(drop=True)
    assert (of["rank"].to_numpy() == ended["rank"]).all()
    assert (of["begin_s"].to_numpy() <= ended["begin_s"]).all()
    assert (of["end_s"].to_numpy() >= ended["end_s"]).all()
    messages = run.trace.messages.loc[ended["message"]]
    sides = messages[["send_operation", "recv_operation"]].to_numpy()
    assert (sides == ended["operation"].to_numpy()[:, None]).any(axis=1).all()


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_waiting_at_once_looks_like_the_blocking_call(ranks) -> None:
    def blocking(comm):
        lk.compute(seconds=1e-5 * comm.rank)
        comm.Allreduce(np.ones(30_000), np.zeros(30_000))

    def nonblocking(comm):
        lk.compute(seconds=1e-5 * comm.rank)
        comm.Iallreduce(np.ones(30_000), np.zeros(30_000)).Wait()

    first, second = (lk.run(f, ranks, on="star", trace=True) for f in (blocking, nonblocking))
    columns = ["rank", "begin_s", "end_s"]
    tables = [run.trace.waits[columns].sort_values(columns).to_numpy().tolist() for run in (first, second)]
    assert tables[0] == tables[1]
    assert activity(first.trace).shares().tolist() == activity(second.trace).shares().tolist()
    assert first.explain().totals().to_dict() == pytest.approx(second.explain().totals().to_dict())


def test_the_critical_path_has_no_gap(run) -> None:
    steps = critical_path(run.trace)
    assert steps[0].begin_s == 0.0
    assert steps[-1].end_s == run.makespan_s
    assert all(a.end_s == b.begin_s for a, b in pairwise(steps))
    assert any(step.kind == "transfer" for step in steps)


def test_every_rank_does_one_thing_at_a_time(run) -> None:
    what = activity(run.trace)
    for rank in range(run.ranks):
        rows = what.rank == rank
        assert (what.begin_s[rows][1:] == what.end_s[rows][:-1]).all()


def test_what_is_hidden_behind_a_computation_is_not_on_the_path() -> None:
    def hidden(comm):
        x, y = np.ones(1000), np.zeros(1000)
        request = comm.Iallreduce(x, y)
        lk.compute(seconds=0.5 if comm.rank == 0 else 0.1)
        request.Wait()

    run = lk.run(hidden, 4, on="star", trace=True)
    reasons = run.explain().totals()
    assert reasons["computation"] == pytest.approx(0.5, rel=1e-12)
    assert reasons.sum() - reasons["computation"] < 1e-4


def test_the_time_line_draws_them(run) -> None:
    figure = gantt(run)
    assert "nonblocking collective" in figure.reading


def test_lanes_do_not_overlap() -> None:
    rank, begin, end = np.array([0, 0, 1, 0, 0]), np.array([0.0, 1, 1, 2, 5]), np.array([4.0, 3, 9, 6, 7])
    assert lanes_of(rank, begin, end).tolist() == [0, 1, 0, 2, 0]


def test_runs_without_any_are_as_before() -> None:
    run = lk.run(lambda comm: comm.Barrier(), 3, on="star", trace=True)
    assert run.trace.beside is None
    assert len(run.trace.operations) == 0
    assert "operation" not in run.trace.waits
    assert "send_operation" not in run.trace.messages
