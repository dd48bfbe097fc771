"""Real runs from a notebook: cells travel, tracebacks show their lines, an interrupt ends the ranks."""

from __future__ import annotations

import sys
import time

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]

pytest.importorskip("ipykernel")
jupyter_client = pytest.importorskip("jupyter_client")


@pytest.fixture
def kernel(tmp_path, monkeypatch, nothing_left):
    """Start a kernel of this interpreter, whatever kernels are installed."""
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
        yield manager, client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()


def execute(client, code, timeout=60):
    """Run a cell, and return its printed text and its error."""
    printed, error = [], []

    def collect(message):
        content = message["content"]
        if message["msg_type"] == "stream":
            printed.append(content["text"])
        elif message["msg_type"] == "error":
            error.extend(content["traceback"])

    client.execute_interactive(code, timeout=timeout, output_hook=collect)
    return "".join(printed), "\n".join(error)


@pytest.mark.filterwarnings("ignore")
def test_cells_run_on_real_ranks_and_an_interrupt_ends_them(kernel):
    manager, client = kernel
    text, error = execute(client, "import labkit as lk\nimport numpy as np\nbase = np.arange(3)")
    assert (text, error) == ("", "")
    text, error = execute(
        client,
        "def helper(x):\n    return int(base.sum()) + x\n\n"
        "def program(comm):\n    return helper(comm.rank)\n\n"
        "print(lk.run(program, 2, 'mpi').results)",
    )
    assert (text, error) == ("[3, 4]\n", "")
    text, error = execute(
        client, "def wrong(comm):\n    return 1 / 0  # in this cell\n\nlk.run(wrong, 2, 'mpi')"
    )
    assert "RankError" in error
    assert "return 1 / 0  # in this cell" in error
    text, error = execute(
        client,
        "def waits(comm):\n    comm.recv()  # for ever\n\nlk.run(waits, 1, 'mpi', timeout_s=5)",
    )
    assert "TimeLimitError" in error
    assert "# for ever" in error

    client.execute("def endless(comm):\n    while True: pass\n\nlk.run(endless, 2, 'mpi', timeout_s=50)")
    time.sleep(2)
    manager.interrupt_kernel()
    reply = client.get_shell_msg(timeout=20)["content"]
    assert (reply["status"], reply["ename"]) == ("error", "KeyboardInterrupt")
    assert execute(client, "print('still here')") == ("still here\n", "")
