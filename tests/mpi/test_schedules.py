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


@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
def test_every_algorithm_over_real_messages(ranks: int) -> None:
    results = lk.run(every_algorithm, ranks, "mpi", timeout_s=120).results
    assert len(set(results)) == 1
    assert results[0] > 80
