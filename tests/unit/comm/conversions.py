"""Arguments of every method of mpi4py in many kinds of values, and what mpi4py makes of them.

`outcome` calls a method of a module, mpi4py's own or the simulated one, on a communicator of one process.
Each parameter that takes a number, a truth value, a sequence or an object of MPI is given values of all
kinds, while the others have good ones. ``python -m tests.unit.comm.conversions`` writes the table of mpi4py's
own outcomes
(conversions.json: what is refused, by method, parameter and error; the rest is accepted).
"""

from __future__ import annotations

import array
import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from labkit.errors import MismatchError, ScheduleError

TABLE = Path(__file__).with_suffix(".json")


class Index:
    """A number by ``__index__``."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __index__(self) -> int:
        return self.value


class Whole:
    """A number by ``__int__`` alone."""

    def __init__(self, value: int) -> None:
        self.value = value

    def __int__(self) -> int:
        return self.value


#: of a whole number or truth value
NUMBERS: dict[str, Callable[[int], Any]] = {
    "int": int,
    "bool": bool,
    "None": lambda v: None,
    "str": str,
    "bytes": lambda v: str(v).encode(),
    "float": float,
    "complex": complex,
    "np.int64": np.int64,
    "np.int8": lambda v: np.int8(v % 100),
    "np.uint16": lambda v: np.uint16(v % 100),
    "np.bool": np.bool_,
    "np.float64": np.float64,
    "np.float32": np.float32,
    "0-d int": np.array,
    "0-d float": lambda v: np.array(float(v)),
    "0-d bool": lambda v: np.array(bool(v)),
    "1-d int": lambda v: np.array([v]),
    "1-d empty": lambda v: np.array([], int),
    "list": lambda v: [v],
    "tuple": lambda v: (v,),
    "object": lambda v: object(),
    "Fraction": Fraction,
    "Decimal": Decimal,
    "__index__": Index,
    "__int__": Whole,
    "-1": lambda v: -1,
    "-2": lambda v: -2,
    "-1000": lambda v: -1000,
    "np.int64 -3": lambda v: np.int64(-3),
    "2**31": lambda v: 2**31,
    "2**40": lambda v: 2**40,
    "-2**31-1": lambda v: -(2**31) - 1,
    "2**63": lambda v: 2**63,
}
#: not of sizes: memory would be taken
HUGE = ("2**31", "2**40", "2**63")
#: of a sequence of them
SEQUENCES: dict[str, Callable[[list[int]], Any]] = {
    "list": list,
    "tuple": tuple,
    "int64": lambda v: np.array(v, np.int64),
    "int32": lambda v: np.array(v, np.int32),
    "uint8": lambda v: np.array(v, np.uint8),
    "array.array": lambda v: array.array("i", v),
    "float array": lambda v: np.array(v, float),
    "bool array": lambda v: np.array(v, bool),
    "2-d": lambda v: np.array([v]),
    "strided": lambda v: np.repeat(np.array(v, np.int32), 2)[::2],
    "range": lambda v: range(len(v)),
    "generator": lambda v: (k for k in v),
    "set": set,
    "dict": lambda v: dict.fromkeys(v, 0),
    "str": lambda v: "".join(map(str, v)),
    "bytes": lambda v: bytes(v),
    "None": lambda v: None,
    "int": lambda v: v[0],
    "bool": lambda v: bool(v[0]),
    "np.int64": lambda v: np.int64(v[0]),
    "0-d int": lambda v: np.array(v[0]),
    "0-d float": lambda v: np.array(float(v[0])),
    "float": lambda v: float(v[0]),
    "empty": lambda v: [],
    "one more": lambda v: [*v, v[-1]],
    "object": lambda v: object(),
    "of np.int32": lambda v: [np.int32(k) for k in v],
    "of bools": lambda v: [bool(k) for k in v],
    "of np.bools": lambda v: [np.bool_(k) for k in v],
    "of floats": lambda v: [float(k) for k in v],
    "of np.float64": lambda v: [np.float64(k) for k in v],
    "of strs": lambda v: [str(k) for k in v],
    "of Nones": lambda v: [None for k in v],
    "of 0-d": lambda v: [np.array(k) for k in v],
    "of 1-d": lambda v: [np.array([k]) for k in v],
    "of lists": lambda v: [[k] for k in v],
    "of __index__": lambda v: [Index(k) for k in v],
    "of -1": lambda v: [-1 for k in v],
    "of -1000": lambda v: [-1000 for k in v],
    "int64 of -3": lambda v: np.full(len(v), -3),
    "of 2**31": lambda v: [2**31 for k in v],
    "int64 of 2**31": lambda v: np.full(len(v), 2**31),
    "of 2**40": lambda v: [2**40 for k in v],
}
#: in the place of an object of MPI
OBJECTS: dict[str, Callable[[Any], Any]] = {
    "good": lambda v: v,
    "int": lambda v: 1,
    "str": lambda v: "x",
    "list": lambda v: [v],
    "object": lambda v: object(),
    "type": lambda v: type(v),
    "array": lambda v: np.zeros(2),
    "float": lambda v: 1.5,
    "True": lambda v: True,
    "bytes": lambda v: b"x",
    "function": lambda v: len,
}
#: end the process or the communicator, wait for others, or take what is known inside MPI only
LEFT_OUT = {
    "Abort", "Free", "free", "Disconnect", "Spawn", "Spawn_multiple", "Accept", "Connect", "Join", "Finalize",
    "fromhandle", "fromint", "f2py", "Init", "Init_thread", "Register_datarep", "Revoke", "Free_keyval",
    "Shrink", "Ishrink", "Agree", "Iagree", "Get_failed", "Ack_failed", "Is_revoked", "Open_port",
    "Close_port",
    "Publish_name", "Unpublish_name", "Lookup_name", "_set_abort_status", "Create_intercomm", "Free_mem",
    "fromcode", "Close", "Start", "Psend_init", "Precv_init", "Detach", "Attach",
    "Pcontrol", "Call_errhandler", "Create_f90_integer",
    "Create_f90_real", "Create_f90_complex", "Match_size",
}  # fmt: skip


class Scene:
    """What is there for a call: objects of one process."""

    def __init__(self, MPI: Any, folder: str) -> None:  # noqa: N803 - the module's name
        self.MPI = MPI
        self.comm = MPI.COMM_SELF.Dup()
        self.folder = folder
        self.number = 0

    def owner(self, name: str) -> Any:
        """Return an object of a class, and what ends it."""
        MPI, comm = self.MPI, self.comm  # noqa: N806
        if name in ("Comm", "Intracomm"):
            return comm
        if name in ("Topocomm", "Cartcomm"):
            return comm.Create_cart([1, 1], [True, False])
        if name == "Graphcomm":
            return comm.Create_graph([1], [0])
        if name == "Distgraphcomm":
            return comm.Create_dist_graph_adjacent([0], [0])
        if name == "Win":
            return MPI.Win.Allocate(64, 1, comm=comm)
        if name == "File":
            self.number += 1
            path = os.path.join(self.folder, f"file{self.number}")
            return MPI.File.Open(comm, path, MPI.MODE_RDWR | MPI.MODE_CREATE | MPI.MODE_DELETE_ON_CLOSE)
        return {
            "Group": lambda: comm.Get_group(),
            "Datatype": lambda: MPI.INT.Dup(),
            "Op": lambda: MPI.SUM,
            "Info": lambda: MPI.Info.Create({"key": "value"}),
            "Session": lambda: MPI.Session.Init(),
            "Status": lambda: MPI.Status(),
            "Prequest": lambda: comm.Psend_init(np.zeros(4), 2, MPI.PROC_NULL, 0),
            "Errhandler": lambda: MPI.ERRORS_RETURN,
            "module": lambda: MPI,
        }[name]()


def good_values(scene: Scene, owner: Any, method: str) -> dict[str, Any]:
    """Return good arguments, by the parameters' names."""
    MPI, comm = scene.MPI, scene.comm  # noqa: N806
    flat, other = np.zeros(4), np.zeros(4)
    values: dict[str, Any] = {
        "buf": flat, "sendbuf": flat, "recvbuf": other, "origin": np.zeros(1), "result": np.zeros(1),
        "compare": np.zeros(1, "i"), "target": None, "dest": MPI.PROC_NULL, "source": MPI.PROC_NULL, "tag": 0,
        "sendtag": 0, "recvtag": 0, "root": 0, "color": 0, "key": 0, "obj": 1, "sendobj": 1, "status": None,
        "op": MPI.SUM, "info": MPI.INFO_NULL, "group": comm.Get_group(), "comm": comm, "split_type": 0,
        "partitions": 2, "partition": 0, "partition_low": 0, "partition_high": 1, "recvcounts": [4],
        "dims": [1, 1], "periods": [True, False], "reorder": False, "index": [1], "edges": [0],
        "sources": [0],
        "destinations": [0], "sourceweights": [1], "destweights": [1], "degrees": [1], "weights": [1],
        "coords": [0, 0], "direction": 0, "disp": 1, "remain_dims": [True, False], "rank": 0, "count": 2,
        "blocklength": 1, "stride": 2, "lengths": [1], "blocklengths": [1, 2], "displacements": [0, 2],
        "datatypes": [MPI.INT, MPI.DOUBLE], "sizes": [4, 4], "subsizes": [2, 2], "starts": [1, 1],
        "order": MPI.ORDER_C, "size": 1, "gsizes": [4, 4], "distribs": [MPI.DISTRIBUTE_BLOCK] * 2,
        "dargs": [MPI.DISTRIBUTE_DFLT_DARG] * 2, "psizes": [1, 1], "lb": 0, "extent": 8, "typeclass": 1,
        "r": 6, "p": 6, "inbuf": bytearray(64), "outbuf": bytearray(64), "position": 0, "incount": 1,
        "datarep": "external32", "ranks": [0], "ranks1": [0], "group1": comm.Get_group(),
        "group2": comm.Get_group(),
        "target_rank": 0, "target_disp": 0, "assertion": 0, "lock_type": MPI.LOCK_SHARED, "disp_unit": 1,
        "memory": bytearray(64), "offset": 0, "whence": MPI.SEEK_SET,
        "amode": MPI.MODE_RDWR | MPI.MODE_CREATE,
        "filename": os.path.join(scene.folder, "opened"), "flag": True, "etype": MPI.BYTE,
        "filetype": MPI.BYTE,
        "datatype": MPI.INT, "n": 0, "value": "text", "keyval": MPI.TAG_UB, "attrval": 1, "name": "name",
        "errorcode": 0, "errorclass": 0, "string": "text", "base": 8, "addr1": 8, "addr2": 4, "nnodes": 4,
        "commute": True, "function": lambda a, b, t: None, "newcomm": comm, "num_to_ack": 0, "error": 0,
        "nopython": False, "copy_fn": None, "delete_fn": None, "maxprocs": 1, "stringtag": "tag",
        "errhandler": MPI.ERRORS_RETURN, "location": flat, "errhandler_fn": lambda c, e: None, "level": 1,
        "pset_name": "mpi://SELF", "mem": None, "partitions_": [0], "args": None, "items": {},
        "default": None,
        "copy": None, "mark": False, "filetype_": None,
    }  # fmt: skip
    special: dict[str, dict[str, Any]] = {
        "Alltoallw": {"sendbuf": [flat, [2], [0], [MPI.DOUBLE]], "recvbuf": [other, [2], [0], [MPI.DOUBLE]]},
        "Get_nth_pset": {"n": 0},
        "Range_incl": {"ranks": [(0, 0, 1)]},
        "Range_excl": {"ranks": [(0, 0, 1)]},
        "Create_hindexed_block": {"displacements": [0, 8]},
        "Get_cart_rank": {"coords": [0, 0]},
        "Set_attr": {"keyval": getattr(type(owner), "Create_keyval", lambda: 0)()},
        "Delete_attr": {"keyval": getattr(type(owner), "Create_keyval", lambda: 0)()},
        "Compute_dims": {"dims": [0, 0]},
        "Get_value_index": {"value": MPI.FLOAT, "index": MPI.INT},
        "Pready": {"partition": 0},
        "Pack": {"inbuf": np.zeros(1, "i"), "position": 0},
        "Unpack": {"outbuf": np.zeros(1, "i"), "position": 0},
        "Pack_external": {"inbuf": np.zeros(1, "i")},
        "Unpack_external": {"outbuf": np.zeros(1, "i")},
        "Pack_size": {"count": 1},
        "Compare_and_swap": {"origin": np.zeros(1, "i"), "result": np.zeros(1, "i")},
        "Reduce_local": {"inbuf": np.zeros(2), "inoutbuf": np.zeros(2)},
        "scatter": {"sendobj": [1]},
        "alltoall": {"sendobj": [1]},
        "Get": {"key": "key"} if isinstance(owner, MPI.Info) else {},
        "Delete": {"key": "key"} if isinstance(owner, MPI.Info) else {},
        "Set": {"key": "key"},
        "get": {"key": "key"},
        "pop": {"key": "key"},
        "Get_nthkey": {"n": 0},
        "recv": {"buf": None},
        "irecv": {"buf": None},
        "sendrecv": {"recvbuf": None},
        "Set_elements": {"datatype": MPI.INT, "count": 1},
        "Shared_query": {"rank": MPI.PROC_NULL},
        "neighbor_alltoall": {"sendobj": [1] * 4},
        "neighbor_allgather": {"sendobj": 1},
    }
    base = method.replace("_init", "").replace("Neighbor_", "").replace("Ineighbor_", "").capitalize()
    if base.lower().endswith("alltoallw"):
        values |= special["Alltoallw"]
    if "eighbor_allto" in method and method[0].isupper():
        values |= {"sendbuf": np.zeros(4), "recvbuf": np.zeros(4)}
        if "alltoallw" in method:
            part = [flat, [1] * 4, [0] * 4, [MPI.DOUBLE] * 4]
            values |= {"sendbuf": part, "recvbuf": [other, *part[1:]]}
    if "eighbor_allgather" in method and method[0].isupper():
        values |= {"sendbuf": np.zeros(1), "recvbuf": np.zeros(4)}
    values |= special.get(method, {})
    if type(owner) is type(comm) and method == "Set_info":
        values["info"] = MPI.INFO_NULL
    return values


def kinds_of(annotation: str, name: str, value: Any) -> dict[str, Any] | None:
    """Return the kinds of values of a parameter, made of a good one; None: it is not varied."""
    kind = annotation.replace("'", "")
    if kind in ("int", "bool", "int | None"):
        huge = name in ("size", "n", "extent")
        return {key: make(int(value)) for key, make in NUMBERS.items() if not (huge and key in HUGE)}
    if kind.startswith(("Sequence[int]", "Sequence[bool]", "int | Sequence[int]")):
        return {key: make([int(one) for one in value]) for key, make in SEQUENCES.items()}
    if kind.split(" |")[0] in (
        "Info",
        "Op",
        "Group",
        "Datatype",
        "Comm",
        "Intracomm",
        "Status",
        "Errhandler",
    ):
        found = {key: make(value) for key, make in OBJECTS.items()}
        if "None" in kind:
            found["None"] = None
        return found
    if kind == "str":
        return {key: OBJECTS[key](value) for key in ("good", "int", "list", "object")} | {
            "bytes": b"x", "None": None, "np.str": np.str_("text"), "0-d": np.array("text"),
        }  # fmt: skip
    return None


CLASSES = (
    "Comm", "Intracomm", "Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm", "Group", "Datatype", "Op",
    "Prequest", "Info", "Session", "Win", "File", "Status", "module",
)  # fmt: skip


def signatures() -> dict[str, dict[str, str]]:
    """Return mpi4py's own signatures: by class and method, the annotations of the parameters."""
    from mpi4py import MPI

    found = {}
    for name in CLASSES:
        for method, function in vars(MPI if name == "module" else getattr(MPI, name)).items():
            function = getattr(function, "__func__", function)
            if method.startswith("_") or method in LEFT_OUT or isinstance(function, type):
                continue
            with contextlib.suppress(TypeError, ValueError):
                parameters = inspect.signature(function).parameters.values()
                own = [one for one in parameters if one.name not in ("self", "cls")]
                if own and "Op object" not in repr(function):
                    found[f"{name}.{method}"] = {
                        one.name: str(one.annotation) for one in own if one.kind is one.POSITIONAL_OR_KEYWORD
                    }
    return found


def cases(table: dict[str, dict[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield method, parameter and kind of each call, in order."""
    for full, parameters in table.items():
        for name, annotation in parameters.items():
            if annotation.replace("'", "").startswith(("int", "bool")) and "Seq" not in annotation:
                kinds: Any = NUMBERS
                if name in ("size", "n", "extent"):
                    kinds = [kind for kind in NUMBERS if kind not in HUGE]
            elif "Sequence[int]" in annotation or "Sequence[bool]" in annotation:
                kinds = SEQUENCES
            else:
                made = kinds_of(annotation, name, None) if annotation else None
                kinds = () if made is None else made
            for kind in kinds:
                yield full, name, kind
    for full in SPECS:
        for name in ("count", "displacement", "counts", "displacements"):
            for kind in NUMBERS if name in ("count", "displacement") else SEQUENCES:
                yield full, name, kind


#: calls whose buffers have counts: where these stand
SPECS = (
    "spec.Sendrecv",
    "spec.Bcast",
    "spec.Gatherv",
    "spec.Scatterv",
    "spec.Alltoallv",
    "spec.Put",
    "spec.Write_at",
)


def called_spec(scene: Scene, full: str, name: str, kind: str) -> Any:
    """Call with a count or displacement of a kind inside the specification of a buffer."""
    MPI, comm = scene.MPI, scene.comm  # noqa: N806
    made = NUMBERS[kind](1) if name in ("count", "displacement") else SEQUENCES[kind]([1])
    spec: list[Any] = [np.zeros(4), made, MPI.DOUBLE]
    if name == "displacement":
        spec = [np.zeros(4), 1, made, MPI.DOUBLE]
    elif name == "displacements":
        spec = [np.zeros(4), [1], made, MPI.DOUBLE]
    plain = [np.zeros(1), 1, MPI.DOUBLE]
    method = full.partition(".")[2]
    if method == "Sendrecv":
        return comm.Sendrecv(spec, MPI.PROC_NULL, 0, plain, MPI.PROC_NULL)
    if method == "Bcast":
        return comm.Bcast(spec)
    if method == "Gatherv":
        return comm.Gatherv(plain, spec)
    if method == "Scatterv":
        return comm.Scatterv(spec, plain)
    if method == "Alltoallv":
        return comm.Alltoallv(spec, plain)
    if method == "Put":
        window = scene.owner("Win")
        try:
            window.Fence()
            window.Put(
                np.zeros(1), 0, [made, 1, MPI.DOUBLE] if name == "displacement" else [0, made, MPI.DOUBLE]
            )
            return window.Fence()
        finally:
            window.Free()
    file = scene.owner("File")
    try:
        return file.Write_at(0, spec)
    finally:
        file.Close()


def called(scene: Scene, full: str, name: str, kind: str, table: dict[str, dict[str, str]]) -> Any:
    """Call a method with one parameter of a kind and good other ones."""
    cls, _, method = full.partition(".")
    comm = scene.comm
    owner = scene.owner(cls)
    try:
        values = good_values(scene, owner, method)
        arguments = {one: values[one] for one in table[full] if one in values}
        made = kinds_of(table[full][name], name, values[name])
        assert made is not None
        arguments[name] = made[kind]
        pending = []
        if any(one in ("source", "recvtag") for one in arguments):
            pending = [comm.Isend(np.zeros(4), 0, tag) for tag in (0, 1, 5)] if method[0].isupper() else []
            pending += [] if method[0].isupper() else [comm.isend(1, 0, tag) for tag in (0, 1, 5)]
        try:
            if cls == "Prequest":
                owner.Start()
            if method in ("Put", "Get", "Accumulate", "Get_accumulate", "Fetch_and_op", "Compare_and_swap"):
                owner.Fence()
            found = getattr(owner, method)(**arguments)
            if hasattr(found, "Wait") and not hasattr(found, "Start"):
                found.Wait()
            if method in ("Rput", "Rget", "Raccumulate", "Rget_accumulate"):
                return None
            return found
        finally:
            while pending and comm.Iprobe():
                comm.Mprobe().Recv(bytearray(1000))
    finally:
        if cls in ("Topocomm", "Cartcomm", "Graphcomm", "Distgraphcomm"):
            owner.Free()
        elif cls == "File":
            owner.Close()
        elif cls == "Session":
            owner.Finalize()


def outcome(scene: Scene, full: str, name: str, kind: str, table: dict[str, dict[str, str]]) -> str:
    """Return what a call comes to: its plain result, or the class of its error."""
    try:
        if full in SPECS:
            found = called_spec(scene, full, name, kind)
        else:
            found = called(scene, full, name, kind, table)
    except scene.MPI.Exception as error:
        return f"MPI {error.Get_error_class()}"
    except Exception as error:
        if any(text in str(error) for text in ("of a buffer of", "of a block of", "sends blocks of")):
            return "MPI"  # the numbers are taken: real MPI fails, or reads past the buffer
        if isinstance(error, MismatchError | ScheduleError):
            return "MPI"
        return next(one.__name__ for one in type(error).__mro__ if one.__module__ == "builtins")
    return (
        f"ok {found!r}"
        if isinstance(found, int | str | tuple | list | None) and "<" not in repr(found)
        else "ok"
    )


def plain(what: str) -> str:
    """Return what an outcome says of a conversion: accepted, the error's class, or "left out"."""
    if what.startswith(("ends", "NotImplementedError")):
        return "left out"
    return "accepted" if what.startswith(("ok", "MPI")) else what


def judged(what: str) -> str:
    """Return `plain`, with the error class, such as "MPI 13", for what is converted and then refused.

    labkit's own errors have none of MPI's classes: "MPI".
    """
    return what if what.startswith("MPI") else plain(what)


def main(table: dict[str, dict[str, str]], begin: int, file: str) -> None:
    """Write the outcomes of real calls from one on, a line each."""
    from mpi4py import MPI

    with tempfile.TemporaryDirectory() as folder, open(file, "a", buffering=1) as out:
        scene = Scene(MPI, folder)
        for number, (full, name, kind) in enumerate(cases(table)):
            if number >= begin:
                out.write(f"{full}|{name}|{kind}|")
                out.flush()
                signal.alarm(5)  # ends the process where a call waits
                out.write(f"{outcome(scene, full, name, kind, table)}\n")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(json.loads(Path(sys.argv[1]).read_text()), int(sys.argv[2]), sys.argv[3])
        os._exit(0)
    with tempfile.TemporaryDirectory() as made:
        signs, lines = Path(made, "signatures"), Path(made, "lines")
        found = signatures()
        signs.write_text(json.dumps(found))
        total = sum(1 for _ in cases(found))
        lines.touch()
        done = 0
        while done < total:
            words = [sys.executable, "-m", "tests.unit.comm.conversions", str(signs), str(done), str(lines)]
            try:
                code = subprocess.run(words, timeout=600, capture_output=True).returncode
            except subprocess.TimeoutExpired:
                code = -1
            text = lines.read_text()
            if not text.endswith("\n"):  # the process has ended, or waits
                text += f"ends the process {code}\n"
                lines.write_text(text)
            done = text.count("\n")
            print(done, total, text.splitlines()[-1], file=sys.stderr)
        rows: dict[str, Any] = {}
        for line in lines.read_text().splitlines():
            full, name, kind, what = line.split("|")
            said = judged(what)
            if said != "accepted":
                rows.setdefault(full, {}).setdefault(name, {}).setdefault(said, []).append(kind)
        TABLE.write_text(json.dumps({"signatures": found, "refused": rows}, separators=(",", ":")) + "\n")
