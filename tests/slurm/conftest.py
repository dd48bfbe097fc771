"""A real Slurm for the tests: four nodes on this machine, started once, left without jobs by every test."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import labkit as lk
from tests.support.mpich import MPICH

_spec = importlib.util.spec_from_file_location("slurm_machine", Path(__file__).with_name("machine.py"))
machine_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(machine_module)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """All of these take long, and all start real MPI processes."""
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.mpi)


@pytest.fixture(scope="session")
def slurm_machine():
    """A Slurm of four nodes."""
    lacking = machine_module.missing()
    if lacking:
        pytest.skip(lacking)
    with machine_module.SlurmMachine(4) as machine:
        yield machine


class Cluster:
    """What a test does with Slurm."""

    def __init__(self, folder: Path, scratch: Path) -> None:
        self.folder = folder
        # The daemons count their processes anew in every test session: launchers must not meet what the
        # process with their number has left in /tmp.
        self.setup = [
            f"export TMPDIR=$(mktemp -d {scratch}/job.XXXXXX)",
            "export OMPI_MCA_mpi_yield_when_idle=1",
        ]

    def on(self, **options):
        """A machine for ``on=`` whose jobs' folders are the test's own."""
        setup = [*self.setup, *([more] if isinstance(more := options.pop("setup", []), str) else more)]
        return lk.slurm(folder=str(self.folder), setup=setup, **options)

    def spec(self, more: str = "") -> str:
        """The same as text, for a command line."""
        return f"slurm,folder={self.folder}" + (f",{more}" if more else "")

    def ask(self, *command: str) -> str:
        """The answer of one of Slurm's commands."""
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.strip()

    def numbers(self) -> list[str]:
        """All jobs that Slurm remembers, the newest last."""
        return sorted(self.ask("squeue", "-h", "--states=all", "-o", "%i").split(), key=int)

    def wait_for(self, condition, limit_s: float = 60.0):
        """Wait until a condition gives something true, and return it."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            time.sleep(0.1)
        raise AssertionError(f"nothing within {limit_s} s; the queue: {self.ask('squeue', '--states=all')}")

    def python(self, text: str, **kwargs) -> subprocess.Popen[str]:
        """Start a Python with a program text that has this cluster as `cluster`."""
        head = (
            "import signal, sys, time; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
            f"import labkit as lk\ncluster = lk.slurm(folder={str(self.folder)!r}, "
            f"setup={self.setup!r})\n"
        )
        return subprocess.Popen(
            [sys.executable, "-c", head + text], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            start_new_session=True, **kwargs,
        )  # fmt: skip


@pytest.fixture
def slurm(slurm_machine, monkeypatch, tmp_path):
    """The cluster; its jobs are cancelled when the test is over."""
    monkeypatch.setenv("SLURM_CONF", slurm_machine.conf)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in list(os.environ):
        if name.startswith("SLURM_") and name != "SLURM_CONF":
            monkeypatch.delenv(name)
    cluster = Cluster(tmp_path / "jobs", slurm_machine.folder)
    yield cluster
    subprocess.run(["scancel", "--full", "--user=root"], capture_output=True, timeout=60, check=False)
    cluster.wait_for(lambda: not cluster.ask("squeue", "-h"))


@pytest.fixture
def mpich():
    """The path of an mpiexec of MPICH, whose library knows srun's PMI."""
    if not MPICH.exists():
        pytest.skip("MPICH of the package index is not in build/mpich (make slurm-test puts it there)")
    return str(MPICH)
