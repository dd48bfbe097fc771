"""The module's names: what is there, what is refused, what pickles as what."""

from __future__ import annotations

import ctypes
import json
import pickle
import subprocess
import sys
from typing import Any

import cloudpickle
import pytest

import labkit as lk
from labkit import MPI
from labkit.comm import surface
from labkit.errors import UnsupportedError
from labkit.program.context import install
from tests.support.refusals import raises_code


def test_every_name_is_there_or_refused_with_a_sentence() -> None:
    missing = []
    for name in surface.MODULE:
        if name not in vars(MPI):
            with raises_code(UnsupportedError, "unsupported", name):
                getattr(MPI, name)
            missing.append(name)
    assert 0 < len(missing) < 20  # ports, and what needs the C library
    with pytest.raises(AttributeError, match="no attribute 'COMM_WROLD'"):
        _ = MPI.COMM_WROLD


def test_names_of_another_class_are_not_said_to_work_on_real_mpi() -> None:
    for name in ("scan", "Create_cart", "Get_coords"):
        with pytest.raises(AttributeError, match=f"MPI.Intercomm has no attribute '{name}'") as caught:
            getattr(MPI.Intercomm, name)
        assert not isinstance(caught.value, UnsupportedError)


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (MPI.COMM_WORLD, "Revoke"),
    ],
)
def test_methods_not_built_yet_and_typos(owner, name) -> None:
    with raises_code(UnsupportedError, "unsupported", "MPI"):
        getattr(owner, name)
    with pytest.raises(AttributeError):
        getattr(owner, name + "x")


#: run apart: mpi4py's module needs an MPI library, and is not loaded here
CLASSES = """
import json
from mpi4py import MPI
print(json.dumps({n: dir(c) for n, c in vars(MPI).items() if isinstance(c, type)}))
"""


def test_classes_have_the_attributes_of_mpi4pys() -> None:
    """Asked as ``MPI.Prequest.Pready``, as programs do that look what there is."""
    pytest.importorskip("mpi4py")
    command = [sys.executable, "-c", CLASSES]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout
    wanted = {name: [one for one in names if one[0] != "_"] for name, names in json.loads(answer).items()}
    missing = [
        f"{name}.{one}"
        for name, names in wanted.items()
        for one in names
        if not name.startswith("_") and one != "Revoke" and not hasattr(getattr(MPI, name), one)
    ]
    assert missing == []
    assert sum(map(len, wanted.values())) > 1000


CONSTANTS = [
    name
    for name in dir(MPI)
    if name.isupper() or name in ("Comm", "Intracomm", "Op", "Request", "Status", "Exception")
]


@pytest.mark.parametrize("name", CONSTANTS)
def test_everything_pickles_by_name(name: str) -> None:
    value = getattr(MPI, name)
    for dumps in (pickle.dumps, cloudpickle.dumps):
        data = dumps(value)
        loaded = pickle.loads(data)
        assert loaded is value or (isinstance(value, int) and loaded == value)
        if not isinstance(value, int):
            assert b"labkit.MPI" in data
            assert b"labkit.comm" not in data


def test_a_function_takes_the_module_by_name_to_a_real_rank() -> None:
    import types

    other = types.ModuleType("mpi4py.MPI")
    other.SUM, other.COMM_WORLD = "their sum", "their world"

    operator = MPI.SUM

    def program():
        return operator, MPI.COMM_WORLD

    data = cloudpickle.dumps(program)
    before = sys.modules["labkit.MPI"]
    try:
        install(None, other)
        assert pickle.loads(data)() == ("their sum", "their world")
    finally:
        install(None, None)
        assert sys.modules["labkit.MPI"] is before


def test_handles_compare_as_mpi4pys() -> None:
    assert MPI.Intracomm(MPI.COMM_WORLD) == MPI.COMM_WORLD != MPI.COMM_SELF
    assert not MPI.COMM_NULL
    assert not MPI.Request()
    assert MPI.Request() == MPI.REQUEST_NULL
    assert MPI.Op() == MPI.OP_NULL
    with pytest.raises(TypeError):
        hash(MPI.SUM)
    status = pickle.loads(pickle.dumps(MPI.Status()))
    assert (status.source, status.tag, status.error) == (MPI.ANY_SOURCE, MPI.ANY_TAG, MPI.SUCCESS)


def test_the_error_of_mpi() -> None:
    error = MPI.Exception(MPI.ERR_TRUNCATE)
    assert error.Get_error_class() == MPI.ERR_TRUNCATE == int(error)
    assert str(error) == "MPI_ERR_TRUNCATE: message truncated"
    assert isinstance(error, RuntimeError)
    assert pickle.loads(pickle.dumps(error)) == MPI.ERR_TRUNCATE


def test_numbers_of_handles_have_addresses() -> None:
    """Code with C's view of a handle reads there; it crashed the simulator."""
    for handle in (MPI.COMM_WORLD, MPI.INT, MPI.SUM, MPI.GROUP_NULL):
        assert MPI._sizeof(handle) == ctypes.sizeof(ctypes.c_uint64)
        assert ctypes.c_uint64.from_address(MPI._addressof(handle)).value == MPI._handleof(handle)


@pytest.mark.parametrize(
    "name", ["ANY_SOURCE", "ANY_TAG", "PROC_NULL", "UNDEFINED", "TAG_UB", "ERR_TRUNCATE"]
)
def test_numbers_travel_by_name(name: str) -> None:
    """Another MPI library has other numbers: what a closure caught must become the one of that name."""
    constant = getattr(MPI, name)
    assert pickle.loads(pickle.dumps(constant)) is constant
    assert name.encode() in cloudpickle.dumps(lambda: constant)
    assert type(constant + 0) is int


def test_an_error_says_once_what_its_class_says() -> None:
    def program(comm: Any) -> str:
        if comm.rank == 0:
            comm.Send(bytearray(4), 1, 7)
            return ""
        with pytest.raises(MPI.Exception) as caught:
            comm.Recv(bytearray(2), 0)
        return str(caught.value)

    said = "MPI_ERR_TRUNCATE: message truncated: 4 bytes from rank 0 (tag 7) do not fit into 2 bytes"
    assert lk.run(program, 2, "star:2").results[1] == said

    def objects(comm: Any) -> str:
        if comm.rank == 0:
            comm.send(bytes(40_000), 1)
            return ""
        with pytest.raises(MPI.Exception, match=r"32768 bytes; give the receive more room"):
            comm.irecv(source=0).wait()
        return "told"

    assert lk.run(objects, 2, "star:2").results[1] == "told"
    with pytest.raises(MPI.Exception) as caught:
        MPI.COMM_NULL.Get_rank()
    assert str(caught.value) == "MPI_ERR_COMM: invalid communicator: null, or of a run that has ended"
