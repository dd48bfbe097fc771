"""A measured run against a predicted one: planted faults are named, healthy runs are left alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.program.variation import Variation
from labkit.timing.clocks import Clocks
from tests.support.refusals import raises_code

RANKS, STEPS, ON = 8, 12, "torus:4x2"


def program(comm: Any, stall_s: float = 0.0, n: int = 4000) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    edge = np.zeros(n)
    for step in range(STEPS):
        requests = [comm.Irecv(edge.copy(), left, 1), comm.Irecv(edge.copy(), right, 2)]
        with lk.phase("solve"):
            lk.compute(seconds=2e-3)
            if comm.rank == 3 and step == 5:
                lk.compute(seconds=stall_s)
        requests += [comm.Isend(edge, right, 1), comm.Isend(edge, left, 2)]
        lk.MPI.Request.Waitall(requests)
        comm.Allreduce(np.zeros(2), np.zeros(2))
        comm.Allreduce(np.zeros(n), np.zeros(n))


def noise(seed: int) -> Any:
    return lk.Noise(jitter_s=10e-6, period_s=1e-3, seed=seed)


@pytest.fixture(scope="module")
def predicted() -> Any:
    return lk.run(program, RANKS, ON, trace=True)


class Links(Variation):
    def platform(self, built: Any, kind_of: Any) -> Any:
        bad = [at for at in range(built.link_count) if built.link_name(at) == "2 -> 3 (+x)"]
        assert len(bad) == 1
        return built.degraded(bad, 0.2, 1.0)


def test_healthy_runs_are_left_alone(predicted: Any) -> None:
    for seed in range(4):
        found = lk.run(program, RANKS, ON, trace=True, noise=noise(seed)).against(predicted)
        assert not found.findings, found
        assert "In no rank" in found.reading()
    same = predicted.against(predicted)
    assert (same.samples["measured_s"] == same.samples["predicted_s"]).all()
    assert not same.findings


def test_a_slow_rank_a_stall_a_bad_link_and_a_wrong_algorithm_are_named(predicted: Any) -> None:
    slow = predicted.again(trial=Variation({"solve": [1.0] * 5 + [1.5] + [1.0] * 2}), noise=noise(1))
    first = slow.against(predicted).findings[0]
    assert (first.kind, first.by, first.where) == ("computation", "rank", "rank 5 (host 5)")
    assert first.factor == pytest.approx(1.5, rel=0.05)
    assert first.excess_s == pytest.approx(STEPS * 1e-3, rel=0.15)
    assert first.chance < 1e-3

    stalled = lk.run(program, RANKS, ON, trace=True, noise=noise(2), stall_s=0.2).against(predicted)
    first = stalled.findings[0]
    assert (first.what, first.where, first.members) == ("stall", "rank 3", 1)
    assert first.excess_s == pytest.approx(0.2, rel=0.05)
    assert "Computation on rank 3 stalled" in stalled.reading()
    assert stalled.members(first).tolist() == [stalled.samples["measured_s"].idxmax()]

    bad = predicted.again(trial=Links(), noise=noise(3)).against(predicted)
    first = bad.findings[0]
    assert (first.kind, "2 -> 3 (+x)" in first.where) == ("message", True)
    assert first.factor > 3

    other = lk.run(program, RANKS, ON, trace=True, noise=noise(4), coll="allreduce=ring").against(predicted)
    assert other.findings[0].where.startswith("Allreduce")
    assert other.table()["where"].iloc[0] == other.findings[0].where


def test_a_machine_of_which_everything_is_slower_is_called_so() -> None:
    how = {"trace": True, "coll": "smpi"}  # messages of several sizes: what one size has is named by that
    predicted = lk.run(program, RANKS, ON, **how)
    slower = lk.run(program, RANKS, "torus:4x2,bw=250MBps", **how).against(predicted)
    assert any(one.kind == "message" and one.what == "whole" for one in slower.findings)


def test_what_is_shown_says_the_same(predicted: Any) -> None:
    found = lk.run(program, RANKS, ON, trace=True, stall_s=0.2).against(predicted)
    assert found.reading() in found._repr_html_().replace("&gt;", ">")
    drawn = lk.plot.misfits(found)
    assert drawn.reading == found.reading()
    assert lk.plot.misfits(predicted.against(predicted)).reading
    with raises_code(DataError, "wrong-arguments"):
        lk.plot.misfits(predicted)


def test_runs_that_do_not_fit_are_refused(predicted: Any) -> None:
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.run(program, RANKS, ON).against(predicted)
    with raises_code(DataError, "wrong-type", "3"):
        predicted.against(3)
    with raises_code(DataError, "count-mismatch"):
        lk.run(program, 4, "star:4", trace=True).against(predicted)

    def another(comm: Any) -> None:
        comm.Barrier()

    with raises_code(DataError, "not-comparable"):
        lk.run(another, RANKS, ON, trace=True).against(predicted)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_few_ranks_and_programs_without_calls(ranks: int) -> None:
    run = lk.run(program, ranks, f"star:{ranks}", trace=True)
    assert not lk.run(program, ranks, f"star:{ranks}", trace=True, noise=noise(5)).against(run).findings
    nothing = lk.run(lambda comm: None, ranks, f"star:{ranks}", trace=True)
    assert not nothing.against(nothing).findings


@pytest.mark.mpi
def test_a_stall_of_a_real_rank_is_named() -> None:
    import time

    def real(comm: Any, is_real: bool) -> None:
        for step in range(15):
            if is_real:
                time.sleep(2e-3 + (0.3 if (comm.rank, step) == (2, 6) else 0.0))
            else:
                lk.compute(seconds=2e-3)
            comm.Allreduce(np.zeros(2), np.zeros(2))

    simulated = lk.run(real, 4, "star:4", trace=True, is_real=False)
    found = lk.run(real, 4, "mpi", trace=True, is_real=True).against(simulated)
    stalls = [one.where for one in found.findings if one.what == "stall" and one.kind == "computation"]
    assert stalls[:1] == ["rank 2"]


def ring(
    comm: Any, sleeper: int, asleep_s: float, is_overlapped: bool, send: str = "Issend", is_real: bool = False
) -> None:
    """A ring in which a rank is late once, before its messages or while they are under way."""
    import time

    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    edge, got = np.zeros(64), np.zeros(64)

    def work(step: int) -> None:
        late_s = asleep_s if (comm.rank, step) == (sleeper, 7) else 0.0
        if is_real:
            time.sleep(2e-3 + late_s)
        else:
            lk.compute(seconds=2e-3 + late_s)

    for step in range(20):
        if not is_overlapped:
            work(step)
        # a Waitall that lasts for its send hides when the message came
        requests = [comm.Irecv(got, left), getattr(comm, send)(edge, right)]
        if is_overlapped:
            work(step)
        lk.MPI.Request.Waitall(requests)


def as_a_real_run(run: Any) -> Any:
    """The run as a recorder of real MPI sees it: a message is over when a call of its receiver is."""
    messages, calls = run.trace.messages.copy(), run.trace.calls
    waits = calls[calls["call"].str.startswith("Wait")]
    for row in range(len(messages)):
        rank, end_s = messages["destination"].iloc[row], messages["end_s"].iloc[row]
        own = waits[(waits["rank"] == rank) & (waits["end_s"] >= end_s)]
        messages.loc[messages.index[row], "end_s"] = own["end_s"].min()
    there_s = messages[["send_posted_s", "recv_posted_s"]].max(axis=1).to_numpy()
    ready = run.trace.waits.assign(ready_s=there_s[run.trace.waits["message"].to_numpy()])
    clocks = Clocks([[] for _ in range(run.ranks)])
    return replace(run, trace=replace(run.trace, messages=messages, waits=ready, clocks=clocks))


@pytest.mark.parametrize("send", ["Isend", "Issend"])
@pytest.mark.parametrize("is_overlapped", [False, True])
@pytest.mark.parametrize(("ranks", "sleeper"), [(4, 0), (4, 3), (3, 1), (8, 5)])
def test_the_rank_that_slept_is_the_cause_and_no_message_that_met_it(
    ranks: int, sleeper: int, is_overlapped: bool, send: str
) -> None:
    predicted = lk.run(ring, ranks, f"star:{ranks}", trace=True, args=(sleeper, 0.0, is_overlapped, send))
    slept = lk.run(
        ring, ranks, f"star:{ranks}", trace=True, noise=noise(7), args=(sleeper, 0.3, is_overlapped, send)
    )
    found = as_a_real_run(slept).against(predicted)
    first = found.findings[0]
    assert (first.kind, first.what, first.where) == ("computation", "stall", f"rank {sleeper}")
    assert first.excess_s == pytest.approx(0.3, rel=0.05)
    assert [one.kind for one in found.findings if one.what == "stall"] == ["computation"]
