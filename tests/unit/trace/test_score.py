"""What a trace takes, said before it is taken; and phases in which nothing is recorded."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError, MachineError
from labkit.program.function_phases import regions_of
from tests.support.refusals import raises_code


def program(comm: Any, steps: int, spend: Any) -> None:
    other, x, y = comm.rank ^ 1, np.zeros(4), np.zeros(4)
    with lk.phase("solve"):
        spend(0.2)
        comm.Allreduce(x, y)
    with lk.phase("gossip"):
        for _ in range(steps):
            with lk.phase("word"):
                comm.Sendrecv(x, other, 0, y, other, 0)


def charge(seconds: float) -> None:
    lk.compute(seconds=seconds)


def test_a_simulated_run_tells_the_buffers_of_a_real_one() -> None:
    score = lk.run(program, 4, "star:4", trace=True, args=(50, charge)).score()
    table = score.rows.set_index(["phase", "call"])
    assert table.loc[("gossip > word", "Sendrecv"), "posts"] == 4 * 50 * 2
    assert table.loc[("gossip > word", "Sendrecv"), "buffer_bytes"] == 4 * 50 * (56 + 2 * 40)
    assert table.loc[("solve", "Allreduce"), "buffer_bytes"] == 4 * 56
    assert table.loc[("gossip > word", "(phase)"), "visits"] == 4 * 50
    assert score.largest_bytes * 4 == score.buffer_bytes
    assert score.leave_out == ["gossip"]
    assert "leave_out=['gossip'] records the rest" in score.reading()
    assert score.reading() in score._repr_html_().replace("&#x27;", "'").replace("&#39;", "'")
    assert score.by_phase()["phase"].iloc[0] == "gossip > word"


def test_where_all_of_it_counts_all_is_recorded() -> None:
    score = lk.run(program, 2, "star:2", trace=True, args=(0, charge)).score()
    assert score.leave_out == []
    assert "record all" in score.reading()
    nothing = lk.run(lambda comm: None, 1, "star:1", trace=True).score()
    assert (nothing.buffer_bytes, nothing.leave_out) == (0, [])
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.run(program, 2, "star:2", args=(0, charge)).score()


def test_phases_that_are_entered_for_next_to_nothing_are_named() -> None:
    def often(comm: Any, times: int, seconds: float) -> None:
        lk.compute(seconds=0.2)
        for _ in range(times):
            with lk.phase("word"):
                lk.compute(seconds=seconds)
        comm.Barrier()

    score = lk.run(often, 2, "star:2", trace=True, args=(30, 1e-7)).score()
    assert score.by_phase().iloc[0]["buffer_bytes"] > 0.98 * score.buffer_bytes
    assert score.leave_out == [], "leaving out keeps the entries"
    assert "The 60 entries into phase word take 98% of it and are recorded all the same" in score.reading()
    for times, seconds in ((300, 1e-3), (0, 0.0)):
        score = lk.run(often, 2, "star:2", trace=True, args=(times, seconds)).score()
        assert "entries into" not in score.reading(), "it has much of the time, or there is none"


@pytest.mark.slow
@pytest.mark.mpi
def test_phases_are_left_out_of_a_real_trace() -> None:
    whole = lk.run(program, 2, "mpi", trace=True, args=(20, time.sleep))
    same = lk.run(program, 2, "star:2", trace=True, args=(20, charge))
    assert whole.score().buffer_bytes == same.score().buffer_bytes
    part = lk.run(program, 2, "mpi", trace=True, args=(20, time.sleep), leave_out="gos*")
    assert set(part.trace.calls["call"]) == {"Allreduce"}
    assert len(part.trace.messages) == 0
    assert set(part.phases["phase"]) == {"solve", "gossip", "word"}
    said = "trace: phase gossip is left out: what is called in it counts as computation"
    assert said in part.notes
    assert not any(note.startswith("leave_out") for note in part.notes)
    none = lk.run(program, 2, "mpi", trace=True, args=(2, time.sleep), leave_out=["gosip", "sol*"])
    assert "leave_out: no phase called gosip was entered" in none.notes
    assert set(none.trace.calls["call"]) == {"Sendrecv"}


def test_what_cannot_be_left_out_is_refused(tmp_path: Any) -> None:
    with raises_code(MachineError, "conflicting-options", "leave_out"):
        lk.run(program, 2, "star:2", args=(0, charge), leave_out="solve")
    for how in ({}, {"trace": True, "trace_ti": tmp_path / "t"}):
        with raises_code(MachineError, "conflicting-options", "leave_out"):
            lk.run(program, 2, "mpi", args=(0, charge), leave_out="solve", **how)


def workflow(comm: Any, steps: int, spend: Any) -> None:
    with lk.phase("uneven"):
        for _ in range(3):
            spend(0.1 * (1 + 2 * (comm.rank == 1)))
            comm.Allreduce(np.zeros(4), np.zeros(4))
    program(comm, steps, spend)


def sizes(score: Any) -> list[Any]:
    kept = ["phase", "call", "visits", "posts", "buffer_bytes"]
    rows: list[Any] = score.rows.query("buffer_bytes > 0")[kept].sort_values(kept[:2]).to_numpy().tolist()
    return rows


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_summary_score_filter_filtered_trace_and_its_waits(ranks: int, tmp_path: Any) -> None:
    on, args = f"star:{ranks}", (50, charge)
    summed = lk.run(workflow, ranks, on, summary=True, args=args)
    whole = lk.run(workflow, ranks, on, trace=True, args=args)
    score, same = summed.score(), whole.score()
    assert sizes(score) == sizes(same)
    assert (score.largest_bytes, score.leave_out) == (same.largest_bytes, ["gossip"])
    spent = [one.rows.groupby(["phase", "call"])["seconds"].sum().to_numpy() for one in (score, same)]
    assert spent[0] == pytest.approx(spent[1])
    assert "the waiting" not in score.reading()

    path = score.write(tmp_path / "gossip.filter")
    part = lk.run(workflow, ranks, on, trace=True, args=args, leave_out=path)
    assert part.makespan_s == whole.makespan_s
    assert set(part.trace.calls["call"]) == {"Allreduce"}
    assert part.trace.is_own.sum() == 0, "the messages of Sendrecv are left out with it"
    assert part.score().buffer_bytes < 0.6 * whole.score().buffer_bytes
    found, all_ = (run.waits().severity() for run in (part, whole))
    of_all = all_[all_["call"] == "Allreduce"]
    assert found["seconds"].sum() == pytest.approx(of_all["seconds"].sum())
    assert found["state"].astype(str).tolist() == of_all["state"].astype(str).tolist()
    assert part.delays()["rank"].iloc[0] == 1
    again = lk.run(workflow, ranks, on, summary=True, args=args, leave_out=str(path))
    assert set(again.profile()["call"]) == {"Allreduce", "computation"}
    assert again.profile()["spent_s"].sum() == pytest.approx(summed.profile()["spent_s"].sum())


@pytest.mark.mpi
def test_the_same_workflow_on_real_mpi(tmp_path: Any) -> None:
    summed = lk.run(workflow, 2, "mpi", summary=True, args=(50, time.sleep))
    simulated = lk.run(workflow, 2, "star:2", summary=True, args=(50, charge))
    assert sizes(summed.score()) == sizes(simulated.score())
    path = simulated.score().write(tmp_path / "gossip.filt")  # what is worth it here depends on the load
    part = lk.run(workflow, 2, "mpi", trace=True, args=(50, time.sleep), leave_out=str(path))
    assert set(part.trace.calls["call"]) == {"Allreduce"}
    assert "wait at nxn" in part.waits().severity()["state"].astype(str).tolist()


def test_filter_files_are_read_and_refused(tmp_path: Any) -> None:
    path = tmp_path / "own.filter"
    path.write_text(
        '# by hand\nSCOREP_REGION_NAMES_BEGIN\n  EXCLUDE gos* MANGLED other\n  EXCLUDE "two words"\n'
        "SCOREP_REGION_NAMES_END\n"
    )
    assert regions_of(path) == regions_of(f" {path} ") == ("gos*", "other", "two words")
    score = lk.run(program, 2, "star:2", trace=True, args=(50, charge)).score()
    with raises_code(DataError, "unknown-format"):
        score.write(tmp_path / "names.txt")
    with raises_code(DataError, "unwritable-file"):
        score.write(tmp_path / "nowhere" / "a.filter")
    for text, code, fact in (
        ("EXCLUDE a", "malformed-file", "own.filter"),
        ("SCOREP_REGION_NAMES_END SCOREP_REGION_NAMES_BEGIN", "malformed-file", "own.filter"),
        ('"', "malformed-file", "own.filter"),
        ("SCOREP_REGION_NAMES_BEGIN a SCOREP_REGION_NAMES_END", "no-counterpart", "'a'"),
        (
            "SCOREP_REGION_NAMES_BEGIN EXCLUDE * INCLUDE a SCOREP_REGION_NAMES_END",
            "no-counterpart",
            "INCLUDE",
        ),
    ):
        path.write_text(text)
        with raises_code(DataError, code, fact):
            lk.run(program, 2, "star:2", trace=True, args=(1, charge), leave_out=path)
    with raises_code(DataError, "missing-file"):
        lk.run(program, 2, "star:2", trace=True, args=(1, charge), leave_out="none.filter")
