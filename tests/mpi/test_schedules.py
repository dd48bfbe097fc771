"""The schedules that the simulator runs are right on real MPI too, from the same files."""

from __future__ import annotations

import pytest

import labkit as lk

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def every_algorithm(comm):
    """Run every algorithm on random data; return how many calls were verified."""
    import numpy as np
    from mpi4py import MPI

    from labkit import registry
    from labkit.schedule import execute
    from tests.support.collectives import affine, case_of

    verified = 0
    for problem, name in registry.schedules():
        algorithm = registry.get(problem, name)
        for n in (0, 3, 20_000):  # the last is beyond every eager limit
            for op in ("sum", affine) if algorithm.build(1).problem.is_reduction else ("sum",):
                if algorithm.requirements.unmet(comm.size, op == "sum"):
                    continue
                rng = np.random.default_rng(n)  # the same on every rank
                root = int(rng.integers(comm.size))
                schedule = algorithm.build(comm.size, root, commutative=op == "sum")
                case = case_of(schedule, rng, n, op)
                counts = None if case.counts is None else case.counts[comm.rank]
                operator = MPI.SUM if op == "sum" else op
                execute(comm, schedule, op=operator, counts=counts, tag=7, **case.buffers[comm.rank])
                for buffer, wanted in case.expected[comm.rank].items():
                    np.testing.assert_array_equal(
                        case.buffers[comm.rank][buffer], wanted, err_msg=f"{schedule}"
                    )
                verified += 1
    return verified


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_algorithm_over_real_messages(ranks: int) -> None:
    results = lk.run(every_algorithm, ranks, "mpi", timeout_s=120).results
    assert len(set(results)) == 1
    assert results[0] > 80


def a_made_one(comm, made):
    """Carry out what was synthesized for a machine with a slow cable."""
    import numpy as np

    mine, got = np.full(20_000, float(comm.rank)), np.empty(20_000 * comm.size)
    made.execute(comm, send=mine, recv=got)
    return got[::20_000].tolist()


@pytest.mark.slow
def test_a_synthesized_collective_over_real_messages() -> None:
    cables = [(0, 1), (1, 2), (2, 3, {"bw": "1Gbps"}), (3, 0)]
    machine = lk.graph(cables, range(4), bw="10Gbps", lat="1us")
    made = lk.synthesize("allgather", on=machine, n_bytes=160_000)
    assert lk.run(a_made_one, 4, "mpi", args=(made,), timeout_s=120).results == [[0.0, 1.0, 2.0, 3.0]] * 4
