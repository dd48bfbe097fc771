"""Classes of errors that Open MPI gives for keys of attributes, freed operators and failing requests.

The expected values were printed by mpi4py 4 on Open MPI 5 for the same calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import MPI


def class_of(function: Callable[[], Any]) -> Any:
    """What a call returns, or the class of its error."""
    try:
        return ("value", function())
    except MPI.Exception as error:
        return error.Get_error_class()


def on_one_rank(function: Callable[[Any], Any]) -> Any:
    return lk.run(function, 1, on="star").results[0]


KINDS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "Comm": (MPI.Comm, lambda comm: comm.Dup()),
    "Datatype": (MPI.Datatype, lambda comm: MPI.INT.Dup()),
    "Win": (MPI.Win, lambda comm: MPI.Win.Create(np.zeros(2), comm=comm)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [-5, 999_999])
def test_a_key_that_was_never_made(kind: str, key: int) -> None:
    cls, make = KINDS[kind]

    def program(comm: Any) -> Any:
        one = make(comm)
        calls = (
            lambda: one.Get_attr(key), lambda: one.Set_attr(key, 1), lambda: one.Delete_attr(key),
            lambda: cls.Free_keyval(key), lambda: one.Get_attr(MPI.KEYVAL_INVALID),
            lambda: one.Set_attr(MPI.KEYVAL_INVALID, 1), lambda: cls.Free_keyval(MPI.KEYVAL_INVALID),
        )  # fmt: skip
        found = [class_of(call) for call in calls]
        one.Free()
        return found

    assert on_one_rank(program) == [MPI.ERR_OTHER] * 4 + [MPI.ERR_KEYVAL] + [MPI.ERR_OTHER] * 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_goes_with_its_last_value(kind: str) -> None:
    cls, make = KINDS[kind]

    def program(comm: Any) -> Any:
        one, key = make(comm), cls.Create_keyval()
        one.Set_attr(key, 7)
        found = [class_of(lambda: cls.Free_keyval(key)), class_of(lambda: one.Get_attr(key))]
        found += [class_of(lambda: one.Delete_attr(key)), class_of(lambda: one.Get_attr(key))]
        unused = cls.Create_keyval()
        found += [class_of(lambda: one.Get_attr(unused)), class_of(lambda: one.Delete_attr(unused))]
        cls.Free_keyval(unused)
        found += [class_of(lambda: one.Set_attr(unused, 1)), class_of(lambda: cls.Free_keyval(unused))]
        one.Free()
        return found

    values = [("value", MPI.KEYVAL_INVALID), ("value", 7), ("value", None), MPI.ERR_OTHER]
    assert on_one_rank(program) == [*values, ("value", None), *[MPI.ERR_OTHER] * 3]


def test_a_key_of_another_kind_has_no_value() -> None:
    def program(comm: Any) -> Any:
        key = MPI.Datatype.Create_keyval()
        calls = (
            lambda: comm.Get_attr(key), lambda: comm.Set_attr(key, 1), lambda: comm.Delete_attr(key),
            lambda: MPI.Comm.Free_keyval(key), lambda: comm.Set_attr(MPI.TAG_UB, 1),
        )  # fmt: skip
        return [class_of(call) for call in calls]

    assert on_one_rank(program) == [("value", None), *[MPI.ERR_OTHER] * 4]


def test_duplicates_keep_a_freed_key() -> None:
    def program(comm: Any) -> Any:
        key, one = MPI.Comm.Create_keyval(copy_fn=True), comm.Dup()
        one.Set_attr(key, 7)
        MPI.Comm.Free_keyval(key)
        two = one.Dup()
        one.Free()
        found = [class_of(lambda: two.Get_attr(key))]
        two.Free()
        return [*found, class_of(lambda: comm.Get_attr(key))]

    assert on_one_rank(program) == [("value", 7), MPI.ERR_OTHER]


def test_an_operator_is_freed_once() -> None:
    def program(comm: Any) -> Any:
        made = MPI.Op.Create(lambda a, b, datatype: None)
        made.Free()
        return [class_of(made.Free), class_of(MPI.Op().Free), class_of(MPI.SUM.Free)]

    assert on_one_rank(program) == [MPI.ERR_OP] * 3


CALLS: dict[str, Callable[[list[Any], list[Any]], Any]] = {
    "Waitall": MPI.Request.Waitall,
    "Testall": lambda requests, statuses: _until(lambda: MPI.Request.Testall(requests, statuses)),
    "Waitsome": MPI.Request.Waitsome,
    "Testsome": lambda requests, statuses: _until(lambda: MPI.Request.Testsome(requests, statuses)),
}


def _until(function: Callable[[], Any]) -> Any:
    while not (found := function()):
        pass
    return found


def _requests(comm: Any) -> list[Any]:
    """Two receives that are over; the message of the second does not fit."""
    if comm.rank == 1:
        comm.Send(np.zeros(10), 0, 1)
        comm.Send(np.zeros(10), 0, 2)
        comm.Barrier()
        return []
    requests = [comm.Irecv(np.zeros(10), 1, 1), comm.Irecv(np.zeros(3), 1, 2)]
    comm.Barrier()
    return requests


@pytest.mark.parametrize("call", CALLS)
def test_statuses_of_several_requests_name_the_failing_one(call: str) -> None:
    def program(comm: Any) -> Any:
        requests = _requests(comm)
        if not requests:
            return None
        statuses = [MPI.Status(), MPI.Status()]
        found = class_of(lambda: CALLS[call](requests, statuses))
        return found, [one.Get_error() for one in statuses], [bool(one) for one in requests]

    found = lk.run(program, 2, on="star").results[0]
    assert found == (MPI.ERR_IN_STATUS, [0, MPI.ERR_TRUNCATE], [False, False])


@pytest.mark.parametrize(
    "call",
    [
        lambda request, status: request.Wait(status),
        lambda request, status: _until(lambda: request.Test(status)),
        lambda request, status: MPI.Request.Waitany([request], status),
        lambda request, status: _until(lambda: MPI.Request.Testany([request], status)[1]),
    ],
    ids=["Wait", "Test", "Waitany", "Testany"],
)
@pytest.mark.parametrize("before", [0, 7])
def test_the_status_of_one_request_keeps_its_error(call: Callable[[Any, Any], Any], before: int) -> None:
    def program(comm: Any) -> Any:
        found = []
        for request in _requests(comm):
            status = MPI.Status()
            status.Set_error(before)
            found.append(class_of(lambda one=request, to=status: call(one, to)))
            found.append(status.Get_error())
        return found

    found = lk.run(program, 2, on="star").results[0]
    assert found[1:] == [before, MPI.ERR_TRUNCATE, before]
