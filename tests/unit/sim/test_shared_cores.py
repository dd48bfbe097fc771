"""Ranks of one host that share its cores: what takes part, what is said of it, and how such runs end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI, registry
from labkit.errors import DeadlockError, RankError, TimeLimitError
from labkit.local import sort
from labkit.sim.isolation import host_clock
from labkit.sim.schedules import perform, simulate
from tests.support.refusals import raises_code

ONE_CORE = {"on": "star:1", "mapping": "block"}


def ends(run: lk.Run) -> list[float]:
    return [float(end) for end in run.trace.ends_s]


def test_computations_of_one_one_and_two_seconds() -> None:
    def program(comm: Any) -> None:
        lk.compute(seconds=2.0 if comm.rank == 2 else 1.0)

    assert ends(lk.run(program, 3, trace=True, **ONE_CORE)) == [3.0, 3.0, 4.0]
    assert ends(lk.run(program, 3, "star:1,cores=2", mapping="block", trace=True))[2] == pytest.approx(2.5)
    assert ends(lk.run(program, 3, "star:1,cores=3", trace=True)) == [1.0, 1.0, 2.0]


UNLIKE = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<host id="a" speed="1Gf"/><host id="b" speed="2Gf" core="2"/><link id="l" bandwidth="1GBps" latency="1us"/>
<route src="a" dst="b"><link_ctn id="l"/></route></zone></platform>
"""


def test_each_host_has_its_own_cores_and_speed(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text(UNLIKE)
    on = str(tmp_path / "p.xml")

    def program(comm: Any) -> None:
        lk.compute(flops=1e9)

    run = lk.run(program, 5, on, mapping=[0, 0, 1, 1, 1], trace=True)
    assert ends(run) == pytest.approx([2.0, 2.0, 0.75, 0.75, 0.75])
    said = [note for note in run.notes if "cores" in note]
    assert said == [
        "2 hosts have more ranks than cores: what computes there at the same time shares them "
        "(2 ranks on 1 core: up to 2 times slower)"
    ]
    assert ends(lk.run(program, 3, on, mapping=[0, 1, 1], trace=True)) == [1.0, 0.5, 0.5]


def test_flops_and_charged_kernels_share_too() -> None:
    def program(comm: Any) -> None:
        sort(np.arange(50_000)[::-1].copy())
        lk.compute(flops=1e6)

    alone = lk.run(program, 1, "star:1").makespan_s
    assert alone > 1e-3
    assert lk.run(program, 4, **ONE_CORE).makespan_s == pytest.approx(4 * alone, rel=1e-12)


@pytest.mark.parametrize(("is_test", "end_s"), [(True, 1.0), (False, 1.5)])
def test_a_rank_that_looks_with_iprobe_computes_and_one_that_tests_does_not(
    is_test: bool, end_s: float
) -> None:
    """SimGrid's Iprobe is a computation, its Test a sleep; Wtime and overheads are sleeps, too."""

    def program(comm: Any) -> float:
        if comm.rank == 0:
            lk.compute(seconds=1.0)
        elif comm.rank == 1:
            request = comm.irecv(tag=7)
            while MPI.Wtime() < 1.0:
                request.test() if is_test else comm.Iprobe(tag=7)
            request.cancel()
        return float(MPI.Wtime())

    at = lk.run(program, 2, model="lab", **ONE_CORE).results
    assert at[0] == pytest.approx(end_s, abs=1e-3)
    assert at[1] == pytest.approx(1.0, abs=1e-3)


def test_phases_have_the_time_that_they_take() -> None:
    def program(comm: Any) -> None:
        with lk.phase("work"):
            lk.compute(seconds=1.0)
        comm.Barrier()

    run = lk.run(program, 4, trace=True, **ONE_CORE)
    assert (run.phases["end_s"] - run.phases["begin_s"]).tolist() == [4.0] * 4
    explained = run.explain()
    work = explained.reasons[explained.reasons["phase"] == "work"].set_index("reason")["seconds"]
    assert work["computation"] == pytest.approx(1.0)
    assert work["shared cores (4 ranks on 1 core)"] == pytest.approx(3.0)
    assert "shared cores (4 ranks on 1 core)" in explained.reading()
    assert explained.reasons["seconds"].sum() == pytest.approx(run.makespan_s)


def test_a_machine_with_cores_enough_records_what_it_did() -> None:
    run = lk.run(lambda comm: lk.compute(seconds=1.0), 4, "star:2,cores=2", trace=True)
    assert list(run.trace.computations) == ["rank", "begin_s", "end_s"]
    assert run.notes == []


def test_the_same_run_gives_the_same_bits() -> None:
    def program(comm: Any) -> None:
        for i in range(20):
            lk.compute(seconds=1e-3 / (1 + (comm.rank * 7 + i) % 5))
            comm.Sendrecv(np.zeros(100), (comm.rank + 1) % comm.size, 0, np.zeros(100), MPI.ANY_SOURCE)
            comm.Allreduce(np.ones(10), np.empty(10))

    runs = [
        lk.run(program, 12, "star:4,cores=2", mapping="cyclic", trace=True, noise="jitter=20us,period=1ms")
        for _ in range(2)
    ]
    assert ends(runs[0]) == ends(runs[1])
    assert runs[0].trace.computations.equals(runs[1].trace.computations)


def test_a_run_with_noise_is_slower_than_without() -> None:
    def program(comm: Any) -> None:
        lk.compute(seconds=1e-2)

    quiet = lk.run(program, 3, **ONE_CORE).makespan_s
    noisy = lk.run(program, 3, noise="jitter=100us,period=1ms", seed=1, **ONE_CORE).makespan_s
    assert quiet == pytest.approx(3e-2)
    assert 1.02 * quiet < noisy < 1.4 * quiet


def test_a_trace_of_calls_has_the_work_and_not_its_sharing(tmp_path: Path) -> None:
    def program(comm: Any) -> None:
        lk.compute(seconds=1.0 + comm.rank)
        comm.Barrier()

    crowded = lk.run(program, 4, trace_ti=tmp_path / "t", **ONE_CORE)
    assert crowded.makespan_s > 10.0
    assert 4.0 < lk.replay(tmp_path / "t", "star:4").makespan_s < 4.1
    again = lk.replay(tmp_path / "t", "star:1", mapping="block").makespan_s
    assert again == pytest.approx(crowded.makespan_s, rel=1e-12)


def test_combining_on_shared_cores() -> None:
    """Recursive doubling combines twice for 4 ranks, everybody at once: 4 times slower on one core."""
    schedule = registry.get("allreduce", "recursive_doubling").build(4)
    machine = lk.platform("star:1,lat=0us,loopback_bw=1000000GBps,loopback_lat=0us").mapped("block")
    given = {"n_bytes": 1000, "combine_s_per_byte": 1e-6}
    assert simulate(schedule, machine, "raw", **given).makespan_s == pytest.approx(4 * 2e-3, rel=1e-6)
    assert simulate(schedule, "star:4", "raw", **given).makespan_s == pytest.approx(2e-3, rel=1e-2)


def test_an_operator_may_charge_and_the_result_is_right() -> None:
    def slow_sum(a: Any, b: Any, datatype: Any) -> None:
        lk.compute(seconds=1e-3)
        np.frombuffer(b, np.float64)[:] += np.frombuffer(a, np.float64)

    def program(comm: Any) -> float:
        op = MPI.Op.Create(slow_sum, commute=True)
        total = np.empty(3)
        comm.Allreduce(np.full(3, float(comm.rank)), total, op)
        return float(total[0])

    assert lk.run(program, 6, **ONE_CORE).results == [15.0] * 6


def test_measured_ranks_share_a_core() -> None:
    def program(comm: Any) -> None:
        end = host_clock.thread_time() + 0.02
        while host_clock.thread_time() < end:
            pass
        comm.Barrier()

    crowded = lk.run(program, 4, compute="measured", **ONE_CORE)
    assert crowded.makespan_s >= 4 * 0.02 * 0.95
    assert crowded.results == [None] * 4


def test_an_error_ends_ranks_that_compute() -> None:
    cleaned: list[int] = []

    def program(comm: Any) -> None:
        try:
            lk.compute(seconds=1.0 + comm.rank)
            if comm.rank == 0:
                raise ValueError("enough")
            lk.compute(seconds=10.0)
        finally:
            cleaned.append(comm.rank)
            lk.compute(seconds=1.0)  # in an ending run: nothing that could wait

    with raises_code(RankError, "rank-failed"):
        lk.run(program, 4, isolate=False, **ONE_CORE)
    assert sorted(cleaned) == [0, 1, 2, 3]


def test_a_deadlock_is_one_only_when_everybody_has_computed() -> None:
    def program(comm: Any) -> None:
        if comm.rank < 2:
            comm.recv(source=1 - comm.rank)
        else:
            lk.compute(seconds=1e3)

    with raises_code(DeadlockError, "deadlock", "2", "4") as caught:
        lk.run(program, 4, **ONE_CORE)
    assert caught.value.cycle == [0, 1]


def test_the_time_limit_says_who_computes() -> None:
    def program(comm: Any) -> None:
        if comm.rank == 0:
            while True:
                lk.compute(seconds=1e-6)
        elif comm.rank == 1:
            lk.compute(seconds=1e9)
        else:
            comm.recv(source=0)

    with raises_code(TimeLimitError, "time-limit", "rank 1", "test_shared_cores", "rank 2: recv from rank 0"):
        lk.run(program, 3, timeout_s=0.5, **ONE_CORE)


def test_data_are_combined_while_the_time_is_shared() -> None:
    schedule = registry.get("allreduce", "ring").build(6)
    buffers = [{"send": np.arange(12.0) + r, "recv": np.empty(12)} for r in range(6)]
    perform(schedule, buffers, lk.platform("star:2,cores=2").mapped("cyclic"), op="sum")
    for own in buffers:
        np.testing.assert_array_equal(own["recv"], 6 * np.arange(12.0) + 15)
