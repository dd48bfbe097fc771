"""Real runs from a notebook: cells travel, tracebacks show their lines, an interrupt ends the ranks."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


@pytest.mark.filterwarnings("ignore")
def test_cells_run_on_real_ranks_and_an_interrupt_ends_them(kernel, tmp_path):
    text, error = kernel.run("import labkit as lk\nimport numpy as np\nbase = np.arange(3)")
    assert (text, error) == ("", "")
    text, error = kernel.run(
        "def helper(x):\n    return int(base.sum()) + x\n\n"
        "def program(comm):\n    return helper(comm.rank)\n\n"
        "print(lk.run(program, 2, 'mpi').results)",
    )
    assert (text, error) == ("[3, 4]\n", "")
    text, error = kernel.run("def wrong(comm):\n    return 1 / 0  # in this cell\n\nlk.run(wrong, 2, 'mpi')")
    assert "RankError" in error
    assert "return 1 / 0  # in this cell" in error
    text, error = kernel.run(
        "def waits(comm):\n    comm.recv()  # for ever\n\nlk.run(waits, 1, 'mpi', timeout_s=100)",
    )
    assert "DeadlockError" in error
    assert "# for ever" in error

    there = tmp_path / "there"
    kernel.start(
        f"def endless(comm):\n    open({str(there)!r}, 'w')\n    while True: pass\n\n"
        "lk.run(endless, 2, 'mpi', timeout_s=100)"
    )
    assert kernel.stop_once(there)["ename"] == "RunInterrupted"
    assert kernel.run("print('still here')") == ("still here\n", "")
