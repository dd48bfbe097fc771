"""MPI_Abort: the job ends with the rank and its code, whatever the program does."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.cli.main import main as cli
from labkit.errors import RankError
from tests.support.refusals import raises_code

unwound: list[int] = []


def test_the_error_names_rank_code_and_line() -> None:
    with raises_code(RankError, "aborted", "rank 1", "4") as caught:
        lk.run(lambda comm: comm.Abort(4) if comm.rank else comm.barrier(), 2)
    assert caught.value.abort_code == 4
    assert "comm.Abort(4)" in caught.value.traceback


def _aborts_and_goes_on(comm, code=9):
    try:
        comm.Abort(code)
    except BaseException:
        print("caught")
    finally:
        unwound.append(comm.rank)
        return "went on"  # noqa: B012 - what nothing may do


def _in_operator(comm):
    return comm.allreduce(comm.rank, lambda one, other: _aborts_and_goes_on(comm))


def _in_buffer_operator(comm):
    def operate(one, other, datatype):
        _aborts_and_goes_on(comm)

    comm.Allreduce(np.ones(2), np.ones(2), MPI.Op.Create(operate))


def _in_callback(comm):
    keyval = MPI.Comm.Create_keyval(delete_fn=lambda *_: _aborts_and_goes_on(comm))
    comm.Set_attr(keyval, 1)
    comm.Delete_attr(keyval)


def _in_thread(comm):
    thread = threading.Thread(target=_aborts_and_goes_on, args=(comm,))
    thread.start()
    thread.join()
    comm.barrier()
    comm.barrier()


@pytest.mark.parametrize(
    "way", [_aborts_and_goes_on, _in_operator, _in_buffer_operator, _in_callback, _in_thread]
)
def test_nothing_catches_an_abort(way) -> None:
    unwound.clear()

    def program(comm):
        try:
            way(comm)
            comm.recv(source=comm.rank)
        finally:
            print("unwound")

    with raises_code(RankError, "aborted", "9") as caught:
        lk.run(program, 3, isolate=False)
    assert caught.value.abort_code == 9
    assert caught.value.output == ["", "", ""]
    if way in (_aborts_and_goes_on, _in_callback):
        assert unwound == []


@pytest.mark.parametrize("code", [0, 3, 256 + 7, -1])
def test_a_script_that_aborts_ends_the_command_with_its_code(tmp_path, capfd, code) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import atexit, sys\n"
        "from mpi4py import MPI\n"
        "atexit.register(print, 'at exit')\n"
        "print('before', flush=True)\n"
        "try:\n"
        "    if MPI.COMM_WORLD.rank == 1:\n"
        f"        MPI.COMM_WORLD.Abort({code})\n"
        "    MPI.COMM_WORLD.recv()\n"
        "except BaseException as error:\n"
        "    print('caught', error)\n"
        "finally:\n"
        "    sys.exit(0)\n"
    )
    assert cli(["run", "-n", "2", "--on", "star", str(script)]) == code & 0xFF
    printed = capfd.readouterr()
    assert printed.out == "before\nbefore\n"
    assert f"rank 1 aborted all ranks with error code {code}" in printed.err


HOOK = """import sys
from mpi4py import MPI
comm = MPI.COMM_WORLD
def hook(kind, error, trace):
    print("hook of rank", comm.rank, kind.__name__, trace.tb_frame.f_code.co_name, file=sys.stderr)
    WHAT
sys.excepthook = hook
if comm.rank == 1:
    1 / 0
comm.Barrier()
"""


@pytest.mark.parametrize("on", ["star", pytest.param("mpi", marks=pytest.mark.mpi)])
@pytest.mark.parametrize(
    ("what", "code", "said"),
    [
        ("comm.Abort(16)", 16, "aborted"),
        ("pass", 1, "ZeroDivisionError: division by zero"),
        ("raise KeyError(1)", 1, "KeyError: 1"),
    ],
)
def test_the_program_s_excepthook_is_called(tmp_path, capfd, on, what, code, said) -> None:
    """Programs abort all ranks there, as mpi4py's manual advises."""
    script = tmp_path / "script.py"
    script.write_text(HOOK.replace("WHAT", what))
    assert cli(["run", "-n", "2", "--on", on, str(script)]) == code
    printed = capfd.readouterr().err
    assert "KeyError" in what or "hook of rank 1 ZeroDivisionError <module>" in printed
    assert said in printed
