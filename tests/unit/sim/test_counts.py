"""What a run counts: against schedules counted by themselves, against its trace, and against sums by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import ScheduleError
from labkit.local import sort
from labkit.program.rank_counts import metrics_of
from labkit.schedule.count import count
from labkit.trace.counters import counted

CALLS = {
    "allreduce": lambda comm: comm.Allreduce(np.ones(16), np.empty(16)),
    "bcast": lambda comm: comm.Bcast(np.ones(16)),
    "barrier": lambda comm: comm.Barrier(),
    "allgather": lambda comm: comm.Allgather(np.ones(2), np.empty(2 * comm.size)),
    "alltoall": lambda comm: comm.Alltoall(np.ones(2 * comm.size), np.empty(2 * comm.size)),
    "reduce": lambda comm: comm.Reduce(np.ones(16), np.empty(16)),
    "scatter": lambda comm: comm.Scatter(np.ones(2 * comm.size), np.empty(2)),
    "gather": lambda comm: comm.Gather(np.ones(2), np.empty(2 * comm.size)),
}


def metrics(run: lk.Run, phase: str = "") -> dict[str, float]:
    return {name: value for name, where, value in metrics_of(run.counts) if where == phase}


def with_node(problem: str, name: str) -> str:
    """Nodes of four ranks, where it goes by nodes: on a star a run would take single ranks."""
    return f"{name}:node=4" if "node" in registry.get(problem, name).parameters else name


@pytest.mark.parametrize("problem", CALLS)
@pytest.mark.slow
def test_rounds_of_every_algorithm_are_those_of_its_schedule(problem: str) -> None:
    tried = 0
    for name in registry.names(problem):
        for ranks in (7, 8):
            try:
                name = with_node(problem, name)
                wanted = count(registry.get(problem, name).build(ranks), 128)[0]
                run = lk.run(CALLS[problem], ranks, "star", coll={problem: name}, count=True)
            except ScheduleError:  # not for so many ranks
                continue
            tried += 1
            found = metrics(run)
            assert found["rounds"] == wanted, (name, ranks)
            assert (found["messages"], found["bytes"]) == (run.messages, run.bytes)
            assert run.counts["received"].sum() == run.messages
    assert tried >= 5


def exchange(comm, n=10):
    mine, other = np.arange(n), np.empty(n, int)
    with lk.phase("ring"):
        for _ in range(3):
            comm.Sendrecv(mine, (comm.rank + 1) % comm.size, 0, other, (comm.rank - 1) % comm.size)
    with lk.phase("tree"):
        for bit in (1, 2, 4):
            if comm.rank % (2 * bit) == bit:
                comm.Send(mine, comm.rank - bit)
            elif comm.rank % (2 * bit) == 0 and comm.rank + bit < comm.size:
                comm.Recv(other, comm.rank + bit)


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_they_are_those_of_the_trace(ranks: int) -> None:
    run = lk.run(exchange, ranks, "star", trace=True, count=True)
    names = ["rank", "phase", "messages", "bytes", "received", "received_bytes", "rounds"]
    ours = run.counts[names].sort_values(["rank", "phase"]).to_numpy().tolist()
    assert sorted([row[name] for name in names] for row in counted(run.trace, run.phases)) == ours


def test_counting_changes_no_time() -> None:
    plain, other = (lk.run(exchange, 8, "torus:2x2x2", count=one) for one in (False, True))
    assert plain.counts is None
    assert plain.makespan_s == other.makespan_s
    assert plain.phases.equals(other.phases)


def test_rounds_know_what_was_waited_for_only() -> None:
    def early(comm):
        """The receive is there before it is looked at: the send after it need not wait for it."""
        if comm.rank == 0:
            request = comm.irecv(source=1)
            lk.compute(seconds=1)
            comm.send(b"", 2)
            request.wait()
            comm.send(b"", 2)
        elif comm.rank == 1:
            comm.send(b"", 0)
        else:
            comm.recv(source=0)
            comm.recv(source=0)

    assert lk.run(early, 3, "star", count=True).counts["rounds"].tolist() == [2, 1, 2]


def test_nonblocking_collectives_take_their_rounds() -> None:
    def program(comm):
        request = comm.Iallreduce(np.ones(1), np.empty(1))
        request.Wait()
        comm.Barrier()

    run = lk.run(program, 8, "star", coll={"allreduce": "recursive_doubling"}, count=True)
    assert metrics(run)["rounds"] == 6


def test_memory_is_the_most_that_a_ranks_arrays_held() -> None:
    def program(comm):
        kept = np.ones(100 * (comm.rank + 1))
        with lk.phase("more"):
            more = np.empty(1000, np.uint8)
            del more
            with lk.phase("within"):
                inner = np.zeros(300, np.uint8)
        grown = np.empty(10, np.uint8)
        grown.resize(2000, refcheck=False)
        return kept if comm.rank else inner

    run = lk.run(program, 2, "star", count=True)
    whole = run.counts[run.counts["phase"] == ""]
    assert whole["memory_bytes"].tolist() == [800 + 300 + 2000, 1600 + 300 + 2000]
    assert metrics(run, "more")["rank_memory_bytes"] == 1600 + 1000
    assert metrics(run, "within")["rank_memory_bytes"] == 1600 + 300
    assert run.results[1].sum() == 200  # its arrays live on


def test_memory_is_not_that_of_the_schedules() -> None:
    def program(comm):
        comm.Barrier()

    for ranks in (37, 41):  # nobody has built these schedules before
        assert metrics(lk.run(program, ranks, "star", count=True))["rank_memory_bytes"] == 0


def test_comparisons_and_counts_of_ones_own() -> None:
    def program(comm):
        with lk.phase("sort"):
            sort(np.arange(1000)[::-1])
        lk.count("swaps", comm.rank)
        lk.count("comparisons", 1)

    run = lk.run(program, 4, "star", count=True)
    found = metrics(run)
    assert found["comparisons"] == pytest.approx(4 * (1000 * math.log2(1000) + 1))
    assert (found["swaps"], found["rank_swaps"]) == (6, 3)
    assert metrics(run, "sort")["rank_comparisons"] == pytest.approx(1000 * math.log2(1000))


@pytest.mark.parametrize(
    ("name", "amount"), [("", 1), ("a b", 1), ("bytes", 1), ("rank_x", 1), (3, 1), ("x", -1), ("x", math.nan)]
)
def test_what_cannot_be_counted_is_refused(name: object, amount: float) -> None:
    with pytest.raises(ValueError, match="count"):
        lk.count(name, amount)


def test_outside_a_run_nothing_happens() -> None:
    lk.count("swaps", 3)


def test_a_sweep_has_the_counts_as_metrics() -> None:
    def program(comm, n=8):
        with lk.phase("all"):
            comm.Allgather(np.ones(n), np.empty(n * comm.size))

    study = lk.sweep(program, [4, 8, 16, 32, 64], coll={"allgather": ["ring", "bruck"]}, progress=False)
    for name, law in (("ring", "p"), ("bruck", "log p")):
        where = {"coll": f"allgather={name}"}
        assert study.expect(law, "rounds", where=where).match == "exact"
        assert study.expect(law, "rank_messages", "all", where=where).match == "exact"
        assert study.expect("p^2", "bytes", where=where).match == "exact"
        assert study.expect("p", "rank_memory_bytes", where=where).match == "exact"
    assert study.notes["counts"]["star"].startswith("counted by the simulator")
    assert set(study.table(where={"coll": "allgather=ring"}).models) == {"all", "whole run"}
