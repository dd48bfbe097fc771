"""Summaries: what the profile of a trace says, without one, in memory that no message makes grow."""

from __future__ import annotations

import tarfile
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit._kernels import RankLog
from labkit.errors import DataError
from labkit.trace.counters import SUMS, summary_frame
from labkit.trace.recorder.ledger import RankSummary
from tests.support.random_calls import random_step
from tests.support.refusals import raises_code

KEYS = ["rank", "phase", "call", "place"]
COUNTS = [name for name in SUMS if name != "spent_s"]

moves = st.lists(
    st.tuples(
        st.sampled_from(["send", "ssend", "isend", "allreduce", "barrier", "bcast", "reduce", "scan",
                         "persistent", "neighbor", "fence", "post", "lock"]),
        st.integers(0, 6), st.integers(1, 6), st.lists(st.integers(0, 3), min_size=8, max_size=8),
    ),
    max_size=6,
)  # fmt: skip


def apart() -> None:
    """Let time pass: by instants alone a trace cannot tell which of two events at once came first."""
    lk.compute(seconds=1e-7)


def random_phases(comm: Any, steps: Any) -> None:
    for number, (what, first, second, work) in enumerate(steps):
        with lk.phase(f"step {number % 3}"):
            lk.compute(seconds=work[comm.rank] * 1e-4)
            apart()
            root = first % comm.size
            with lk.phase("inner"):
                apart()
                random_step(comm, what, root, (first + second) % comm.size, work[-1] * 1e-4)
                apart()
            apart()
        apart()


def as_summary(profile: Any) -> Any:
    """A trace's profile with the columns of a summary, in an order that both have."""
    if "spent_s" not in profile:
        profile = profile.assign(spent_s=profile["seconds"] + profile["waiting_s"])
    held = ["memory_bytes"] if "memory_bytes" in profile else []
    profile = profile.astype(dict.fromkeys(KEYS, object))[[*KEYS, *SUMS, *held]]
    return profile.sort_values(KEYS, ignore_index=True)


def check_alike(summed: Any, traced: Any, has_times: bool = True) -> None:
    one, other = as_summary(summed.profile()), as_summary(traced.profile())
    assert one[KEYS].to_numpy().tolist() == other[KEYS].to_numpy().tolist()
    for name in COUNTS:
        assert one[name].tolist() == other[name].tolist(), name
    if has_times:
        assert one["spent_s"].to_numpy() == pytest.approx(other["spent_s"].to_numpy(), rel=1e-9, abs=1e-15)
        assert summed.makespan_s == traced.makespan_s


@settings(max_examples=12, deadline=None, phases=[Phase.generate])
@given(st.sampled_from([1, 2, 3, 4, 5, 7, 8]), moves)
def test_a_summary_is_the_profile_of_the_trace(ranks: int, steps: Any) -> None:
    runs = [
        lk.run(random_phases, ranks, on=f"star:{ranks}", steps=steps, **how)
        for how in ({"summary": True}, {"trace": True})
    ]
    assert runs[0].trace is None
    check_alike(*runs)


def calls_of_all_kinds(comm: Any, rounds: int = 3) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    with lk.phase("outer"):
        for _ in range(rounds):
            with lk.phase("ring"):
                request = comm.Irecv(np.zeros(comm.size + 4), left)
                comm.Send(np.zeros(comm.rank + 4), right)
                request.Wait()
                apart()
            apart()
            comm.Sendrecv(np.empty(0), right, 0, np.empty(0), left)
            apart()
        comm.bcast({"of": "objects"} if comm.rank == 0 else None)
        comm.Barrier()
        apart()
    comm.Allreduce(np.zeros(2), np.zeros(2))
    request = comm.Iallreduce(np.zeros(2), np.zeros(2))
    apart()
    request.Wait()
    comm.send(None, right)
    comm.recv(source=left)


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_a_summary_has_the_memory_that_is_counted(ranks: int) -> None:
    runs = [
        lk.run(calls_of_all_kinds, ranks, on=f"star:{ranks}", count=True, **how)
        for how in ({"summary": True}, {"trace": True})
    ]
    check_alike(*runs)
    one, other = (as_summary(run.profile())["memory_bytes"].tolist() for run in runs)
    assert one == other


@pytest.mark.slow
@pytest.mark.mpi
@pytest.mark.parametrize("ranks", [3])
def test_a_summary_of_real_mpi_counts_what_a_trace_counts(ranks: int) -> None:
    runs = [
        lk.run(calls_of_all_kinds, ranks, on="mpi", count=True, rounds=400, **how)
        for how in ({"summary": True}, {"trace": True})
    ]
    for run in runs:  # which rank begins first differs
        names = ["not yet begun"]
        kept = run.profile()
        kept = kept[~kept["call"].isin(names)].reset_index(drop=True)
        run.profile = lambda kept=kept: kept
    check_alike(*runs, has_times=False)
    assert (runs[0].profile().groupby("rank")["spent_s"].sum() > 0).all()


def noted(most: int, calls: int) -> tuple[Any, int]:
    """Sum up the calls of a rank by blocks; also the most calls that were kept."""
    log = RankLog(0, 1e9, False, False, True)
    summary = RankSummary(log, {"Send": 0, "Barrier": 1}, most)
    log.restart()
    log.begin_sums()
    kept = 0
    for number in range(calls):
        log.mark(f"phase {number % 3}", True)
        log.enter(number % 2, number % 5)
        if number % 2:
            log.joined(0, number, 8 * (number % 4))
        else:
            log.waited([log.post(True, 1, 0, number % 7, 0, False, False, True)])
        log.leave()
        kept = max(kept, len(log.call_columns()["begin_s"]))
        log.mark(f"phase {number % 3}", False)
    log.finish_sums()
    return summary_frame(summary.columns(0, list("abcde"))), kept


@pytest.mark.parametrize("most", [1, 2, 7, 1000])
def test_the_blocks_in_which_calls_are_summed_up_do_not_matter(most: int) -> None:
    whole, _ = noted(10**6, 300)
    parts, kept = noted(most, 300)
    assert kept <= most
    names = ["phase", "call", "place"]
    first, second = (
        table[table["call"] != "computation"].sort_values(names)[[*names, *COUNTS]].to_numpy().tolist()
        for table in (whole, parts)
    )
    assert first == second
    assert whole["visits"][whole["call"] != "computation"].sum() == 300
    assert whole["bytes"].sum() == sum(number % 7 for number in range(0, 300, 2))
    assert whole["empty_messages"].sum() == sum(number % 7 == 0 for number in range(0, 300, 2))


def ping_pong(comm: Any, messages: int) -> None:
    data = np.zeros(1)
    for _ in range(messages):
        if comm.rank == 0:
            comm.Send(data, 1)
            comm.Recv(data, 1)
        else:
            comm.Recv(data, 0)
            comm.Send(data, 0)


def test_memory_does_not_grow_with_the_messages() -> None:
    def held(messages: int) -> tuple[int, int]:
        tracemalloc.start()
        run = lk.run(ping_pong, 2, on="star:2", summary=True, messages=messages)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert run.profile()["messages"].sum() == 2 * messages
        return len(run.profile()), peak

    held(10)  # what is imported and cached
    # the least of three: threads of other tests that end meanwhile add to a peak
    (few, little), (many, much) = (min(held(messages) for _ in range(3)) for messages in (100, 5000))
    assert few == many
    assert much - little < 100_000  # a trace of it takes 40 times that


def test_what_only_events_tell_is_refused_with_the_way_to_have_it(tmp_path: Any) -> None:
    run = lk.run(ping_pong, 2, on="star:2", summary=True, messages=1)
    assert "waiting_s" not in run.profile()
    for ask in (run.waits, run.delays, run.explain, lambda: run.export(tmp_path / "run.json")):
        with raises_code(DataError, "not-recorded", "trace=True"):
            ask()


@pytest.mark.parametrize("ranks", [2, 5, 16])
def test_report_explorer_and_cube_of_a_summary_are_those_of_a_trace_without_waits(
    ranks: int, tmp_path: Any
) -> None:
    runs = [
        lk.run(calls_of_all_kinds, ranks, on=f"star:{ranks}", **how)
        for how in ({"summary": True}, {"trace": True})
    ]
    summed, traced = (run.report() for run in runs)
    both = {one.name for one in summed.metrics} & {one.name for one in traced.metrics}
    assert {"time", "computation", "calls", "visits", "messages", "empty_messages", "bytes"} <= both
    assert "waiting" not in {one.name for one in summed.metrics}
    for name in both - {"calls", "empty_collectives"}:
        assert summed.total(name) == pytest.approx(traced.total(name)), name
    assert summed.total("calls") == pytest.approx(traced.total("calls") + traced.total("waiting"))
    assert sorted(map(summed.chain, range(len(summed.paths)))) == sorted(
        map(traced.chain, range(len(traced.paths)))
    )
    (path,) = runs[0].export(tmp_path / "run.cubex")
    with tarfile.open(path) as archive:
        anchor = archive.extractfile("anchor.xml").read().decode()
    assert "wait states included" in anchor
    assert lk.explore.waits(runs[0]).report.total("time") == summed.total("time")
