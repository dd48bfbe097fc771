"""Packing is charged where the calibration says what it costs: the closed formula, call by call."""

from dataclasses import replace

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.local import KernelCosts
from labkit.local.costs import PACKING, Cost, find_calibration
from tests.support.refusals import raises_code

CALL_S, BYTE_S, PIECE_S = 1e-3, 1e-6, 1e-4
ROWS, COLUMNS = 6, 5


def charged() -> KernelCosts:
    """Packing that costs more than anything else."""
    default = find_calibration("default")
    return replace(default, costs={**default.costs, PACKING: Cost(CALL_S, BYTE_S, 0.0, PIECE_S)})


def cost_s(data_bytes: int, pieces: int) -> float:
    return CALL_S + data_bytes * BYTE_S + pieces * PIECE_S


#: a column of the matrix, once gathered or scattered
COLUMN_S = cost_s(8 * ROWS, ROWS)


def column() -> MPI.Datatype:
    return MPI.DOUBLE.Create_vector(ROWS, 1, COLUMNS).Create_resized(0, 8).Commit()


def matrix(comm) -> np.ndarray:
    return np.full((ROWS, COLUMNS), float(comm.rank))


def blocking(comm):
    here, kind = matrix(comm), column()
    if comm.rank == 0:
        comm.Send([here, 1, kind], 1)
    else:
        comm.Recv([here, 1, kind], 0)
    return here[:, 0].tolist()


def nonblocking(comm):
    here, kind = matrix(comm), column()
    post = comm.Isend if comm.rank == 0 else comm.Irecv
    post([here, 1, kind], 1 - comm.rank).Wait()
    return here[:, 0].tolist()


def persistent(comm):
    here, kind = matrix(comm), column()
    make = comm.Send_init if comm.rank == 0 else comm.Recv_init
    request = make([here, 1, kind], 1 - comm.rank)
    request.Start()
    request.Wait()
    return here[:, 0].tolist()


def broadcast(comm):
    here, kind = matrix(comm), column()
    comm.Bcast([here, 1, kind], 0)
    return here[:, 0].tolist()


def nonblocking_broadcast(comm):
    here, kind = matrix(comm), column()
    comm.Ibcast([here, 1, kind], 0).Wait()
    return here[:, 0].tolist()


@pytest.mark.parametrize(
    "program", [blocking, nonblocking, persistent, broadcast, nonblocking_broadcast], ids=lambda f: f.__name__
)
def test_a_column_is_gathered_and_scattered_once(program):
    free = lk.run(program, ranks=2, on="star:2")
    run = lk.run(program, ranks=2, on="star:2", calibration=charged())
    assert run.results == free.results == [[0.0] * ROWS] * 2
    assert run.makespan_s - free.makespan_s == pytest.approx(2 * COLUMN_S, rel=1e-9)


def neighbors(comm):
    grid, kind = comm.Create_cart([comm.size], periods=[True]), column()
    here = matrix(comm)
    grid.Neighbor_alltoallw([here, ([1, 1], [8, 24]), [kind] * 2], [here, ([1, 1], [0, 32]), [kind] * 2])
    return here[0].tolist()


def gathered(comm):
    here, kind = matrix(comm), column()
    there = np.zeros((ROWS, COLUMNS)) if comm.rank == 0 else None
    comm.Gather([here, 1, kind], None if there is None else [there, 1, kind], 0)
    return None if there is None else there[0].tolist()


def test_the_two_columns_of_a_halo_are_gathered_in_one_go_and_scattered_in_one():
    free = lk.run(neighbors, ranks=3, on="star:3")
    run = lk.run(neighbors, ranks=3, on="star:3", calibration=charged())
    assert run.results == free.results == [[2, 0, 0, 0, 1], [0, 1, 1, 1, 2], [1, 2, 2, 2, 0]]
    two = cost_s(2 * 8 * ROWS, 2 * ROWS)
    assert run.makespan_s - free.makespan_s == pytest.approx(2 * two, rel=1e-9)


def test_the_root_of_a_gather_scatters_the_columns_of_all():
    free = lk.run(gathered, ranks=3, on="star:3")
    run = lk.run(gathered, ranks=3, on="star:3", calibration=charged())
    assert run.results == free.results == [[0, 1, 2, 0, 0], None, None]
    taken = COLUMN_S + cost_s(3 * 8 * ROWS, 3 * ROWS)
    assert run.makespan_s - free.makespan_s == pytest.approx(taken, rel=1e-9)


def test_of_a_shorter_message_only_what_has_come_is_charged():
    def program(comm):
        here, kind = matrix(comm), column()
        if comm.rank == 0:
            comm.Send(np.ones(2), 1)
            return None
        began = MPI.Wtime()
        comm.Recv([here, 1, kind], 0)
        return MPI.Wtime() - began

    free, run = (
        lk.run(program, ranks=2, on="star:2", calibration=costs).results[1] for costs in (None, charged())
    )
    assert run - free == pytest.approx(cost_s(16, 2), rel=1e-9)


def test_pack_and_unpack_are_charged_and_what_has_no_gaps_is_not():
    def program(comm):
        here, packed = matrix(comm), bytearray(8 * ROWS)
        kind = MPI.DOUBLE.Create_vector(ROWS, 1, COLUMNS).Commit()
        times = [MPI.Wtime()]
        end = kind.Pack(here, packed, 0, comm)
        times.append(MPI.Wtime())
        kind.Unpack(packed, 0, here, comm)
        times.append(MPI.Wtime())
        row = MPI.DOUBLE.Create_contiguous(COLUMNS).Commit()
        row.Pack(here[0], packed, 0, comm)
        comm.Sendrecv([here, 1, row], 0, 0, [here, 1, row], 0)
        times.append(MPI.Wtime())
        assert end == 8 * ROWS
        return np.diff(times)

    free, spent = (
        lk.run(program, ranks=1, on="star:1", calibration=costs).results[0] for costs in (None, charged())
    )
    assert spent - free == pytest.approx([COLUMN_S, COLUMN_S, 0.0], rel=1e-9, abs=1e-12)


def test_phantoms_are_charged_as_data_are():
    def program(comm):
        kind = column()
        if comm.rank == 0:
            comm.Send([lk.sized(ROWS * COLUMNS), 1, kind], 1)
        else:
            comm.Recv([lk.sized(ROWS * COLUMNS), 1, kind], 0)

    free, run = (
        lk.run(program, ranks=2, on="star:2", calibration=costs).makespan_s for costs in (None, charged())
    )
    assert run - free == pytest.approx(2 * COLUMN_S, rel=1e-9)


def test_the_shipped_calibration_adds_packing_to_the_default_one():
    packing, default = find_calibration("packing"), find_calibration("default")
    assert default.packing is None
    assert packing.packing is not None
    assert packing.reference_flops_per_s == default.reference_flops_per_s
    assert {key: cost for key, cost in packing.costs.items() if key != PACKING} == default.costs
    with raises_code(lk.errors.DataError, "unknown-name", "'nowhere'"):
        KernelCosts.read('base = "nowhere"\n[machine]\n[kernels.pack.1]', "ours")


def test_a_check_or_a_trace_charges_nothing_besides():
    plain = lk.run(blocking, ranks=2, on="star:2", calibration=charged())
    for how in ({"trace": True}, {"check": True}):
        assert (
            lk.run(blocking, ranks=2, on="star:2", calibration=charged(), **how).makespan_s
            == plain.makespan_s
        )
