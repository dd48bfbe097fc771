"""The laws of speed-up against the simulator, and against each other."""

from __future__ import annotations

import math

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.models import Amdahl, Gustafson, isoefficiency, karp_flatt
from tests.support.refusals import raises_code

P = [1, 2, 3, 4, 5, 7, 8, 16, 64]


def job(comm, serial_s: float, parallel_s: float) -> None:
    if comm.rank == 0:
        lk.compute(seconds=serial_s)
    comm.barrier()
    lk.compute(seconds=parallel_s / comm.size)


def test_amdahls_law_is_what_a_simulated_program_with_a_serial_part_does():
    times = [lk.run(job, p, "star", args=(2.0, 18.0)).makespan_s for p in P]  # a barrier takes some µs
    law = Amdahl.fit(P, times)
    assert law.serial_share == pytest.approx(0.1, rel=1e-3)
    assert law.one_rank_s == pytest.approx(20, rel=1e-3)
    assert law.seconds(P) == pytest.approx(times, rel=1e-3)
    assert law.speedup(64) == pytest.approx(times[0] / times[-1], rel=1e-3)
    assert law.speedup(10**9) == pytest.approx(law.limit, rel=1e-6)


def test_gustafsons_law_is_what_it_does_when_the_work_grows():
    """Each rank has 18 s: a speed-up counts against the same work on one rank."""
    for p in P:
        parallel = lk.run(job, p, "star", args=(2.0, 18.0 * p)).makespan_s
        alone = 2.0 + 18.0 * p
        assert Gustafson(0.1).speedup(p) == pytest.approx(alone / parallel, rel=1e-3)


def test_both_laws_are_one_seen_from_two_ends():
    for p in P:
        scaled = Gustafson(0.3)
        share_of_one_rank = 0.3 / (0.3 + 0.7 * p)
        assert Amdahl(share_of_one_rank).speedup(p) == pytest.approx(scaled.speedup(p))


def test_karp_and_flatt_find_the_share_and_tell_overheads_from_it():
    assert karp_flatt([2, 8, 64], Amdahl(0.05).speedup([2, 8, 64])) == pytest.approx([0.05] * 3)
    p = np.array([2, 4, 8, 16])
    with_overhead = 1 / (1 / p + 0.001 * np.log2(p))
    assert np.all(np.diff(karp_flatt(p, with_overhead)) > 0)


def test_isoefficiency_keeps_a_simulated_reduction_as_efficient_as_asked():
    """On the machine of the formula, where a message takes a second."""
    from labkit.machines import models

    machine = models.get(
        "loggps", latency_s=1.0, gap_s=0.0, gap_per_byte_s=0.0,
        send_overhead=(), isend_overhead=(), recv_overhead=(),
    )  # fmt: skip

    def summed(comm, work_s):
        lk.compute(seconds=work_s / comm.size)
        comm.Allreduce(np.ones(1), np.ones(1))

    def overhead_s(p, work_s):
        return p * math.log2(p) * 1.0

    how = {"coll": {"allreduce": "recursive_doubling"}, "model": machine}
    for p in (2, 4, 16):
        work = isoefficiency(overhead_s, p, 0.75)
        makespan = lk.run(summed, p, "star", args=(work,), **how).makespan_s
        assert work / (p * makespan) == pytest.approx(0.75, rel=1e-6)


def test_work_that_costs_as_it_grows_never_becomes_efficient():
    assert isoefficiency(lambda p, work: 0.1 * work, 8, 0.8) == 0.0
    with raises_code(DataError, "unsupported", "8", "ranks 80"):
        isoefficiency(lambda p, work: 0.5 * work + 1e-6, 8, 0.8)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Amdahl(1.5), lambda: Amdahl(0.1, 0.0), lambda: Gustafson(-0.1),
        lambda: Amdahl(0.1).speedup(0), lambda: Amdahl.fit([4, 4], [1, 1]),
        lambda: Amdahl.fit([1, 2], [1, -1]), lambda: Amdahl.fit([1, 2], [1]),
        lambda: karp_flatt(1, 1), lambda: isoefficiency(lambda p, w: 1.0, 4, 1.0),
    ],
)  # fmt: skip
def test_what_no_law_covers_is_refused(wrong):
    with pytest.raises(DataError):
        wrong()
