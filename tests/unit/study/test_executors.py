"""Sweeps over executors: the serial study, workers that die, executors that break or take no work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.study.rows import HOST_METRICS
from tests.support.refusals import raises_code

HOW: dict[str, Any] = {"n": [1, 2, 3], "repeats": 3, "progress": False}


def program(comm: Any, n: int) -> None:
    comm.allreduce(float(np.random.default_rng().random()) * n)
    with lk.phase("turn"):
        comm.sendrecv(bytes(int(1000 * np.random.default_rng().random())), dest=(comm.rank + 1) % comm.size)
    if n == 2 and comm.size == 4:
        raise ValueError("not here")


def dies(comm: Any, n: int, mark: str | None = None) -> None:
    """Kill the process of one point, always or once."""
    if n == 3 and comm.rank == 0 and (mark is None or not os.path.exists(mark)):
        if mark is not None:
            Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    program(comm, 1)


def swept(executor: Any = None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a point that fails warns
        return lk.sweep(program, [1, 2, 4], executor=executor, **HOW)


class Backwards(Executor):
    """Runs what was submitted last first, when the first result is wanted."""

    def __init__(self) -> None:
        self._calls: list[Any] = []

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.append((future, function, args))
        if len(self._calls) == 9:
            for one, call, given in reversed(self._calls):
                one.set_result(call(*given))
        return future


class Job:
    """A job as submitit has it: it can only be asked."""

    def __init__(self, function: Any, args: Any) -> None:
        self._call, self._asked = (function, args), 0

    def done(self) -> bool:
        self._asked += 1
        return self._asked > 1

    def result(self) -> Any:
        function, args = self._call
        return function(*args)


class Jobs:
    def submit(self, function: Any, *args: Any) -> Job:
        return Job(function, args)


def simulated(study: Any) -> Any:
    """Return the rows that do not depend on the host."""
    return study.data[~study.data["metric"].isin(HOST_METRICS)].reset_index(drop=True)


def test_every_executor_gives_the_serial_study(monkeypatch) -> None:
    monkeypatch.setattr("labkit.study.pool.LOOK_S", 0.001)
    serial = swept()
    assert serial.failures
    with ThreadPoolExecutor(3) as threads, ProcessPoolExecutor(2) as processes:
        for executor in (threads, processes, Backwards(), Jobs()):
            study = swept(executor)
            assert simulated(study).equals(simulated(serial)), executor
            assert study.notes == serial.notes, executor


def test_a_broken_executor_loses_nothing_but_the_point_that_kills(tmp_path) -> None:
    serial = lk.sweep(dies, 2, n=[1, 2, 4], repeats=1, progress=False)
    with ProcessPoolExecutor(2) as processes, pytest.warns(UserWarning, match="n=3 failed: its worker"):
        study = lk.sweep(dies, 2, n=[1, 2, 3, 4], repeats=1, progress=False, executor=processes)
    assert simulated(study).equals(simulated(serial))
    assert [failure["point"] for failure in study.failures] == ["ranks=2, n=3"]
    assert any("BrokenProcessPool" in remark for remark in study.notes["remarks"])
    mark = str(tmp_path / "died")
    with ProcessPoolExecutor(2) as processes:
        study = lk.sweep(dies, 2, n=[3, 4], mark=mark, repeats=1, progress=False, executor=processes)
    assert os.path.exists(mark)
    assert simulated(study).equals(
        simulated(lk.sweep(dies, 2, n=[3, 4], mark=mark, repeats=1, progress=False))
    )


def test_a_point_whose_worker_fails_is_reported_alone() -> None:
    class Losing(Jobs):
        def submit(self, function: Any, *args: Any) -> Any:
            self.count += 1
            return super().submit(function if self.count > 1 else self.lose, *args)

        @staticmethod
        def lose(*args: Any) -> None:
            raise OSError("node failed")

        count = 0

    with pytest.warns(UserWarning, match="its worker failed: OSError: node failed"):
        study = lk.sweep(program, [1, 2], n=[1, 3], repeats=1, progress=False, executor=Losing())
    assert [failure["point"] for failure in study.failures] == ["ranks=2, n=1"]  # the first that is given out
    assert len(study.data.groupby(["ranks", "n"])) == 3


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"executor": 2}, ("wrong-type", "executor")),
        ({"executor": ProcessPoolExecutor}, ("wrong-type", "executor")),
        ({"executor": Jobs(), "jobs": 2}, ("conflicting-options",)),
        ({"executor": Jobs(), "on": "mpi"}, ("conflicting-options",)),
        ({"executor": Jobs(), "compute": "measured"}, ("conflicting-options", "CPU")),
    ],
)
def test_what_cannot_run_points_is_refused(how, wanted: tuple[str, ...]) -> None:
    with raises_code(MachineError, *wanted):
        lk.sweep(lambda comm: None, [2, 4], progress=False, **how)


def test_an_executor_that_was_shut_down_takes_no_work() -> None:
    executor = ThreadPoolExecutor(1)
    executor.shutdown()
    with raises_code(MachineError, "machine-failed"):
        lk.sweep(program, 2, progress=False, executor=executor, n=1)


def test_the_page_about_many_machines_runs(tmp_path) -> None:
    page = (Path(__file__).parents[3] / "docs/when-one-machine-is-too-small.md").read_text("utf-8")
    program = page.split("```python\n")[1].split("```")[0]
    (tmp_path / "page.py").write_text(program + "    print(len(study.data.groupby(['ranks', 'n'])))\n")
    done = subprocess.run([sys.executable, "page.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6\n", "")


@pytest.mark.slow
def test_dask_survives_the_death_of_a_worker(tmp_path) -> None:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        mark = str(tmp_path / "died")
        how: dict[str, Any] = {"n": [1, 2, 3, 4], "mark": mark, "repeats": 1, "progress": False}
        study = lk.sweep(dies, [1, 2], executor=client.get_executor(), **how)
        assert os.path.exists(mark)
        assert simulated(study).equals(simulated(lk.sweep(dies, [1, 2], **how)))
