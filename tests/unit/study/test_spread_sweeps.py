"""Sweeps over workers: the same study as a serial sweep, whatever order the workers answer in."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
import warnings
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError, MachineError, ProgramError, RankError
from labkit.study.measure import SweepJob
from labkit.study.points import plan_points
from labkit.study.spread import Harvest
from labkit.study.sweep_points import run_points, sweep


@dataclass
class FakeRun:
    """The shape of a Run."""

    ranks: int
    makespan_s: float
    machine: dict[str, Any]
    notes: list[str]
    program: str = "program"
    on: str = "star"
    model: str = "lab"
    phases: pd.DataFrame = field(
        default_factory=lambda: pd.DataFrame(columns=["rank", "phase", "begin_s", "end_s"])
    )
    messages: int = 3
    bytes: int = 0
    is_valid: bool = True
    repetitions: list[Any] = field(default_factory=list)


def machine_of(draw_seed: int, noisy: float, failing: float) -> Any:
    """Make a runner whose answers depend on nothing but its arguments."""

    def runner(program: Any, ranks: int, *, seed: int, kwargs: dict[str, Any], **how: Any) -> FakeRun:
        here = random.Random(f"{draw_seed} {ranks} {kwargs}")
        is_noisy, fails_from = here.random() < noisy, 0 if here.random() < failing / 2 else 1
        if here.random() < failing and seed >= fails_from:
            raise RankError(1, f"ValueError: seed {seed} at {ranks}")
        time_s = 1.0 + (random.Random(f"{here.random()} {seed}").random() if is_noisy else 0.0)
        notes = [f"note {here.randrange(3)}"]
        return FakeRun(ranks, time_s, {"noise": 1} if here.random() < 0.1 else {}, notes)

    return runner


class AnyOrder:
    """Workers in this process that answer in an order drawn beforehand."""

    def __init__(self, job: SweepJob, room: int, order: random.Random) -> None:
        self.job, self.room, self.order = job, room, order
        self.found: list[Any] = []

    @property
    def has_room(self) -> bool:
        return len(self.found) < self.room

    def submit(self, point: Any, packed: bytes) -> None:
        self.found.append((point, self.job.find(point)))

    def next(self) -> Any:
        return self.found.pop(self.order.randrange(len(self.found)))

    def close(self) -> None:
        pass


class NoBar:
    total = 0

    def set_postfix_str(self, *args: Any, **how: Any) -> None:
        pass

    def update(self) -> None:
        pass


@settings(deadline=None, max_examples=100)
@given(
    seed=st.integers(0, 10**6),
    noisy=st.sampled_from([0.0, 0.2, 1.0]),
    failing=st.sampled_from([0.0, 0.4]),
    ranks=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    repeats=st.integers(1, 4),
    room=st.integers(2, 5),
)
def test_any_order_of_answers_gives_the_serial_study(seed, noisy, failing, ranks, repeats, room) -> None:
    def measure(run: FakeRun) -> dict[str, float]:
        return {"twice_s": 2 * run.makespan_s}

    runner = machine_of(seed, noisy, failing)
    plan = plan_points(ranks, "star", None, {"n": [1, 2], "kind": "u"})
    job = SweepJob(None, (), repeats, 1, 0, 60.0, {}, measure, runner)
    serial, other = Harvest(0), Harvest(0)
    run_points(job, plan, serial, NoBar())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labkit.study.spread.pack_points", lambda plan: [b""] * len(plan))
        patch.setattr("labkit.study.sweep_points.second_look", lambda workers, job: None)
        patch.setattr(
            "labkit.study.sweep_points.pool_of",
            lambda workers, job, points: AnyOrder(job, workers, random.Random(seed)),
        )
        run_points(job, plan, other, NoBar(), room)
    assert other.rows == serial.rows
    assert other.failures == serial.failures
    assert other.remarks == serial.remarks
    assert list(other.machines.items()) == list(serial.machines.items())
    assert [str(error) for error in other.errors] == [str(error) for error in serial.errors]


class Color(Enum):
    RED = 1


class Config:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    def __repr__(self) -> str:
        return f"Config({self.factor})"


SCALE = [1.0]


def exchange(comm: Any, n: int, config: Config, bump: float = 0.0) -> int:
    with lk.phase("sum"):
        values = np.random.default_rng().random(n)  # seeded by labkit, rank by rank
        comm.allreduce(float(values.sum()) * SCALE[0])
    SCALE[0] += bump  # stays on the rank
    lk.compute(seconds=1e-6 * config.factor)
    with lk.phase("turn"):
        color, other = comm.sendrecv((Color.RED, config), dest=(comm.rank + 1) % comm.size)
        assert color is Color.RED
        assert type(other) is Config
        comm.sendrecv(bytes(int(1000 * values[0])), dest=(comm.rank + 1) % comm.size)
    if n == 3 and comm.size == 4:
        raise ValueError(f"not at {n}")
    return n


def both(**how: Any) -> tuple[Any, Any]:
    studies = []
    for jobs in (None, 2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a point that fails warns
            studies.append(sweep(exchange, [1, 2, 4, 8], progress=False, jobs=jobs, **how))
    return studies[0], studies[1]


@pytest.mark.slow
def test_processes_give_the_same_study_to_the_last_bit() -> None:
    serial, spread_out = both(
        on=["star", lambda p: f"torus:{p}x2"], n=[2, 3], config=[Config(1), Config(5)], bump=1.0, repeats=2,
        measure=lambda run: {"result": float(run.results[0])},
    )  # fmt: skip
    pd.testing.assert_frame_equal(serial.data, spread_out.data, check_exact=True)
    assert serial.notes == spread_out.notes
    assert serial.failures
    assert serial.data["config"].iloc[0] == "Config(1)"
    assert SCALE == [1.0]


@pytest.mark.slow
def test_what_a_worker_prints_and_its_settings_are_the_callers(capsys, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text("")

    def told(run: Any) -> dict[str, float]:
        print("measured", run.ranks)
        with np.errstate():
            return {"here": float(os.path.exists("mine.toml")), "depth": float(sys.getrecursionlimit())}

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 7)
    try:
        study = sweep(lambda comm: None, [2, 4], repeats=1, jobs=2, measure=told, progress=False)
    finally:
        sys.setrecursionlimit(limit)
    assert capsys.readouterr().out == "measured 2\nmeasured 4\n"
    assert set(study.data[study.data["metric"] == "here"]["value"]) == {1.0}
    assert set(study.data[study.data["metric"] == "depth"]["value"]) == {limit + 7.0}


def dying(comm: Any, n: int) -> None:
    if n == 2:
        os._exit(3)
    if n == 3:
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_a_worker_that_dies_costs_its_point_only() -> None:
    with pytest.warns(UserWarning, match="worker process"):
        study = sweep(dying, 2, n=[1, 2, 3, 4], repeats=1, jobs=2, progress=False)
    assert list(study.data["n"].unique()) == [1, 4]
    assert [failure["point"] for failure in study.failures] == ["ranks=2, n=2", "ranks=2, n=3"]
    assert "its worker process left with exit status 3" in study.failures[0]["error"]
    assert (
        "was ended by signal 9 (SIGKILL); unless someone sent it, the machine ran out of memory"
        in study.failures[1]["error"]
    )


def endless(comm: Any, n: int) -> None:
    while n == 2:
        pass


@pytest.mark.slow
def test_the_time_limit_holds_for_each_point() -> None:
    with pytest.warns(UserWarning, match="time limit"):
        study = sweep(endless, 2, n=[1, 2, 3], repeats=1, jobs=2, timeout_s=5.0, progress=False)
    assert list(study.data["n"].unique()) == [1, 3]
    assert study.failures[0]["kind"] == "TimeLimitError"


@pytest.mark.slow
def test_an_interrupt_ends_the_workers_and_keeps_what_is_done(monkeypatch, tmp_path) -> None:
    from labkit.study.pool import LocalPool

    whole, processes = LocalPool.next, []

    def interrupted(self: LocalPool) -> Any:
        processes[:] = [worker.process for worker in self._workers]
        found = whole(self)
        if found[0].parameters["n"] == 3:  # given out when another one was done
            raise KeyboardInterrupt
        return found

    monkeypatch.setattr(LocalPool, "next", interrupted)
    monkeypatch.setattr("labkit.study.pool._FREE_S", 0.1)
    study = sweep(lambda comm, n: None, 2, n=[1, 2, 3, 4], repeats=1, jobs=1 + 1, progress=False)
    kept = list(study.data["n"].unique())
    assert kept
    assert 3 not in kept
    assert any("interrupted by the user" in remark and "n=3" in remark for remark in study.notes["remarks"])
    deadline = time.monotonic() + 10
    while any(not process.wait(0) for process in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(process.wait(0) for process in processes)


def _pids(**how: Any) -> set[float]:
    """Return the processes of a sweep's points."""
    study = sweep(lambda comm, n: None, 2, n=[1, 2], repeats=1, progress=False, jobs=2,
                  measure=lambda run: {"pid": os.getpid()}, **how)  # fmt: skip
    return set(study.data[study.data["metric"] == "pid"]["value"])


@pytest.mark.slow
def test_the_next_sweep_has_the_workers_of_the_last_one(monkeypatch) -> None:
    monkeypatch.setattr("labkit.study.sweep_points.second_look", lambda *_: None)  # processes differ
    first = _pids()
    assert os.getpid() not in first
    assert _pids() == first
    os.kill(int(min(first)), signal.SIGKILL)  # one that waits for work
    assert min(first) not in _pids()
    monkeypatch.setenv("OF_ANOTHER_SWEEP", "1")
    assert not _pids() & first
    monkeypatch.setattr("labkit.study.pool._FREE_S", 0.1)
    last = _pids()
    deadline = time.monotonic() + 10
    while any(Path(f"/proc/{int(pid)}").exists() for pid in last) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(Path(f"/proc/{int(pid)}").exists() for pid in last)


@pytest.mark.slow
def test_a_module_that_was_edited_is_read_again(tmp_path, monkeypatch) -> None:
    """Also one that only the program has imported, in the worker."""
    module = tmp_path / "edited_between_sweeps.py"
    monkeypatch.syspath_prepend(tmp_path)

    def look(run: Any) -> dict[str, float]:
        import edited_between_sweeps

        return {"here": edited_between_sweeps.VALUE}

    def seen() -> set[float]:
        study = sweep(
            lambda comm, n: None, 2, n=[1, 2, 3, 4], repeats=1, progress=False, jobs=2, measure=look
        )
        return set(study.data[study.data["metric"] == "here"]["value"])

    module.write_text("VALUE = 1.0\n")
    assert seen() == {1.0}
    module.write_text("VALUE = 22.0\n")
    assert seen() == {22.0}


@pytest.mark.slow
def test_a_measure_that_fails_raises_its_own_error() -> None:
    def wrong(run: Any) -> dict[str, float]:
        raise LookupError("no such thing")

    with pytest.raises(LookupError, match="no such thing"):
        sweep(lambda comm: None, [2, 4], repeats=1, jobs=2, measure=wrong, progress=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"jobs": 0}, MachineError, "jobs is a number of processes from 1"),
        ({"jobs": 10**6}, MachineError, "jobs is a number of processes from 1"),
        ({"jobs": "two"}, MachineError, "jobs is a number of processes, or a cluster"),
        ({"jobs": True}, MachineError, "jobs is a number of processes, or a cluster"),
        ({"jobs": 2, "on": "mpi"}, MachineError, "would disturb each other's times"),
        ({"jobs": 2, "on": ["star", "mpi"]}, MachineError, "would disturb each other's times"),
        ({"jobs": 2, "options": {"compute": "measured"}}, MachineError, "CPU times"),
        ({"jobs": 2, "args": (sys.stdout,)}, ProgramError, "an argument cannot be pickled"),
        ({"jobs": 2, "n": [1, (i for i in "ab")]}, ProgramError, "the parameter 'n' cannot be pickled"),
        ({"jobs": 2, "ranks": []}, DataError, "at least one value"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(how, error, words) -> None:
    how = {"ranks": [2, 4], **how}
    with pytest.raises(error, match=words):
        sweep(lambda comm, *args, n=0: None, progress=False, **how)


def test_one_job_is_a_serial_sweep(monkeypatch) -> None:
    monkeypatch.setattr("labkit.study.sweep_points.pool_of", None)
    study = sweep(lambda comm: None, [2], jobs=1, repeats=1, progress=False)
    assert study.data["metric"].tolist() == [
        "makespan_s", "messages", "rank_messages", "bytes", "rank_bytes", "rounds", "rank_memory_bytes"
    ]  # fmt: skip
