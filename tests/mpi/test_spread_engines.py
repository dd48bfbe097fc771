"""Sweeps over the engines of an ipyparallel cluster: the serial study, engines that die, interrupts."""

from __future__ import annotations

import os
import time
import warnings

import pytest

import labkit as lk
from labkit.errors import MachineError

ipyparallel = pytest.importorskip("ipyparallel")
pytestmark = [
    pytest.mark.mpi, pytest.mark.slow, pytest.mark.usefixtures("nothing_left"),
    pytest.mark.filterwarnings("ignore"),
]  # fmt: skip


@pytest.fixture
def client(tmp_path, monkeypatch, nothing_left):
    """Start two engines that know nothing of MPI."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    cluster = ipyparallel.Cluster(n=2, engines="local", log_level=50)
    try:
        found = cluster.start_and_connect_sync()
        found.wait_for_engines(2, timeout=60)
        yield found
        found.close()
    finally:
        cluster.stop_cluster_sync()


def program(comm, n, marks=None):
    import numpy as np

    if marks is not None and n == 4:
        open(os.path.join(marks, "there"), "w").close()
        while True:
            pass
    comm.allreduce(float(np.random.default_rng().random()) * n)
    if n == 2:
        raise ValueError("two")
    comm.sendrecv(bytes(int(1000 * np.random.default_rng().random())), dest=(comm.rank + 1) % comm.size)


def measured(jobs):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return lk.sweep(program, [1, 2, 4], n=[1, 2, 3], repeats=3, progress=False, jobs=jobs)


def test_engines_give_the_serial_study_then_one_dies_then_an_interrupt(client, tmp_path, monkeypatch):
    from labkit.study.pool import EnginePool

    serial = measured(None)
    for jobs in (client.load_balanced_view(), client, client[:]):
        spread = measured(jobs)
        assert spread.data.equals(serial.data)
        assert spread.notes == serial.notes

    def dies(comm, n):
        if n == 1:
            os._exit(3)

    study = lk.sweep(dies, 2, n=[1, 2, 3], repeats=1, progress=False, jobs=client)
    assert set(study.data["n"]) == {2, 3}
    assert study.failures[0]["point"] == "ranks=2, n=1"
    assert "its engine died" in study.failures[0]["error"]

    whole = EnginePool.next

    def next_or_interrupt(self):
        if self._tasks[0].point.parameters["n"] != 4:
            return whole(self)
        deadline = time.monotonic() + 60
        while not (tmp_path / "there").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        raise KeyboardInterrupt

    monkeypatch.setattr(EnginePool, "next", next_or_interrupt)
    study = lk.sweep(
        program, 1, n=[1, 4, 5], marks=str(tmp_path), repeats=1, progress=False, jobs=client, timeout_s=None
    )
    assert set(study.data["n"]) == {1}
    assert "2 of 3 points are missing (ranks=1, n=4" in study.notes["remarks"][0]
    monkeypatch.setattr(EnginePool, "next", whole)
    assert len(measured(client)) == len(serial.data), "the engine that was interrupted works again"


def test_mpi_engines_simulate_as_well_and_none_left_is_said():
    serial = measured(None)
    with lk.cluster(2) as machine:
        spread = measured(machine)
        assert spread.data.equals(serial.data)
        view = machine.client.load_balanced_view()
    with pytest.raises(MachineError):
        measured(view)
