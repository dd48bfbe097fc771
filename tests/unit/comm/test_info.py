"""Hints and error handlers: kept as mpi4py keeps them."""

from __future__ import annotations

import pickle

import pytest

import labkit as lk
from labkit import MPI
from tests.support.refusals import raises_code


def test_an_info_is_a_dictionary_of_strings() -> None:
    info = MPI.Info.Create({"a": "1"})
    info["b"] = "2"
    info.update([("c", "3")], d="4")
    assert info.items() == [("a", "1"), ("b", "2"), ("c", "3"), ("d", "4")]
    assert (info.Get("a"), info.Get("z"), info.get("z", "0"), info.Get_nthkey(1)) == ("1", None, "0", "b")
    assert info.pop("b") == "2"
    del info["a"]
    copy, same = info.Dup(), MPI.Info(info)
    info["c"] = "changed"
    assert (copy["c"], same["c"], same == info, copy == info) == ("3", "changed", True, False)
    with pytest.raises(TypeError, match="expected a string, got 5"):
        info.Set("n", 5)
    with pytest.raises(MPI.Exception):
        info.Delete("z")
    info.Free()
    assert info == MPI.INFO_NULL
    assert not info
    with pytest.raises(MPI.Exception):
        info.Get("c")
    assert pickle.loads(pickle.dumps(MPI.INFO_NULL)) is MPI.INFO_NULL
    assert pickle.loads(pickle.dumps(copy)).items() == copy.items()


def test_communicators_keep_hints_by_rank() -> None:
    def program(comm):
        comm.Set_info(MPI.Info.Create({"rank": str(comm.rank)}))
        comm.info["rank"] = "a copy"
        made = comm.Dup_with_info(MPI.INFO_NULL)
        return comm.Get_info().Get("rank"), made.Get_info().Get_nkeys()

    assert lk.run(program, 2).results == [("0", 0), ("1", 0)]


def test_hints_do_not_replace_those_set_before(tmp_path) -> None:
    def program(comm):
        window = MPI.Win.Allocate(8, comm=comm)
        file = MPI.File.Open(comm, str(tmp_path / "file"), MPI.MODE_CREATE | MPI.MODE_WRONLY)
        found = []
        for one in (comm.Dup(), window, file):
            one.Set_info(MPI.Info.Create({"a": "1", "b": "1"}))
            one.Set_info(MPI.Info.Create({"b": "2"}))
            found.append(dict(one.Get_info().items()))
        file.Set_view(info=MPI.Info.Create({"c": "3"}))
        return [*found, dict(file.Get_info().items())]

    kept = {"a": "1", "b": "2"}
    assert lk.run(program, 1).results == [[kept, kept, kept, {**kept, "c": "3"}]]


def test_error_handlers_are_kept_and_asked() -> None:
    def program(comm):
        assert comm.Get_errhandler() == MPI.ERRORS_RETURN
        seen = []
        handler = MPI.Comm.Create_errhandler(lambda comm, code: seen.append(code))
        comm.Set_errhandler(handler)
        assert comm.Get_errhandler() == handler
        comm.Call_errhandler(MPI.ERR_OTHER)
        comm.Set_errhandler(MPI.ERRORS_RETURN)
        comm.Call_errhandler(MPI.ERR_OTHER)
        handler.Free()
        assert handler == MPI.ERRHANDLER_NULL
        with pytest.raises(MPI.Exception):
            comm.Set_errhandler(MPI.ERRHANDLER_NULL)
        with pytest.raises(MPI.Exception):  # whatever handler is set, errors are raised
            comm.Send(b"", 99)
        return seen == [MPI.ERR_OTHER]

    assert lk.run(program, 2).results == [True, True]
    with raises_code(lk.errors.RankError, "aborted", "5"):
        lk.run(lambda comm: (comm.Set_errhandler(MPI.ERRORS_ABORT), comm.Call_errhandler(5)), 2)


def test_ranks_of_a_host_by_its_resource_type() -> None:
    def program(comm):
        info = MPI.Info.Create({"mpi_hw_resource_type": "mpi_shared_memory"})
        found = comm.Split_type(MPI.COMM_TYPE_HW_GUIDED, info=info)
        return found.size, comm.Split_type(MPI.COMM_TYPE_HW_GUIDED) == MPI.COMM_NULL

    assert lk.run(program, 3, on="star:3").results == [(1, True)] * 3
