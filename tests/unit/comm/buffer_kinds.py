"""Buffers of all kinds, and specifications of them, in every kind of call, and what mpi4py makes of them.

``python -m tests.unit.comm.buffer_kinds`` writes the table of mpi4py's own outcomes (buffer_kinds.json: what
is refused, by call, kind and error; the rest is accepted). One process, on COMM_SELF.
"""

# ruff: noqa: N802, N803 - calls have the names of the methods
from __future__ import annotations

import array
import ctypes
import functools
import io
import itertools
import json
import mmap
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.comm.conversions import Scene, plain

TABLE = Path(__file__).with_suffix(".json")


class Sub(np.ndarray):
    """A subclass of an array."""


class Packed:
    """An object with `__dlpack__` alone."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __dlpack__(self, *args: Any, **options: Any) -> Any:
        return self.values.__dlpack__(*args, **options)

    def __dlpack_device__(self) -> Any:
        return self.values.__dlpack_device__()


class Interface:
    """An object with NumPy's `__array_interface__` alone."""

    def __init__(self, values: Any) -> None:
        self.values, self.__array_interface__ = values, values.__array_interface__


class Cuda:
    """An object that looks like an array of a device."""

    def __init__(self, values: Any) -> None:
        self.values = values
        self.__cuda_array_interface__ = {**values.__array_interface__, "version": 3}


class Broken:
    """An object whose `__dlpack__` fails."""

    def __dlpack__(self, *args: Any, **options: Any) -> Any:
        raise RuntimeError("no memory here")

    def __dlpack_device__(self) -> Any:
        return (1, 0)


class Pair(ctypes.Structure):
    """A structure of C."""

    _fields_ = [("a", ctypes.c_double), ("b", ctypes.c_int)]


def _frozen(values: Any) -> Any:
    values.flags.writeable = False
    return values


def _of(code: str, count: int = 4) -> Callable[[], Any]:
    return lambda: np.zeros(count, code)


_CODES = (
    "f8 f4 f2 g i1 i2 i4 i8 u1 u2 u4 u8 ? F D G e >f8 >i4 <f8 =i4 S1 S4 U1 U2 V8 O "
    "M8[s] m8[ns] M8 p n N l L q Q b B"
)
#: formats that a memoryview is cast to
_CASTS = "cbBhHiIlLqQfd?nNP"
#: buffers: each is made anew for a call
KINDS: dict[str, Callable[[], Any]] = {
    **{f"dtype {code}": _of(code) for code in _CODES.split()},
    "structured": _of("f8,i4"),
    "structured aligned": lambda: np.zeros(4, np.dtype([("a", "i1"), ("b", "f8")], align=True)),
    "structured of arrays": _of("(2,3)f4"),
    "subarray": lambda: np.zeros(4, np.dtype([("a", "f8", (2,))])),
    "recarray": lambda: np.zeros(4, "f8,i4").view(np.recarray),
    "empty": _of("f8", 0),
    "empty structured": _of("f8,i4", 0),
    "empty 2-d": lambda: np.zeros((0, 4)),
    "0-d": lambda: np.array(1.0),
    "0-d int": lambda: np.array(1),
    "scalar": lambda: np.float64(1.0),
    "scalar of int32": lambda: np.int32(1),
    "scalar of bool": lambda: np.bool_(True),
    "2-d": lambda: np.zeros((2, 2)),
    "3-d": lambda: np.zeros((2, 1, 2)),
    "Fortran": lambda: np.zeros((2, 2), order="F"),
    "Fortran 3-d": lambda: np.zeros((2, 3, 4), order="F"),
    "transposed": lambda: np.zeros((2, 3)).T,
    "axes swapped": lambda: np.zeros((2, 3, 4)).swapaxes(0, 1),
    "strided": lambda: np.zeros(8)[::2],
    "backwards": lambda: np.zeros(4)[::-1],
    "column": lambda: np.zeros((4, 4))[:, 0],
    "block": lambda: np.zeros((4, 4))[:2, :2],
    "rows": lambda: np.zeros((4, 4))[:2],
    "one of a stride": lambda: np.zeros(8)[::8],
    "broadcast": lambda: np.broadcast_to(np.zeros(1), 4),
    "readonly": lambda: _frozen(np.zeros(4)),
    "readonly 2-d": lambda: _frozen(np.zeros((2, 2))),
    "unaligned": lambda: np.zeros(33, "u1")[1:].view("f8"),
    "subclass": lambda: np.zeros(4).view(Sub),
    "subclass readonly": lambda: _frozen(np.zeros(4).view(Sub)),
    "matrix": lambda: np.asmatrix(np.zeros((2, 2))),
    "masked": lambda: np.ma.masked_array(np.zeros(4), [0, 1, 0, 1]),
    "masked without mask": lambda: np.ma.masked_array(np.zeros(4)),
    "characters": lambda: np.char.array(["ab", "cd"]),
    "memmap": lambda: np.memmap(tempfile.TemporaryFile(), "f8", "w+", shape=4),  # noqa: SIM115,
    "bytes": lambda: bytes(32),
    "no bytes": lambda: b"",
    "bytearray": lambda: bytearray(32),
    "no bytearray": lambda: bytearray(),
    "memoryview": lambda: memoryview(bytearray(32)),
    "memoryview of bytes": lambda: memoryview(bytes(32)),
    "memoryview readonly": lambda: memoryview(bytearray(32)).toreadonly(),
    "memoryview strided": lambda: memoryview(bytearray(32))[::2],
    "memoryview backwards": lambda: memoryview(bytearray(32))[::-1],
    "memoryview part": lambda: memoryview(bytearray(32))[8:24],
    "memoryview empty": lambda: memoryview(bytearray(32))[:0],
    **{f"memoryview as {code}": lambda code=code: memoryview(bytearray(32)).cast(code) for code in _CASTS},
    "memoryview 2-d": lambda: memoryview(bytearray(32)).cast("d", (2, 2)),
    "memoryview 0-d": lambda: memoryview(bytearray(8)).cast("d", ()),
    "memoryview of Fortran": lambda: memoryview(np.zeros((2, 3), order="F")),
    "memoryview of strided": lambda: memoryview(np.zeros(8)[::2]),
    "memoryview of structured": lambda: memoryview(np.zeros(4, "f8,i4")),
    "memoryview of half": lambda: memoryview(np.zeros(4, "f2")),
    "memoryview of big-endian": lambda: memoryview(np.zeros(4, ">f8")),
    "memoryview of complex": lambda: memoryview(np.zeros(4, "D")),
    **{f"array.array {code}": lambda code=code: array.array(code, [0] * 4) for code in "bBhHiIlLqQfd"},
    "array.array u": lambda: array.array("u", "abcd"),
    "array.array empty": lambda: array.array("d"),
    "ctypes double": lambda: (ctypes.c_double * 4)(),
    "ctypes char": lambda: ctypes.create_string_buffer(32),
    "ctypes wchar": lambda: ctypes.create_unicode_buffer(8),
    "ctypes one": lambda: ctypes.c_double(1),
    "ctypes structure": lambda: Pair(),
    "ctypes structures": lambda: (Pair * 2)(),
    "ctypes 2-d": lambda: ((ctypes.c_int * 2) * 2)(),
    "mmap": lambda: mmap.mmap(-1, 32),
    "BytesIO": lambda: io.BytesIO(bytes(32)),
    "BytesIO buffer": lambda: io.BytesIO(bytes(32)).getbuffer(),
    "DLPack": lambda: Packed(np.zeros(4)),
    "DLPack float32": lambda: Packed(np.zeros(4, "f4")),
    "DLPack int8": lambda: Packed(np.zeros(4, "i1")),
    "DLPack half": lambda: Packed(np.zeros(4, "f2")),
    "DLPack complex": lambda: Packed(np.zeros(4, "D")),
    "DLPack bool": lambda: Packed(np.zeros(4, "?")),
    "DLPack 0-d": lambda: Packed(np.array(1.0)),
    "DLPack empty": lambda: Packed(np.zeros(0)),
    "DLPack 2-d": lambda: Packed(np.zeros((2, 2))),
    "DLPack Fortran": lambda: Packed(np.zeros((2, 3), order="F")),
    "DLPack strided": lambda: Packed(np.zeros(8)[::2]),
    "DLPack readonly": lambda: Packed(_frozen(np.zeros(4))),
    "DLPack broken": lambda: Broken(),
    "array interface": lambda: Interface(np.zeros(4)),
    "cuda interface": lambda: Cuda(np.zeros(4)),
    "cuda interface strided": lambda: Cuda(np.zeros(8)[::2]),
    "cuda interface readonly": lambda: Cuda(_frozen(np.zeros(4))),
    "cuda interface half": lambda: Cuda(np.zeros(4, "f2")),
    "str": lambda: "text",
    "int": lambda: 1,
    "float": lambda: 1.0,
    "None": lambda: None,
    "object": lambda: object(),
    "type": lambda: np.ndarray,
    "dict": lambda: {},
    "set": lambda: set(),
    "range": lambda: range(4),
    "list of numbers": lambda: [1.0, 2.0],
    "empty list": lambda: [],
    "empty tuple": lambda: (),
    "list of one": lambda: [np.zeros(4)],
    "list of five": lambda: [np.zeros(4), 1, 0, "d", 1],
}  # fmt: skip


@functools.cache
def _with_gaps(MPI: Any) -> Any:
    return MPI.DOUBLE.Create_vector(2, 1, 2).Commit()


@functools.cache
def _not_committed(MPI: Any) -> Any:
    return MPI.DOUBLE.Create_contiguous(2)


#: how a buffer is specified, of a buffer and the module
SPECS: dict[str, Callable[[Any, Any], Any]] = {
    "count": lambda b, m: [b, 2],
    "count 0": lambda b, m: [b, 0],
    "tuple and count": lambda b, m: (b, 2),
    "no count": lambda b, m: [b, None],
    "negative": lambda b, m: [b, -1],
    "DOUBLE": lambda b, m: [b, m.DOUBLE],
    "BYTE": lambda b, m: [b, m.BYTE],
    "INT64_T": lambda b, m: [b, m.INT64_T],
    "null type": lambda b, m: [b, m.DATATYPE_NULL],
    "code d": lambda b, m: [b, "d"],
    "code f8": lambda b, m: [b, "f8"],
    "code B": lambda b, m: [b, "B"],
    "code <i4": lambda b, m: [b, "<i4"],
    "code >f8": lambda b, m: [b, ">f8"],
    "code D": lambda b, m: [b, "D"],
    "code e": lambda b, m: [b, "e"],
    "code M8": lambda b, m: [b, "M8"],
    "code Zd": lambda b, m: [b, "Zd"],
    "code float64": lambda b, m: [b, "float64"],
    "no code": lambda b, m: [b, ""],
    "unknown code": lambda b, m: [b, "x"],
    "dtype": lambda b, m: [b, np.dtype("f8")],
    "type": lambda b, m: [b, float],
    "count and DOUBLE": lambda b, m: [b, 2, m.DOUBLE],
    "count and code": lambda b, m: [b, 2, "d"],
    "no count and DOUBLE": lambda b, m: [b, None, m.DOUBLE],
    "count and no type": lambda b, m: [b, 2, None],
    "count and dtype": lambda b, m: [b, 2, np.dtype("f8")],
    "0-d count": lambda b, m: [b, np.array(2), m.DOUBLE],
    "float count": lambda b, m: [b, 2.0, m.DOUBLE],
    "pair": lambda b, m: [b, (2, 1), m.DOUBLE],
    "pair as list": lambda b, m: [b, [2, 1], m.DOUBLE],
    "pair without type": lambda b, m: [b, (2, 1)],
    "pair without count": lambda b, m: [b, (None, 1), m.DOUBLE],
    "pair without displacement": lambda b, m: [b, (2, None), m.DOUBLE],
    "pair behind the end": lambda b, m: [b, (None, 1000), m.DOUBLE],
    "pair before the beginning": lambda b, m: [b, (1, -1), m.DOUBLE],
    "triple": lambda b, m: [b, (2, 1, 0), m.DOUBLE],
    "four": lambda b, m: [b, 2, 1, m.DOUBLE],
    "four without displacement": lambda b, m: [b, 2, None, m.DOUBLE],
    "four without counts": lambda b, m: [b, None, None, m.DOUBLE],
    "lists": lambda b, m: [b, [2], [1], m.DOUBLE],
    "lists as pair": lambda b, m: [b, ([2], [1]), m.DOUBLE],
    "arrays as pair": lambda b, m: [b, (np.array([2]), np.array([1])), m.DOUBLE],
    "counts": lambda b, m: [b, [2], m.DOUBLE],
    "counts without type": lambda b, m: [b, [2]],
    "counts of two": lambda b, m: [b, [1, 1], m.DOUBLE],
    "types": lambda b, m: [b, [m.DOUBLE]],
    "counts, types": lambda b, m: [b, ([2], [0]), [m.DOUBLE]],
    "counts, displacements, types": lambda b, m: [b, [2], [0], [m.DOUBLE]],
    "code in types": lambda b, m: [b, [2], [0], ["d"]],
    "pair type": lambda b, m: [b, m.DOUBLE_INT],
    "type with gaps": lambda b, m: [b, 1, _with_gaps(m)],
    "not committed": lambda b, m: [b, 1, _not_committed(m)],
    "nested": lambda b, m: [[b, 2], m.DOUBLE],
    "five": lambda b, m: [b, 2, 1, m.DOUBLE, 0],
}
#: buffers in specifications: the first of them for all calls, all for some
IN_SPECS = (
    *(
        "dtype f8",
        "bytearray",
        "readonly",
        "None",
        "dtype f2",
        "dtype M8[s]",
        "structured",
        "strided",
    ),
    *("Fortran", "empty", "bytes", "memoryview strided", "memoryview as d", "array.array d", "DLPack", "str"),
    *("DLPack half", "masked", "0-d", "dtype >f8", "DLPack strided", "cuda interface half"),
)
FULL = ("Isend", "Recv", "Bcast", "Allreduce", "Alltoallv", "Alltoallw", "Put", "Write_at")

#: calls: of a scene, a buffer's specification and another of the same kind
CALLS: dict[str, Callable[[Scene, Any, Any], Any]] = {}


def _call(function: Callable[[Scene, Any, Any], Any]) -> Callable[[Scene, Any, Any], Any]:
    CALLS[function.__name__] = function
    return function


def _drain(scene: Scene) -> None:
    while scene.comm.Iprobe():
        scene.comm.Mprobe().Recv([bytearray(4096), scene.MPI.BYTE])


@_call
def Send(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Send(one, 0)
    _drain(scene)


@_call
def Isend(scene: Scene, one: Any, other: Any) -> None:
    request = scene.comm.Isend(one, 0)
    _drain(scene)
    request.Wait()


@_call
def Send_init(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Send_init(one, 0)


@_call
def Recv(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Isend(bytes(0), 0)
    try:
        scene.comm.Recv(one, 0)
    finally:
        _drain(scene)


@_call
def Irecv(scene: Scene, one: Any, other: Any) -> None:
    request = scene.comm.Irecv(one, 0)
    scene.comm.Send(bytes(0), 0)
    request.Wait()


@_call
def Recv_init(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Recv_init(one, 0)


@_call
def Mrecv(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Isend(bytes(0), 0)
    try:
        scene.comm.Mprobe(0).Recv(one)
    finally:
        _drain(scene)


@_call
def Sendrecv_replace(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Sendrecv_replace(one, 0, 0, 0)


def _of_two(name: str) -> None:
    def call(scene: Scene, one: Any, other: Any) -> None:
        request = getattr(scene.comm, name)(one, other)
        if name[0] == "I":
            request.Wait()

    CALLS[name] = call


for _name in (
    *(
        "Allgather",
        "Allgatherv",
        "Gather",
        "Gatherv",
        "Scatter",
        "Scatterv",
        "Alltoall",
        "Alltoallv",
        "Alltoallw",
    ),
    *("Allreduce", "Reduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block"),
    *(
        "Iallgather",
        "Ialltoallv",
        "Iallreduce",
        "Igather",
        "Allgather_init",
        "Alltoallv_init",
        "Allreduce_init",
    ),
):
    _of_two(_name)


@_call
def Sendrecv(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Sendrecv(one, 0, 0, other, 0)


@_call
def Isendrecv(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Isendrecv(one, 0, 0, other, 0).Wait()


@_call
def Bcast(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Bcast(one)


@_call
def Ibcast(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Ibcast(one).Wait()


@_call
def Bcast_init(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Bcast_init(one)


@_call
def Reduce_local(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.SUM.Reduce_local(one, other)


@_call
def Psend_init(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.Psend_init(one, 1, 0).Free()


def _in_window(name: str) -> None:
    def call(scene: Scene, one: Any, other: Any) -> None:
        window = scene.owner("Win")
        try:
            window.Fence()
            arguments = (one, other, 0) if name in ("Get_accumulate", "Fetch_and_op") else (one, 0)
            getattr(window, name)(*arguments)
            window.Fence()
        finally:
            window.Free()

    CALLS[name] = call


for _name in ("Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op"):
    _in_window(_name)


@_call
def Win_Create(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.Win.Create(one, comm=scene.comm).Free()


def _in_file(name: str) -> None:
    def call(scene: Scene, one: Any, other: Any) -> None:
        file = scene.owner("File")
        try:
            request = getattr(file, name)(0, one)
            if name[0] == "I":
                request.Wait()
        finally:
            file.Close()

    CALLS[name] = call


for _name in ("Write_at", "Read_at", "Iwrite_at", "Write_at_all"):
    _in_file(_name)


@_call
def Pack(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.BYTE.Pack(one, bytearray(4096), 0, scene.comm)


@_call
def Unpack(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.BYTE.Unpack(bytearray(4096), 0, one, scene.comm)


@_call
def frombuffer(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.buffer(one)


@_call
def frombuffer_readonly(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.buffer.frombuffer(one, readonly=True)


@_call
def Get_address(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.Get_address(one)


@_call
def recv(scene: Scene, one: Any, other: Any) -> None:
    scene.comm.isend(1, 0)
    try:
        scene.comm.irecv(one, 0).wait()
    finally:
        _drain(scene)


@_call
def Attach_buffer(scene: Scene, one: Any, other: Any) -> None:
    scene.MPI.Attach_buffer(one)
    scene.MPI.Detach_buffer()


#: these take no specification
PLAIN = (
    "Win_Create",
    "Pack",
    "Unpack",
    "frombuffer",
    "frombuffer_readonly",
    "Get_address",
    "recv",
    "Attach_buffer",
)


def cases() -> Iterator[tuple[str, str]]:
    """Yield call and kind: of a plain buffer, or specification and kind of the buffer in it."""
    for call in CALLS:
        if call != "Alltoallw":
            is_kept = call in (
                "Win_Create",
                "Pack",
                "Unpack",
                "Get_address",
            )  # pointers to objects are refused
            yield from ((call, kind) for kind in KINDS if not (is_kept and kind == "dtype O"))
        if call not in PLAIN:
            kinds = IN_SPECS if call in FULL else IN_SPECS[:4]
            specs = [spec for spec in SPECS if call != "Alltoallw" or "types" in spec]
            pairs = ((spec, kind) for spec, kind in itertools.product(specs, kinds))
            yield from (
                (call, f"{spec}: {kind}") for spec, kind in pairs if not _is_left_out(call, spec, kind)
            )


def _is_left_out(call: str, spec: str, kind: str) -> bool:
    """Whether two faults meet: labkit looks first whether a message has room, real MPI never does."""
    if call in ("Allgatherv", "Gatherv", "Scatterv"):
        return kind == "None" or spec == "negative" or (kind == "readonly" and spec == "not committed")
    if call == "Fetch_and_op" and spec == "null type":
        return kind == "None"
    return kind == "readonly" and spec == "not committed"


def made(scene: Scene, kind: str) -> Any:
    """Return a buffer, or the specification of one."""
    spec, _, of = kind.rpartition(": ")
    buffer = KINDS[of]()
    return SPECS[spec](buffer, scene.MPI) if spec else buffer


def outcome(scene: Scene, call: str, kind: str) -> str:
    """Return what a call comes to: accepted (also where MPI refuses what was taken), or the error."""
    try:
        CALLS[call](scene, made(scene, kind), made(scene, kind))
    except scene.MPI.Exception as error:
        return f"MPI {error.Get_error_class()}"
    except Exception as error:
        text = str(error)
        if (
            "of a buffer of" in text
            or "count or displacement (" in text
            or "sends blocks of" in text
            or type(error).__name__ in ("MismatchError", "ScheduleError")
        ):
            return "MPI 15"  # real MPI fails, or reads past the buffer
        return next(one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins")
    return "ok"


def main(begin: int, file: str) -> None:
    """Write the outcomes of real calls from one on, a line each."""
    from mpi4py import MPI

    with tempfile.TemporaryDirectory() as folder, open(file, "a", buffering=1) as out:
        scene = Scene(MPI, folder)
        for number, (call, kind) in enumerate(cases()):
            if number >= begin:
                out.write(f"{call}|{kind}|")
                out.flush()
                signal.alarm(5)  # ends the process where a call waits
                out.write(f"{outcome(scene, call, kind)}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(int(sys.argv[1]), sys.argv[2])
        os._exit(0)
    with tempfile.TemporaryDirectory() as folder_of_lines:
        lines = Path(folder_of_lines, "lines")
        lines.touch()
        total, done = sum(1 for _ in cases()), 0
        while done < total:
            words = [sys.executable, "-m", "tests.unit.comm.buffer_kinds", str(done), str(lines)]
            try:
                code = subprocess.run(words, timeout=900, capture_output=True).returncode
            except subprocess.TimeoutExpired:
                code = -1
            text = lines.read_text()
            if not text.endswith("\n"):  # the process has ended, or waits
                text += f"ends the process {code}\n"
                lines.write_text(text)
            done = text.count("\n")
            print(done, total, text.splitlines()[-1], file=sys.stderr)
        rows: dict[str, dict[str, list[str]]] = {}
        for line in lines.read_text().splitlines():
            call, kind, what = line.split("|")
            said = plain(what)
            if said != "accepted":
                rows.setdefault(call, {}).setdefault(said, []).append(kind)
        TABLE.write_text(json.dumps({"refused": rows}) + "\n")
