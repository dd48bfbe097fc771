"""Measured and sampled computation: who is charged what; never how fast this host is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError, RankError
from labkit.local import Cost, KernelCosts, calibration, sort
from labkit.program.sampling import Sample
from labkit.sim.isolation import host_clock
from tests.support.refusals import raises_code


def burn(seconds: float) -> None:
    """Use the CPU for so long, however busy the host is."""
    end = host_clock.thread_time() + seconds
    while host_clock.thread_time() < end:
        pass


def one_works(comm: lk.MPI.Comm) -> float:
    if comm.rank == 1:
        burn(0.05)
    now = lk.MPI.Wtime()
    comm.Barrier()
    return float(now)


def slower(factor: float) -> KernelCosts:
    """The default costs, times a factor."""
    costs = {
        key: Cost(c.call_s * factor, c.item_s * factor, c.item_log_s * factor, c.entry_s * factor)
        for key, c in calibration().costs.items()
    }
    return KernelCosts("slower", {"cpu": "none"}, 1e9, costs)


def test_a_rank_is_charged_its_own_cpu_time() -> None:
    run = lk.run(one_works, 4, "star:4", compute="measured")
    assert run.results[1] >= 0.05
    assert max(run.results[:1] + run.results[2:]) < run.results[1]
    assert run.makespan_s > 0.05
    assert not run.machine["deterministic"]
    assert any("not deterministic" in note for note in run.notes)


def test_waiting_for_others_costs_nothing() -> None:
    """Rank 0 waits while the others work here, one after another: it is not charged their time."""

    def program(comm: lk.MPI.Comm) -> None:
        if comm.rank:
            burn(0.05)
        comm.Barrier()

    alone_s, all_s = 0.05, 4 * 0.05
    assert alone_s <= lk.run(program, 5, "star:5", compute="measured").makespan_s < all_s


def test_what_follows_the_last_call_counts() -> None:
    def program(comm: lk.MPI.Comm) -> None:
        comm.Barrier()
        burn(0.03)

    assert lk.run(program, 2, "star:2", compute="measured").makespan_s >= 0.03


@pytest.mark.parametrize(("compute", "on", "factor"), [
    ("measured:0.25", "star:2", 0.25), (lk.Measured(scale=4.0), "star:2", 4.0),
    ("measured", "star:2,speed=4Gf", 0.25),
])  # fmt: skip
def test_scale_and_host_speed(compute: str | lk.Measured, on: str, factor: float) -> None:
    def program(comm: lk.MPI.Comm) -> float:
        before = host_clock.thread_time()
        burn(0.04)
        spent = host_clock.thread_time() - before
        return float(lk.MPI.Wtime()) / spent

    ratio = lk.run(program, 1, on, compute=compute).results[0]
    assert factor <= ratio < 1.5 * factor


def test_without_it_code_takes_no_time_and_the_run_is_deterministic() -> None:
    run = lk.run(one_works, 4, "star:4", model="smpi")
    assert run.results == [1e-8] * 4
    assert run.machine["deterministic"]
    assert not any("not deterministic" in note for note in run.notes)


def test_a_phase_has_the_time_of_its_code() -> None:
    def program(comm: lk.MPI.Comm) -> None:
        with lk.phase("work"):
            burn(0.03)
        burn(0.01)
        with lk.phase("rest"):
            pass

    rows = {row[0]: row[2] for row in lk.run(program, 1, "star:1", compute="measured").phase_rows()}
    assert rows["work"] >= 0.03
    assert rows["rest"] < 0.01


def test_kernels_are_not_charged_twice() -> None:
    def program(comm: lk.MPI.Comm, kernel: Callable[[np.ndarray], np.ndarray]) -> None:
        kernel(np.arange(10_000_000 // 100))

    huge = lk.run(program, 1, "star:1", args=(sort,), calibration=slower(1e6)).makespan_s
    measured = lk.run(program, 1, "star:1", args=(sort,), compute="measured").makespan_s
    assert 0 < measured < huge


@pytest.mark.parametrize(
    ("compute", "code"),
    [
        ("guessed", "unknown-name"),
        ("measured:soon", "malformed-value"),
        ("measured:-1", "out-of-range"),
        ("measured:0", "out-of-range"),
        (3, "unknown-name"),
    ],
)
def test_other_ways_are_refused(compute: object, code: str) -> None:
    with raises_code(MachineError, code):
        lk.run(one_works, 2, "star:2", compute=compute)


# --- sampling -----------------------------------------------------------------------------------------


def loop(comm: lk.MPI.Comm, times: int, n: int, over: str = "rank") -> tuple[int, float]:
    runs = 0
    for _ in range(times):
        for _ in lk.sampled("kernel", n=n, over=over):  # type: ignore[arg-type]
            runs += 1
            burn(0.002)
    return runs, float(lk.MPI.Wtime())


def test_it_runs_n_times_and_then_charges_the_mean() -> None:
    run = lk.run(loop, 3, "star:3", args=(40, 5))
    assert [runs for runs, _ in run.results] == [5, 5, 5]
    assert all(clock >= 0.08 for _, clock in run.results)
    assert not run.machine["deterministic"]


def test_over_all_ranks_together() -> None:
    run = lk.run(loop, 4, "star:4", args=(10, 6, "ranks"))
    assert sum(runs for runs, _ in run.results) == 6
    assert all(clock >= 0.02 for _, clock in run.results)


def test_the_mean_is_exactly_what_is_charged() -> None:
    def program(comm: lk.MPI.Comm) -> list[float]:
        clocks = [0.0]
        for _ in range(6):
            for _ in lk.sampled("kernel", n=3):
                burn(0.002)
            clocks.append(float(lk.MPI.Wtime()) - 1e-8)
        return clocks

    clocks = lk.run(program, 1, "star:1").results[0]
    spent = np.diff(clocks)
    assert spent[3:] == pytest.approx([spent[:3].mean()] * 3, abs=1e-7)


def test_a_block_that_asks_and_one_that_does_not() -> None:
    def program(comm: lk.MPI.Comm) -> tuple[int, int]:
        asked = always = 0
        for _ in range(10):
            with lk.sampled("asks", n=2) as is_run:
                if is_run:
                    asked += 1
            with lk.sampled("does not", n=2):
                always += 1
        return asked, always

    assert lk.run(program, 2, "star:2").results == [(2, 10), (2, 10)]


def test_a_threshold_ends_the_sampling_early() -> None:
    def program(comm: lk.MPI.Comm) -> int:
        runs = 0
        for _ in range(50):
            for _ in lk.sampled("kernel", n=50, threshold=0.5):
                runs += 1
                burn(0.002)
        return runs

    assert 2 <= lk.run(program, 1, "star:1").results[0] < 50


def test_kernels_inside_do_not_charge_and_those_outside_do() -> None:
    def program(comm: lk.MPI.Comm, is_sampled: bool) -> None:
        keys = np.arange(1000)
        for _ in lk.sampled("sort", n=1) if is_sampled else [0]:
            sort(keys)

    slow = slower(1e9)
    assert lk.run(program, 1, "star:1", args=(False,), calibration=slow).makespan_s > 1000
    assert 0 < lk.run(program, 1, "star:1", args=(True,), calibration=slow).makespan_s < 1


def test_communication_inside_is_refused() -> None:
    def program(comm: lk.MPI.Comm) -> None:
        for _ in lk.sampled("exchange"):
            comm.Barrier()

    with raises_code(RankError, "unsupported"):
        lk.run(program, 2, "star:2")


def test_outside_any_run_the_work_is_always_done() -> None:
    assert sum(1 for _ in range(20) for _ in lk.sampled("kernel", n=2)) == 20


def test_break_out_of_it_counts() -> None:
    def program(comm: lk.MPI.Comm) -> int:
        runs = 0
        for _ in range(10):
            for _ in lk.sampled("kernel", n=3):
                runs += 1
                break
        return runs

    assert lk.run(program, 1, "star:1").results == [3]


@pytest.mark.parametrize("wrong", [{"n": 0}, {"n": 2.5}, {"over": "all"}, {"threshold": -1.0}, {"name": ""}])
def test_what_cannot_be_sampled_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"sampled work|over is|threshold"):
        lk.sampled(**({"name": "kernel"} | wrong))  # type: ignore[arg-type]


def test_statistics_of_a_sample() -> None:
    sample, times = Sample(), [1.0, 2.0, 4.0, 5.0]
    for seconds in times:
        sample.add(seconds)
    assert sample.mean_s == 3.0
    assert sample.relative_error == pytest.approx(np.std(times, ddof=1) / 2 / 3)
