"""Blue Gene/P as Hoefler et al. 2010 modeled it: messages, and collectives on a network of their own."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import PlatformError, RankError
from labkit.machines import models
from tests.support.refusals import raises_code

#: a cost of MPI_Wtime
WTIME_S = 1e-8


def message(comm: Any, n_bytes: int) -> float | None:
    data = np.zeros(n_bytes, np.uint8)
    if comm.rank == 0:
        comm.Send(data, 4)  # the next node
    if comm.rank == 4:
        comm.Recv(data, 0)
        return lk.MPI.Wtime()
    return None


@pytest.mark.parametrize("n_bytes", [0, 1, 8, 255, 256, 1000, 1024, 1025, 4096, 65_536, 1 << 20])
def test_a_message_takes_what_equation_1_says(n_bytes: int) -> None:
    start_s = 4.5e-6 if n_bytes < 256 else 5.7e-6 if n_bytes <= 1024 else 9.8e-6
    took = lk.run(message, 8, "jugene", args=(n_bytes,)).results[4] - WTIME_S
    assert took == pytest.approx(start_s + 2.67e-9 * n_bytes, rel=0.003)


def collectives(comm: Any, late: int = -1) -> tuple[float, float, float]:
    value, total = np.array([float(comm.rank + 1)]), np.zeros(1)
    if comm.rank == late:
        lk.compute(seconds=1e-3)
    times = [lk.MPI.Wtime()]
    comm.Barrier()
    times.append(lk.MPI.Wtime())
    comm.Bcast(value, 1)
    times.append(lk.MPI.Wtime())
    comm.Allreduce(np.array([float(comm.rank)]), total)
    times.append(lk.MPI.Wtime())
    assert value[0] == 2
    assert total[0] == comm.size * (comm.size - 1) / 2
    barrier, bcast, allreduce = (b - a - WTIME_S for a, b in pairwise(times))
    return barrier, bcast, allreduce


@pytest.mark.parametrize("p", [2, 3, 5, 16, 100, 4096, pytest.param(32_768, marks=pytest.mark.slow)])
def test_collectives_of_all_ranks_take_the_papers_times(p: int) -> None:
    run = lk.run(collectives, p, "jugene", isolate=False)
    barrier, bcast, allreduce = (max(times) for times in zip(*run.results, strict=True))
    assert barrier == pytest.approx(0.95e-6, rel=1e-3)
    assert bcast == pytest.approx(13e-6 + 0.31e-6 * math.log2(p), rel=1e-3)
    expected = 17.77e-6 if p <= 4096 else 13.33e-6 + 0.37e-6 * math.log2(p)
    assert allreduce == pytest.approx(expected, rel=2e-3)
    assert set(run.collectives.values()) == {"collective_network"}
    assert run.messages == 0  # none goes over the torus


def test_who_is_late_keeps_those_waiting_who_need_it() -> None:
    run = lk.run(collectives, 8, "jugene", args=(3,))
    barrier = [times[0] for times in run.results]
    assert barrier[3] == pytest.approx(0.95e-6, rel=1e-3)
    assert all(b == pytest.approx(1e-3 + 0.95e-6, rel=1e-3) for rank, b in enumerate(barrier) if rank != 3)


def test_a_program_chooses_other_algorithms_and_parts_of_the_ranks_go_over_the_torus() -> None:
    run = lk.run(collectives, 16, "jugene", coll={"bcast": "binomial"})
    assert sorted(run.collectives.values()) == ["binomial", "collective_network", "collective_network"]
    assert run.messages == 15

    def half(comm: Any) -> None:
        part = comm.Split(comm.rank % 2)
        part.Barrier()
        part.Bcast(np.zeros(4), 0)

    some = lk.run(half, 16, "jugene")
    names = {at.operation: name for at, name in some.collectives.items() if at.ranks == 8}
    assert names == {"barrier": "recursive_doubling", "bcast": "binomial"}


def test_a_nonblocking_one_takes_as_long() -> None:
    def program(comm: Any) -> float:
        began = lk.MPI.Wtime()
        request = comm.Ibarrier()
        request.Wait()
        return float(lk.MPI.Wtime() - began - WTIME_S)

    assert max(lk.run(program, 16, "jugene").results) == pytest.approx(0.95e-6, rel=1e-3)


def test_long_ones_take_their_bytes_and_operators_of_the_program_take_messages() -> None:
    def program(comm: Any, n_bytes: int) -> float:
        comm.Bcast(lk.sized(n_bytes), 0)
        return float(lk.MPI.Wtime() - WTIME_S)

    took = max(lk.run(program, 64, "jugene", args=(10**8,)).results)
    assert took == pytest.approx(13e-6 + 6 * 0.31e-6 + 1e8 * 2.67e-9 / 6, rel=1e-2)

    def own(comm: Any) -> None:
        op = lk.MPI.Op.Create(lambda a, b, kind: None, commute=True)
        comm.Allreduce(np.zeros(4), np.zeros(4), op)

    assert "collective_network" not in lk.run(own, 8, "jugene").collectives.values()


def test_the_same_algorithm_elsewhere_is_a_tree_of_messages() -> None:
    run = lk.run(
        collectives, 8, "star:8", coll={"bcast": "collective_network", "barrier": "collective_network"}
    )
    plain = lk.run(collectives, 8, "star:8", coll={"bcast": "binomial", "barrier": "tree"})
    assert run.makespan_s == plain.makespan_s


def test_traces_reports_and_other_machines_have_it_too() -> None:
    run = lk.run(collectives, 16, "jugene", trace=True)
    assert "barrier on 16: collective_network" in str(run.explain())
    assert run.makespan_s == lk.run(collectives, 16, "jugene").makespan_s
    few = lk.run(collectives, 16, "juqueen")
    assert set(few.collectives.values()) == {"collective_network"}


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ([["bcast", 1.0]], ("invalid-value", "row 1")),
        ([["bcast", 0, 0, 0, -1.0]], ("invalid-value", "row 1")),
        ([["gather", 0, 0, 0, 0]], ("invalid-value", "'gather'")),
        ([["bcast", 0, 0, 0, 0]] * 2, ("invalid-value", "row 2")),
        ("bcast", ("invalid-value",)),
    ],
)
def test_what_is_no_collective_network_is_refused(rows: Any, wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        models.get("rdma", collective_network=rows)


def test_a_model_is_changed_behind_commas() -> None:
    text = "rdma,collective_network=bcast:0:1e-6:0:0;barrier:0:2e-6:0:0,message_latency=0:1e-6:0"
    model = models.get(text)
    assert [row[0] for row in model.collective_network] == ["bcast", "barrier"]
    assert model.message_latency == ((0, 1e-6, 0.0),)
    assert models.get("bgp,collective_network=").collective_network == ()
    run = lk.run(collectives, 8, "jugene", model="bgp,collective_network=")
    assert "collective_network" not in run.collectives.values()


@pytest.mark.parametrize("n_bytes", [1, 500, 2000, 100_000])
def test_synthesis_predicts_its_messages(n_bytes: int) -> None:
    from labkit.synthesis.fabric import fabric_of

    def program(comm: Any) -> float | None:
        data = np.zeros(n_bytes, np.uint8)
        if comm.rank == 0:
            comm.Isend(data, 1).Wait()
        if comm.rank == 1:
            comm.Recv(data, 0)
            return lk.MPI.Wtime()
        return None

    machine = lk.platform("jugene").mapped("block:1").allocated(8)
    fabric = fabric_of(machine, 8, machine.model)
    took = lk.run(program, 8, machine).results[1] - WTIME_S
    assert fabric.message_s(fabric.ways[0][1], n_bytes) == pytest.approx(took, rel=1e-9)


def test_scripts_have_it_too(tmp_path: Path) -> None:
    script = tmp_path / "waits.py"
    script.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    run = lk.run(script, 16, "jugene")
    assert run.messages == 0
    assert run.makespan_s == pytest.approx(0.95e-6, rel=1e-9)


def test_a_blue_gene_spawns_no_ranks(tmp_path: Path) -> None:
    script = tmp_path / "spawns.py"
    script.write_text("from mpi4py import MPI\nMPI.COMM_SELF.Spawn('python', ['-c', 'pass'], maxprocs=1)\n")
    with raises_code(RankError, "unsupported"):
        lk.run(script, 1, "jugene")


def queued(comm: Any, outstanding: int) -> float | None:
    """Measure a message that finds other receives posted before its own."""
    data = np.zeros(8, np.uint8)
    if comm.rank == 4:
        others = [comm.Irecv(np.zeros(8, np.uint8), 0, tag=1 + i) for i in range(outstanding)]
        comm.Recv(data, 0, tag=0)
        took = lk.MPI.Wtime()
        for other in others:
            other.Cancel()
            other.Wait()
        return float(took)
    if comm.rank == 0:
        lk.compute(seconds=1e-3)  # until all receives are posted
        comm.Send(data, 4, tag=0)
    return None


@pytest.mark.parametrize("outstanding", [1, 13, 47, 48, 49, 100, 1000])
def test_a_matching_queue_costs_100_ns_an_entry(outstanding: int) -> None:
    free = lk.run(queued, 8, "jugene", args=(0,)).results[4]
    took = lk.run(queued, 8, "jugene", args=(outstanding,)).results[4]
    assert took - free == pytest.approx(1e-7 * outstanding, rel=1e-6)


def unexpected(comm: Any, before: int) -> float | None:
    """Measure a receive that finds other messages before its own."""
    data = np.zeros(8, np.uint8)
    if comm.rank == 0:
        for i in range(before + 1):
            comm.Send(data, 4, tag=i)
    if comm.rank == 4:
        lk.compute(seconds=1e-3)
        began = lk.MPI.Wtime()
        comm.Recv(data, 0, tag=before)
        took = lk.MPI.Wtime() - began
        for i in range(before):
            comm.Recv(data, 0, tag=i)
        return float(took)
    return None


@pytest.mark.parametrize("before", [1, 40, 200])
def test_unexpected_messages_are_searched_in_order(before: int) -> None:
    free, took = (lk.run(unexpected, 8, "jugene", args=(n,)).results[4] for n in (0, before))
    assert took - free == pytest.approx(1e-7 * before, rel=1e-6)


def strided(comm: Any, stride: int) -> float | None:
    kind = lk.MPI.CHAR.Create_vector(1 << 14, 1, stride).Create_resized(0, stride << 14).Commit()
    data = np.zeros(stride << 14, np.uint8)
    if comm.rank == 0:
        comm.Send([data, 1, kind], 4)
    if comm.rank == 4:
        comm.Recv([data, 1, kind], 0)
        return lk.MPI.Wtime()
    return None


@pytest.mark.parametrize(("stride", "paper_s"), [(2, 1292e-6), (128, 2090e-6)])
def test_packing_takes_what_figure_1b_says(stride: int, paper_s: float) -> None:
    took = lk.run(strided, 8, "jugene", args=(stride,)).results[4]
    assert took == pytest.approx(paper_s, rel=0.02)


def test_packing_grows_with_the_stride_up_to_a_line_a_piece() -> None:
    took = [lk.run(strided, 8, "jugene", args=(stride,)).results[4] for stride in (2, 8, 32, 64, 128)]
    assert took == sorted(took)
    longer = lk.run(strided, 8, "jugene", args=(256,)).results[4]
    assert longer == pytest.approx(took[-1], rel=1e-9)
