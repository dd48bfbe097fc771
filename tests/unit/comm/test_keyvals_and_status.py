"""Classes of errors that Open MPI gives for keys of attributes, freed operators and failing requests.

The expected values were printed by mpi4py 4 on Open MPI 5 for the same calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
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
        found = [class_of(made.Free), class_of(MPI.Op().Free), class_of(MPI.SUM.Free)]
        return [*found, class_of(lambda: made.Reduce_local(np.zeros(1), np.zeros(1)))]

    assert on_one_rank(program) == [MPI.ERR_OP] * 4


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


@pytest.mark.parametrize("kind", KINDS)
def test_a_freed_key_lives_on_under_its_values(kind: str) -> None:
    """MPI: the key goes with the last value under it, and until then all of its callbacks are called."""
    cls, make = KINDS[kind]
    gone: list[Any] = []

    def program(comm: Any) -> Any:
        one = make(comm)
        key = cls.Create_keyval(delete_fn=lambda of, key, value: gone.append(value))
        one.Set_attr(key, 1)
        cls.Free_keyval(key)
        found = [class_of(lambda: cls.Free_keyval(key)), class_of(lambda: one.Set_attr(key, 2))]
        found += [class_of(lambda: one.Get_attr(key))]
        one.Free()
        return [*found, class_of(lambda: cls.Free_keyval(key)), *gone]

    wanted = [MPI.ERR_OTHER, ("value", None), ("value", 2), MPI.ERR_OTHER, 1, 2]
    assert lk.run(program, 1, on="star", isolate=False).results[0] == wanted


def test_callbacks_of_what_ends() -> None:
    """A window's are called when it is freed, those of COMM_SELF by Finalize, the last one set first."""
    gone: list[Any] = []

    def program(comm: Any) -> None:
        key = MPI.Win.Create_keyval(delete_fn=lambda of, key, value: gone.append((type(of).__name__, value)))
        window = MPI.Win.Allocate(8, comm=comm)
        window.Set_attr(key, comm.rank)
        window.Free()
        comm.Barrier()
        keys = [
            MPI.Comm.Create_keyval(delete_fn=lambda of, key, value: gone.append((of.size, value)))
            for _ in range(2)
        ]
        for number, key in enumerate(keys):
            MPI.COMM_SELF.Set_attr(key, (comm.rank, number))
        MPI.Finalize()

    lk.run(program, 2, on="star", isolate=False)
    assert sorted(gone[:2]) == [("Win", 0), ("Win", 1)]
    assert [value for _, value in gone[2:]] == [(0, 1), (0, 0), (1, 1), (1, 0)]
    assert {size for size, _ in gone[2:]} == {1}


def test_messages_of_no_process() -> None:
    """As mpi4py on Open MPI: a handle of MESSAGE_NO_PROC is null once it is received, MPI's own stays."""

    def program(comm: Any) -> Any:
        room, found = np.full(3, 7.0), []
        for probe, receive in (
            (comm.Mprobe, lambda message, status: message.Recv(room, status)),
            (comm.mprobe, lambda message, status: message.recv(status)),
            (comm.Improbe, lambda message, status: message.Irecv(room).Wait(status)),
            (comm.improbe, lambda message, status: message.irecv().wait(status)),
        ):
            status = MPI.Status()
            message = probe(MPI.PROC_NULL, 0, status)
            found.append((message == MPI.MESSAGE_NO_PROC, bool(message), status.source, status.tag))
            receive(message, status)
            null = (message == MPI.MESSAGE_NULL, bool(message))
            found.append((*null, status.source, status.tag, status.Get_count(MPI.BYTE), room.tolist()))
            for _ in range(2):
                receive(MPI.MESSAGE_NO_PROC, status)
            found.append(class_of(partial(receive, message, status)))
        return found

    rows = [(True, True, -2, -1), (True, False, -2, -1, 0, [7.0] * 3), MPI.ERR_REQUEST]
    assert on_one_rank(program) == rows * 4


def test_errors_of_statuses_that_are_looked_at() -> None:
    """As in mpi4py's tests: calls for several requests write it, the one for a single request does not."""

    def program(comm: Any) -> Any:
        def fresh() -> Any:
            status = MPI.Status()
            status.Set_error(MPI.ERR_OTHER)
            return status

        found = []
        for requests in (
            [MPI.Request(), MPI.Request()],
            [comm.Isend(bytes(1), 0), comm.Irecv(bytearray(1), 0)],
        ):
            one, several, some, single = fresh(), [fresh(), fresh()], [fresh(), fresh()], fresh()
            MPI.Request.Get_status_any(requests, one)
            MPI.Request.Get_status_all(requests, several)
            MPI.Request.Get_status_some(requests, some)
            requests[0].Get_status(single)
            found.append([one.error, *(status.error for status in (*several, *some)), single.error])
            MPI.Request.Waitall(requests)
        return found

    other = MPI.ERR_OTHER
    assert on_one_rank(program) == [[0, 0, 0, other, other, other], [0, 0, 0, 0, 0, other]]


def test_keys_and_values_of_hints_have_the_lengths_of_an_mpi_library() -> None:
    def program(comm: Any) -> list[Any]:
        info = MPI.Info.Create({"k": "v" * (MPI.MAX_INFO_VAL - 1), "k" * (MPI.MAX_INFO_KEY - 1): "v"})
        calls = [
            lambda: info.Set("", "x"), lambda: info.Set("k" * MPI.MAX_INFO_KEY, "x"),
            lambda: info.Get(""), lambda: info.Delete("k" * MPI.MAX_INFO_KEY),
            lambda: MPI.Info.Create({"": "x"}),
            lambda: info.Set("a", ""), lambda: info.Set("a", "v" * MPI.MAX_INFO_VAL), lambda: len(info),
        ]  # fmt: skip
        return [class_of(call) for call in calls]

    keys, values = [MPI.ERR_INFO_KEY] * 5, [MPI.ERR_INFO_VALUE] * 2
    assert on_one_rank(program) == [*keys, *values, ("value", 2)]


def test_numbers_that_are_no_error_codes_are_refused() -> None:
    def program(comm: Any) -> list[Any]:
        own = MPI.Add_error_class()
        calls = [
            lambda: MPI.Get_error_class(99999), lambda: MPI.Get_error_string(99999),
            lambda: MPI.Get_error_string(-1), lambda: MPI.Get_error_class(own) - own,
        ]  # fmt: skip
        return [class_of(call) for call in calls]

    assert on_one_rank(program) == [MPI.ERR_ARG] * 3 + [("value", 0)]


def test_operators_of_accumulates_reduce_no_buffers() -> None:
    def program(comm: Any) -> list[Any]:
        found, calls = np.zeros(1), []
        for op in (MPI.REPLACE, MPI.NO_OP):
            calls += [
                partial(comm.Allreduce, np.ones(1), found, op), partial(comm.Scan, np.ones(1), found, op),
                partial(op.Reduce_local, np.ones(1), found),
            ]  # fmt: skip
        return [class_of(call) for call in calls]

    assert on_one_rank(program) == [MPI.ERR_OP] * 6
