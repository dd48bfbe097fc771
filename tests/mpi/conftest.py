"""What the tests of real MPI share: a notebook's kernel, and a proof that nothing is left behind."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import uuid
from pathlib import Path
from types import ModuleType

import pytest

import labkit as lk
from labkit.process.folders import RUN_LINK, SHARED_MEMORY
from labkit.real.engines import client
from labkit.real.mpi import launch


def marked_processes(mark: str) -> list[int]:
    """List the living processes that inherited the environment variable `mark`."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            if state not in "ZX" and mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue
    return found


@pytest.fixture
def nothing_left(monkeypatch, tmp_path):
    """Fail when a process of the test, or one of its temporary files, outlives the test.

    Others run labkit on this machine, and may have left anything: only what the test has made counts.
    """
    mark = f"LABKIT_TEST_MARK_{uuid.uuid4().hex}"
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv(mark, "1")
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield
    deadline = time.monotonic() + 30  # ranks clean up at their own pace, one that starts behind MPI_Init
    while (left := _left(mark, scratch)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert left == []


def _left(mark: str, scratch: Path) -> list[object]:
    return [*marked_processes(mark), *scratch.iterdir(), *shared_folders(scratch)]


def shared_folders(scratch: Path) -> list[Path]:
    """List the folders in shared memory of runs whose own folder was made in `scratch`."""
    found = []
    for folder in Path(SHARED_MEMORY).glob("labkit-*"):
        try:
            if (folder / RUN_LINK).readlink().is_relative_to(scratch):
                found.append(folder)
        except OSError:  # somebody else's, or gone
            continue
    return found


@pytest.fixture
def limit_when(monkeypatch):
    """Let a run's time limit pass once a condition holds: a busy host starts ranks slowly."""

    def set_condition(condition):
        clock = ModuleType("time")
        clock.__dict__.update(vars(time))
        clock.monotonic = lambda: time.monotonic() + (1000 if condition() else 0)
        for module in (launch, client):
            monkeypatch.setattr(module, "time", clock)

    return set_condition


class Marks:
    """Files that ranks make when they are where a test wants them."""

    def __init__(self, folder):
        self.folder = folder

    def make(self, rank):
        """Say that a rank is there: what it does next stands on the same line."""
        path = self.folder / f"there-{rank}"
        if not path.exists():
            path.touch()

    def are_there(self, *ranks):
        """Whether these ranks made theirs, a moment ago: they have gone on to what comes next."""
        paths = [self.folder / f"there-{rank}" for rank in ranks]
        return all(path.exists() and time.time() - path.stat().st_mtime > 0.5 for path in paths)

    def wait(self, *ranks):
        """Wait until they are there."""
        until = time.monotonic() + 60
        while not self.are_there(*ranks) and time.monotonic() < until:
            time.sleep(0.02)
        assert self.are_there(*ranks), "the ranks did not come up"


@pytest.fixture
def marks(tmp_path):
    """Marks that ranks make."""
    return Marks(tmp_path)


def _line(content):
    text = content["data"]["text/plain"]
    return text + "\n" if text else ""  # the line of a run that is over leaves an empty place


class Kernel:
    """A Jupyter kernel of this interpreter, as a notebook drives it."""

    def __init__(self, manager, client):
        self.manager, self.client = manager, client

    def run(self, code, timeout=60):
        """Run a cell, and return the text that stands under it in the end, and its error."""
        shown, error = [], []  # shown: pairs of a display's name and its text

        def collect(message):
            content = message["content"]
            display = content.get("transient", {}).get("display_id")
            if message["msg_type"] == "stream":
                shown.append((None, content["text"]))
            elif message["msg_type"] in ("display_data", "execute_result"):
                shown.append((display, _line(content)))
            elif message["msg_type"] == "update_display_data":  # such as the line of a run that goes on
                shown[:] = [(name, _line(content) if name == display else text) for name, text in shown]
            elif message["msg_type"] == "error":
                error.extend(content["traceback"])

        self.content = self.client.execute_interactive(code, timeout=timeout, output_hook=collect)["content"]
        if self.content["status"] == "aborted":  # it came before the kernel was done with a failed cell:
            return self.run(code, timeout)  # nothing of it was run, as of the rest of "run all"
        return "".join(text for _, text in shown), "\n".join(error)

    def start(self, code):
        """Start a cell."""
        self.client.execute(code)

    def interrupt(self):
        """Press the stop button."""
        self.manager.interrupt_kernel()

    def reply(self, timeout=60):
        """Wait for the end of the cell that was started."""
        return self.client.get_shell_msg(timeout=timeout)["content"]

    def stop_once(self, there):
        """Press the stop button as soon as a file is there, and wait for the end."""
        deadline = time.monotonic() + 60
        while not there.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert there.exists(), "the cell did not begin"
        self.interrupt()
        return self.reply()


@pytest.fixture
def kernel(tmp_path, monkeypatch, nothing_left):
    """Start a kernel of this interpreter, whatever kernels are installed."""
    pytest.importorskip("ipykernel")
    pytest.importorskip("jupyter_client")
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import KernelManager

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    manager = KernelManager()
    manager._kernel_spec = KernelSpec(
        argv=[sys.executable, "-Wignore", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
        display_name="test", language="python",
    )  # fmt: skip
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    try:
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


@pytest.fixture(scope="module")
def engines():
    """Four engines that the tests of a module share."""
    pytest.importorskip("ipyparallel")
    with lk.cluster(4) as started:
        yield started


@pytest.fixture(params=["mpi", "cluster"])
def real(request):
    """Real MPI: a launch, or engines that outlive the run."""
    yield "mpi" if request.param == "mpi" else (cluster := request.getfixturevalue("engines"))
    if request.param == "cluster":  # they are as they were
        assert lk.run(lambda comm: (comm.allreduce(1), type(comm).__module__), 4, cluster).results[0][0] == 4
