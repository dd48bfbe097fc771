"""Calls that take no time are in the phase that made them, even where another begins at that instant."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit.trace.exchange import events_of
from labkit.trace.exchange.events import CALL, PHASE
from labkit.trace.trace import NO_PHASE
from tests.support.trace_files import read_perfetto


def program(comm: Any) -> None:
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for _ in range(3):
        with lk.phase("step"):
            with lk.phase("work"):
                lk.compute(seconds=1e-3)
            with lk.phase("sum"):
                request = comm.Iallreduce(np.ones(1), np.ones(1))
                lk.compute(seconds=2e-3)
                request.Wait()  # over long since
            with lk.phase("first"):
                lk.compute(seconds=2e-3 if comm.rank == 1 else 1e-3)  # rank 2 waits in "then"
                comm.Isend(np.ones(1), right).Wait()
            with lk.phase("then"):
                lk.compute(seconds=1e-3)
                comm.Recv(np.ones(1), left)
    comm.Isend(np.ones(3), comm.rank).Wait()
    comm.Recv(np.ones(3), comm.rank)


@pytest.mark.parametrize("ranks", [1, 3, 5])
@pytest.mark.parametrize("model", ["lab", "smpi", "cm02"])
def test_a_trace_and_a_summary_count_the_same_calls_in_the_same_phases(model: str, ranks: int) -> None:
    keys = ["rank", "phase", "call"]
    sums = ["visits", "messages", "bytes"]
    on = f"star:{ranks},model={model}"
    traced = lk.run(program, ranks, on, trace=True)
    profiles = [run.profile() for run in (traced, lk.run(program, ranks, on, summary=True))]
    found = [profile.astype(dict.fromkeys(keys[1:], str)).groupby(keys)[sums].sum() for profile in profiles]
    pd.testing.assert_frame_equal(*found, check_dtype=False)
    waits = traced.trace.calls[traced.trace.calls["call"] == "Wait"]
    assert set(waits["phase"]) == {"sum", "first", NO_PHASE}
    assert found[0].loc[(ranks - 1, "step > sum", "Wait"), "visits"] == 3
    assert found[0].loc[(ranks - 1, "step > first", "Isend"), "messages"] == 3
    # how often a phase was entered, whether or not it computes; the program once
    entered = found[0].loc[ranks - 1].xs("computation", level="call")["visits"]
    assert entered.to_dict() == {
        NO_PHASE: 1, "step": 3, "step > work": 3, "step > sum": 3, "step > first": 3, "step > then": 3,
    }  # fmt: skip


def without_begun(comm: Any) -> None:
    for _ in range(3):
        with lk.phase("first"):
            request = comm.Isend(np.ones(1), (comm.rank + 1) % comm.size)
            lk.compute(seconds=1e-3)
            request.Wait()
        with lk.phase("then"):
            lk.compute(seconds=1e-3)
            comm.Recv(np.ones(1), (comm.rank - 1) % comm.size)
    comm.Isend(np.ones(3), comm.rank).Wait()
    comm.Recv(np.ones(3), comm.rank)


@pytest.mark.parametrize("model", ["lab", "cm02"])
def test_a_replay_has_its_calls_in_the_phases_of_the_run(model: str, tmp_path: Path) -> None:
    on = f"star:3,model={model}"
    run = lk.run(without_begun, 3, on, trace=True, trace_ti=tmp_path / "t.txt")
    again = lk.replay(tmp_path / "t.txt", on, trace=True)
    counts = [
        one.trace.calls[one.trace.calls["call"] == call].groupby(["rank", "phase"]).size().to_dict()
        for call in ("Isend", "Wait")
        for one in (run, again)
    ]
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]
    assert counts[2][2, "first"] == 3
    assert counts[2][2, NO_PHASE] == 1


def test_waits_of_calls_without_the_name_of_a_phase_are_found_by_time() -> None:
    run = lk.run(program, 3, "star:3", trace=True)
    known = run.waits().severity("state")["seconds"].tolist()
    assert known
    run = lk.run(program, 3, "star:3", trace=True)
    del run.trace.calls["phase"]
    assert run.waits().severity("state")["seconds"].tolist() == known


def apart(comm: Any) -> None:
    """Calls without time where a phase ends, behind it, and where the next of that name begins."""
    begun = [comm.Ibarrier() for _ in range(15)]
    lk.compute(seconds=1e-3)
    for _ in range(4):
        with lk.phase("same"):
            begun.pop().Wait()
            lk.compute(seconds=1e-3)
            begun.pop().Wait()
        begun.pop().Wait()
    with lk.phase("outer"), lk.phase("inner"):
        begun.pop().Wait()
        lk.compute(seconds=1e-3)
        begun.pop().Wait()
    with lk.phase("outer"):
        begun.pop().Wait()
        with lk.phase("inner"):
            lk.compute(seconds=1e-3)
        comm.Barrier()


def enclosing_phases(events: Any) -> dict[int, str]:
    """Walk the begins and ends as brackets; the phase around each call, by row of the call."""
    when, which, ends = events.moves()
    assert (np.diff(when) >= 0).all()
    found: dict[int, str] = {}
    stacks: list[list[int]] = [[] for _ in range(events.run.ranks)]
    for at, is_end in zip(which.tolist(), ends.tolist(), strict=True):
        stack = stacks[events.rank[at]]
        if is_end:
            assert stack.pop() == at
            continue
        assert len(stack) == events.depth[at]
        if events.kind[at] == CALL:
            inside = [one for one in stack if events.kind[one] == PHASE]
            assert not (events.kind[stack] == CALL).any(), "a call in a call"
            name = events.names[events.name[inside[-1]]] if inside else NO_PHASE
            assert found.setdefault(int(events.row[at]), name) == name
        stack.append(at)
    assert not any(stacks)
    return found


@pytest.mark.parametrize("body", [program, apart])
@pytest.mark.parametrize("model", ["lab", "smpi", "cm02"])
def test_exported_calls_lie_in_the_phases_that_they_name(model: str, body: Any, tmp_path: Path) -> None:
    run = lk.run(body, 3, f"star:3,model={model}", trace=True)
    events = events_of(run)
    calls = run.trace.calls
    assert enclosing_phases(events) == dict(enumerate(calls["phase"]))
    own = events.row[events.kind == CALL]
    assert (np.diff(own) >= 0).all(), "calls keep their order"
    assert events.cut == 0
    assert ((calls["end_s"] == calls["begin_s"]) & (calls["phase"] != NO_PHASE)).sum() >= 9
    run.export(tmp_path / "run.json")
    drawn = [slices for _, slices in sorted(read_perfetto(tmp_path / "run.json")["slices"].items())]
    found = []
    for slices in drawn:
        phases = [(ts, ts + dur, e["name"]) for ts, dur, e in slices if e["cat"] == "phase"]
        for ts, dur, e in slices:
            if e["cat"] == "call":
                around = [name for b, end, name in phases if b <= ts and ts + dur <= end + 1e-6]
                found.append(around[-1] if around else NO_PHASE)
    assert found == calls["phase"].tolist()


def test_calls_without_time_come_back_from_an_archive_in_their_phases(tmp_path: Path) -> None:
    pytest.importorskip("otf2")
    for body in (program, apart):
        run = lk.run(body, 3, "star:3", trace=True)
        run.export(tmp_path / "run.otf2")
        read = lk.read_trace(tmp_path / "run.otf2").trace.calls
        for name in ("rank", "call", "phase"):
            assert read[name].tolist() == run.trace.calls[name].tolist()
