"""Errors go to the handler of the object that a call is about, as on real MPI (mpi4py, Open MPI)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI
from labkit.errors import DeadlockError, RankError
from tests.support.refusals import raises_code


def _truncated(comm: Any, wait: Callable[[Any], Any]) -> Any:
    if comm.rank == 0:
        comm.Send(np.zeros(10), 1)
        return None
    return wait(comm.Irecv(np.zeros(2), 0))


#: what is called, and the code with which a fatal handler of the communicator ends the job
ABOUT_IT: dict[str, tuple[Callable[[Any], Any], int]] = {
    "Send": (lambda comm: comm.Send(b"", 99), MPI.ERR_RANK),
    "send": (lambda comm: comm.send(1, 99), MPI.ERR_RANK),
    "Send_init": (lambda comm: comm.Send_init(b"", 99), MPI.ERR_RANK),
    "Probe": (lambda comm: comm.Probe(99), MPI.ERR_RANK),
    "bcast": (lambda comm: comm.bcast(1, root=99), MPI.ERR_ROOT),
    "Reduce": (lambda comm: comm.Reduce(np.zeros(1), np.zeros(1), root=99), MPI.ERR_ROOT),
    "Wait": (lambda comm: _truncated(comm, lambda one: one.Wait()), MPI.ERR_TRUNCATE),
    "Waitall": (lambda comm: _truncated(comm, lambda one: MPI.Request.Waitall([one])), MPI.ERR_IN_STATUS),
}
#: what is about no communicator: errors are COMM_WORLD's
ABOUT_NONE: dict[str, Callable[[], Any]] = {
    "null": lambda: MPI.COMM_NULL.Get_size(),
    "op": lambda: MPI.OP_NULL.Is_commutative(),
    "datatype": lambda: MPI.DOUBLE.Create_contiguous(-1),
    "group": lambda: MPI.COMM_WORLD.group.Incl([99]),
}
FATAL = [MPI.ERRORS_ARE_FATAL, MPI.ERRORS_ABORT]


@pytest.mark.parametrize("call", ABOUT_IT)
@pytest.mark.parametrize("handler", FATAL, ids=["fatal", "abort"])
def test_a_fatal_handler_of_the_communicator_ends_the_job(call, handler) -> None:
    function, code = ABOUT_IT[call]

    def program(comm: Any) -> None:
        mine = comm.Dup()
        mine.Set_errhandler(handler)
        with contextlib.suppress(MPI.Exception):
            function(mine)
        comm.Barrier()

    with raises_code(RankError, "aborted") as caught:
        lk.run(program, 2, on="star")
    assert caught.value.abort_code == code


@pytest.mark.parametrize("call", ABOUT_IT)
@pytest.mark.parametrize("undone", [False, True])
def test_handlers_of_others_do_not_matter(call, undone) -> None:
    def program(comm: Any) -> Any:
        mine = comm.Dup()
        other = mine if undone else mine.Dup()
        other.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        if undone:
            mine.Set_errhandler(MPI.ERRORS_RETURN)
        assert mine.Dup().Get_errhandler() == MPI.ERRORS_RETURN, "mpi4py sets it for each communicator"
        try:
            ABOUT_IT[call][0](mine)
        except MPI.Exception as error:
            return error.Get_error_class()
        return None

    assert lk.run(program, 2, on="star").results[1] == ABOUT_IT[call][1]


@pytest.mark.parametrize("call", ABOUT_IT)
def test_a_handler_of_the_program_is_called_and_the_error_raised(call) -> None:
    def program(comm: Any) -> Any:
        mine, seen = comm.Dup(), []
        handler = MPI.Comm.Create_errhandler(lambda one, code: seen.append((one == mine, code)))
        mine.Set_errhandler(handler)
        handler.Free()
        try:
            ABOUT_IT[call][0](mine)
        except MPI.Exception as error:
            seen.append(error.Get_error_code())
        return seen

    code = ABOUT_IT[call][1]
    assert lk.run(program, 2, on="star").results[1] == [(True, code), code]


@pytest.mark.parametrize("call", ABOUT_NONE)
@pytest.mark.parametrize("whose", ["COMM_WORLD", "COMM_SELF"])
def test_errors_about_no_communicator_are_those_of_the_world(call, whose) -> None:
    def program(comm: Any) -> str:
        getattr(MPI, whose).Set_errhandler(MPI.ERRORS_ARE_FATAL)
        try:
            ABOUT_NONE[call]()
        except MPI.Exception:
            return "raised"
        return ""

    if whose == "COMM_SELF":
        assert lk.run(program, 2, on="star").results == ["raised"] * 2
        return
    with raises_code(RankError, "aborted"):
        lk.run(program, 2, on="star")


def test_windows_have_their_own_handlers_and_errors_of_python_none() -> None:
    def program(comm: Any) -> Any:
        window = MPI.Win.Allocate(8, comm=comm)
        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        seen: list[Any] = []
        window.Set_errhandler(MPI.Win.Create_errhandler(lambda one, code: seen.append(code)))
        with pytest.raises(TypeError):
            comm.Send(3, 0)
        try:
            window.Lock(99)
        except MPI.Exception as error:
            seen.append(error.Get_error_code())
        window.Free()
        return seen

    assert lk.run(program, 2, on="star:1,cores=2").results == [[MPI.ERR_RANK] * 2] * 2


@pytest.mark.parametrize("is_traced", [True, False])
def test_handlers_work_in_runs_that_follow_recorded_ones(is_traced) -> None:
    def program(comm: Any) -> None:
        comm.Set_errhandler(MPI.ERRORS_ARE_FATAL)
        with contextlib.suppress(MPI.Exception):
            comm.Send(b"", 99)

    for trace in (True, is_traced, False):
        with raises_code(RankError, "aborted"):
            lk.run(program, 2, on="star", trace=trace)

    def polls(comm: Any) -> None:
        request = comm.Allreduce_init(np.zeros(1), np.zeros(1))
        request.Start()
        while not request.Test():
            pass

    calls = lk.run(polls, 2, on="star", trace=True).trace.calls
    assert {"Allreduce_init", "Start(Allreduce)", "Test"} == set(calls["call"])


def test_reports_name_the_call_once_handlers_were_set() -> None:
    def sets_one(comm: Any) -> None:
        comm.Set_errhandler(MPI.ERRORS_RETURN)

    def hangs(comm: Any) -> None:
        comm.recv(source=0) if comm.rank else comm.Barrier()

    lk.run(sets_one, 2, "star:2")
    with pytest.raises(DeadlockError) as failed:
        lk.run(hangs, 2, "star:2")
    assert "recv" in str(failed.value)
    assert "Barrier" in str(failed.value)
