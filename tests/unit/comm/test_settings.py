"""mpi4py's own settings, its environment, and the state of its package: each rank's own."""

from __future__ import annotations

import pytest

import labkit as lk
from labkit.errors import RankError
from tests.support.refusals import raises_code


def _run(tmp_path, body, ranks=2, on="star:1,cores=4"):
    script = tmp_path / "script.py"
    script.write_text(body)
    return lk.run(script, ranks, on).output


def test_what_a_rank_changes_in_the_package_is_its_own(tmp_path) -> None:
    body = """
import mpi4py
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    del mpi4py.rc
    MPI.COMM_WORLD = MPI.COMM_SELF
    MPI.mine = mpi4py.mine = 5
comm.barrier()
print(hasattr(mpi4py, "rc"), MPI.COMM_WORLD.size, hasattr(MPI, "mine"), hasattr(mpi4py, "mine"))
"""
    assert _run(tmp_path, body) == ["False 1 True True\n", "True 2 False False\n"]

    def program(comm):
        from mpi4py import MPI

        MPI.COMM_WORLD = comm.rank
        comm.barrier()
        return MPI.COMM_WORLD

    for _ in range(2):
        assert lk.run(program, 3, "star").results == [0, 1, 2]


def test_what_is_missing_is_found_by_guards(tmp_path) -> None:
    body = """
import mpi4py
from mpi4py import MPI
for name in ("dl", "nothing"):
    try:
        exec(f"from mpi4py import {name}")
    except ImportError:
        print("ImportError")
print(hasattr(mpi4py, "dl"), hasattr(MPI, "nothing"), hasattr(MPI.COMM_WORLD, "nothing"))
"""
    assert _run(tmp_path, body, 1) == ["ImportError\nImportError\nFalse False False\n"]


def test_the_launchers_variables_and_private_tables(tmp_path) -> None:
    body = """
import os
from mpi4py import MPI
names = [f"OMPI_COMM_WORLD_{name}" for name in ("RANK", "SIZE", "LOCAL_RANK", "LOCAL_SIZE", "NODE_RANK")]
print([os.environ.get(name) for name in names], "OMPI_COMM_WORLD_LOCAL_RANK" in os.environ)
print(MPI._typedict["d"] == MPI.DOUBLE, MPI._typedict["i4"] == MPI.INT32_T, MPI._typedict_f["z"].Get_size())
"""
    found = _run(tmp_path, body, 4, "star:2,cores=2")
    for rank, text in enumerate(found):
        variables = [str(rank), "4", str(rank % 2), "2", str(rank % 2)]
        assert text == f"{variables} True\nTrue True 16\n"


@pytest.mark.parametrize(("setting", "ends"), [("exception", False), ("fatal", True), ("abort", True)])
def test_errors_are_fatal_if_rc_says_so(tmp_path, setting, ends) -> None:
    body = f"""
import mpi4py
mpi4py.rc.errors = {setting!r}
from mpi4py import MPI
try:
    MPI.COMM_WORLD.Send(b"", 99)
except MPI.Exception:
    print("raised")
"""
    if ends:
        with raises_code(RankError, "aborted", "6") as caught:
            _run(tmp_path, body)
        assert caught.value.abort_code == 6
    else:
        assert _run(tmp_path, body) == ["raised\n"] * 2


@pytest.mark.parametrize("how", ["rc", "environment", "late"])
def test_the_room_of_irecv_is_what_rc_says(tmp_path, monkeypatch, how) -> None:
    if how == "environment":
        monkeypatch.setenv("MPI4PY_RC_IRECV_BUFSZ", "100000")
    setting = "import mpi4py\nmpi4py.rc.irecv_bufsz = 100_000"
    body = f"""
{setting if how == "rc" else ""}
from mpi4py import MPI
{setting if how == "late" else ""}
comm = MPI.COMM_WORLD
if comm.rank == 0:
    comm.send(b"x" * 50_000, 1)
else:
    try:
        print(len(comm.irecv(source=0).wait()))
    except MPI.Exception as error:
        print(error.Get_error_class() == MPI.ERR_TRUNCATE)
"""
    assert _run(tmp_path, body)[1] == ("True\n" if how == "late" else "50000\n")


@pytest.mark.parametrize("is_fast", [True, False])
@pytest.mark.parametrize("has_probes", [True, False])
def test_settings_that_change_no_result_are_taken(tmp_path, is_fast, has_probes) -> None:
    body = f"""
import mpi4py
mpi4py.rc.fast_reduce, mpi4py.rc.recv_mprobe = {is_fast}, {has_probes}
from mpi4py import MPI
comm = MPI.COMM_WORLD
print(mpi4py.rc.fast_reduce, comm.allreduce([comm.rank]), comm.sendrecv(1, 1 - comm.rank))
"""
    assert _run(tmp_path, body) == [f"{is_fast} [0, 1] 1\n"] * 2


def test_methods_have_signatures() -> None:
    import inspect

    from labkit import MPI

    for name in (
        "Comm",
        "Intracomm",
        "Intercomm",
        "Cartcomm",
        "Graphcomm",
        "Distgraphcomm",
        "Request",
        "Prequest",
        "Message",
    ):
        cls = getattr(MPI, name)
        for method in dir(cls):
            if not method.startswith("_") and callable(getattr(cls, method)):
                assert inspect.signature(getattr(cls, method)) is not None
    assert list(inspect.signature(MPI.Comm.Send).parameters) == ["self", "buf", "dest", "tag"]
