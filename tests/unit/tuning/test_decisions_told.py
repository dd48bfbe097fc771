"""What a request decides stands in the run, its trace and its explanation, simulated and real."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit.program.context import Decisions
from labkit.selector import Situation


def program(comm, algorithms, use=None):
    sent, got = np.zeros(64), np.empty(64)
    with lk.tune.allreduce(comm, algorithms, measurements=1, warmup=0, use=use) as allreduce:
        for _ in range(4):
            allreduce(sent, got)
    comm.Bcast(got)


def test_the_decision_is_a_note_and_a_collective_and_an_algorithm_of_the_trace():
    run = lk.run(program, 4, "star:4", args=(["ring", "reduce_bcast"], "ring"), trace=True)
    at = Situation("allreduce", 4, 512, machine="star:4")
    assert run.collectives[at] == "ring"
    assert "tuned: allreduce on 4 ranks, 512 B: ring, from call 1 on, preselected" in run.notes
    assert "allreduce on 4, 512 B: ring" in repr(run.explain())
    assert {"algorithm": "ring", **at._asdict()} in run.explain().record()["collectives"]
    calls = run.trace.calls.groupby("call")["algorithm"].agg(set).to_dict()
    assert calls["Bcast"] == {"binomial"}
    assert "ring" in calls["Allreduce"]


def test_every_rank_of_every_call_has_the_algorithm_that_the_selector_chose():
    def calls(comm):
        data, got = np.zeros(8), np.zeros(8)
        for _ in range(3):
            comm.Allreduce(data, got)
        comm.Iallreduce(data, got).Wait()
        comm.send(1, dest=(comm.rank + 1) % comm.size)
        comm.recv()

    table = lk.run(calls, 3, "star:3", trace=True, coll={"allreduce": "ring"}).trace.calls
    found = table.groupby("call")["algorithm"].agg(list).to_dict()
    assert found["Allreduce"] == ["ring"] * 9
    assert found["Iallreduce"] == ["ring"] * 3
    assert set(found["send"]) == set(found["Wait"]) == {""}


def test_the_library_s_own_is_what_the_selector_chose():
    run = lk.run(program, 4, "star:4", args=(["library"],), coll={"allreduce": "ring"})
    assert run.collectives[Situation("allreduce", 4, 512, machine="star:4")] == "ring"


@pytest.mark.slow
def test_a_real_run_tells_it_too():
    run = lk.run(program, 2, "mpi", args=(["ring"], "ring"))
    assert run.collectives == {Situation("allreduce", 2, 512, ranks_per_node=2): "ring"}
    assert [note for note in run.notes if note.startswith("tuned: allreduce on 2 ranks, 512 B: ring")]


def test_of_very_many_decisions_only_some_are_notes():
    made = Decisions()
    for number in range(12):
        made.add(f"call {number}", None, "ring", "from call 9 on")
    made.add("call 0", Situation("bcast", 2), "chain", "from call 20 on")
    assert made.notes()[0] == "tuned: call 0: chain, from call 20 on"
    assert made.notes()[-1] == "tuned: 4 more kinds of calls; Run.collectives has them"
    assert made.collectives() == {Situation("bcast", 2): "chain"}
    assert Decisions.of(made.rows()).notes() == made.notes()


def test_a_choice_that_no_call_used_is_reported():
    def of_objects(comm):
        return comm.allreduce(comm.rank), comm.bcast(1)

    def of_arrays(comm, total):
        comm.Iallreduce(np.ones(2), total).Wait()

    def idle(program, ranks=3, **how):
        notes = lk.run(program, ranks, "star", coll={"allreduce": "ring", "bcast": "binomial"}, **how).notes
        return [note for note in notes if note.startswith("coll:")]

    (said,) = idle(of_objects)
    assert "allreduce=ring" in said
    assert "bcast=binomial" not in said  # objects are broadcast as arrays are
    (said,) = idle(of_arrays, args=(np.empty(2),))
    assert "bcast=binomial" in said
    assert "allreduce=ring" not in said
    assert idle(of_objects, 1) == []
