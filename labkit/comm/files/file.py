"""Files that the ranks of a communicator have opened together."""

from __future__ import annotations

import operator
import os
from typing import Any, NamedTuple

import numpy as np

from labkit import _kernels
from labkit.comm import surface
from labkit.comm.buffers import Simple, parse_simple
from labkit.comm.collective.makers import maker_of
from labkit.comm.collective.native import (
    Call,
    arrive_shared,
    call_under_way,
    leave,
    perform,
    refuse_in_recordings,
    shared_calls,
)
from labkit.comm.files.state import (
    DATA_REPRESENTATIONS,
    CollectiveTransfer,
    FileState,
    FileView,
    Own,
    error_of,
    server_of,
)
from labkit.comm.handles.base import KNOWN, MODULE_NAME, Handle
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.datatypes import DATATYPES, Datatype
from labkit.comm.handles.errhandlers import ErrorHandling
from labkit.comm.handles.exceptions import Exception as MPIException
from labkit.comm.handles.groups import Group
from labkit.comm.handles.info import Info
from labkit.comm.handles.status import Status
from labkit.comm.place import here
from labkit.comm.surface import FILES, NAMED, Method, add_methods
from labkit.comm.typed import is_phantom, packed, unpack
from labkit.program import context
from labkit.schedule.problem import PROBLEMS

__all__ = ["FILE_NULL", "File"]


# Reads and writes of files: their methods are made from the table of mpi4py's surface.


_ERR_FILE, _ERR_OTHER, _ERR_UNSUPPORTED = 30, 16, 52
_NULL = _ERR_FILE, "FILE_NULL, or a file that has been closed"


class FileCall(NamedTuple):
    """A call of the running rank's."""

    name: str
    hub: _kernels.Hub
    state: FileState
    me: int  #: among the file's ranks
    own: Own


def _fill(status: Any, n_bytes: int) -> None:
    if status is not None:
        Status.__setstate__(status, (-1, -1, 0, n_bytes, False))


def _expression(method: Method) -> str:
    given = method.arguments.split(", ")
    return "self._transfer(method, {}, buf, {})".format(
        *("offset" if "offset" in given else None, "status" if "status" in given else None)
    )


_ERR_ARG, _ERR_COMM, _ERR_TYPE, _ERR_OTHER = 13, 5, 3, 16
_MODES = {
    name: CONSTANTS[f"MODE_{name}"]
    for name in (
        "RDONLY",
        "WRONLY",
        "RDWR",
        "CREATE",
        "EXCL",
        "SEQUENTIAL",
        "APPEND",
    )
}
_CURRENT = CONSTANTS["DISPLACEMENT_CURRENT"]
_SET, _CUR, _END = (CONSTANTS[f"SEEK_{name}"] for name in ("SET", "CUR", "END"))


class File(ErrorHandling, Handle):
    """A file that the ranks of a communicator read and write; falsy when it is FILE_NULL.

    It is a file of this host. For the cost of calls see `labkit.comm.files`.
    """

    __slots__ = ("_comm", "_state")
    __module__ = MODULE_NAME
    __hash__ = None
    _known = surface.FILE

    def __new__(cls, file: File | None = None) -> File:
        """Return a handle of FILE_NULL, or of the file given."""
        if file is not None and not isinstance(file, File):
            raise TypeError(f"file: expected a File, got {type(file).__name__}")
        self = object.__new__(cls)
        self._state, self._comm = (None, None) if file is None else (file._state, file._comm)
        return self

    def __eq__(self, other: object) -> bool:
        return self._state is other._state if isinstance(other, File) else NotImplemented

    def _identity(self) -> object:
        return None if self._state is None else (id(self._state), self._comm.rank)

    def __bool__(self) -> bool:
        return self._state is not None

    def __repr__(self) -> str:
        return "labkit.MPI.FILE_NULL" if self._state is None else f"<labkit.MPI.File: {self._state.text()}>"

    def __reduce__(self) -> str | tuple[object, ...]:
        if self._state is not None:
            raise ValueError("cannot pickle an open file")
        return "FILE_NULL" if self is FILE_NULL else (type(self), ())

    # --- opening and closing ------------------------------------------------------------------------

    @classmethod
    def Open(cls, comm: object, filename: Any, amode: int = _MODES["RDONLY"], info: Any = None) -> File:
        """Open a file, all ranks of a communicator together."""
        if not isinstance(comm, KNOWN["Intracomm"]):
            if comm == KNOWN["COMM_NULL"]:
                raise MPIException(_ERR_COMM, "File.Open on COMM_NULL")
            raise TypeError(f"comm: expected an Intracomm, got {type(comm).__name__}")
        path, mode = os.fsdecode(os.fspath(filename)), operator.index(amode)
        _check_mode(mode)
        calls, shared = arrive_shared(comm, "File.Open", {"filename": path, "amode": mode})
        refuse_in_recordings(calls, "File.Open")
        if "file" not in shared.made:
            shared.made["context"] = calls.hub.new_context()
            shared.made["file"] = FileState(path, mode, comm._world_ranks(), here(), server_of(calls))
            shared.made["file"].open()
            calls.files.append(shared.made["file"])
        leave("File.Open")
        self = cls()
        self._state = shared.made["file"]
        self._comm = KNOWN["Intracomm"](comm)
        self._comm._use_context(shared.made["context"])
        now = self._now("Open")
        if info:
            now.own.own["info"] = dict(info._dict())
        self._together(now)
        self._request(now, 0)
        if now.state.failure is not None:
            self._state = None
            raise MPIException(now.state.failure.Get_error_code(), now.state.failure._detail)
        return self

    def Close(self) -> None:
        """Close the file, all its ranks together; the handle becomes FILE_NULL."""
        now = self._now("Close")
        self._check_split(now)
        self._together(now)
        self._request(now, 0)
        now.own.is_closed = True
        if all(own.is_closed for own in now.state.owns):
            now.state.close()
        self._state = None

    def free(self) -> None:
        """Close it unless it is null."""
        if self:
            self.Close()

    @classmethod
    def Delete(cls, filename: Any, info: object = None) -> None:
        """Delete a file."""
        path = os.fsdecode(os.fspath(filename))
        calls = shared_calls("File.Delete")
        calls.hub.catch_up("Delete")
        try:
            os.unlink(path)
        except OSError as error:
            raise error_of(error, f"File.Delete of {path!r}") from None
        calls.hub.sleep(server_of(calls).storage.latency_s)

    # --- size ---------------------------------------------------------------------------------------

    def Get_size(self) -> int:
        """Length of the file, in bytes."""
        now = self._now("Get_size")
        now.hub.catch_up(now.name)
        return now.state.size()

    def Set_size(self, size: int) -> None:
        """Cut the file off, or let it grow; all ranks together."""
        self._resize("Set_size", size, is_exact=True)

    def Preallocate(self, size: int) -> None:
        """Extend the file to at least `size` bytes; all ranks together."""
        self._resize("Preallocate", size, is_exact=False)

    def _resize(self, name: str, size: int, is_exact: bool) -> None:
        now = self._now(name)
        if size < 0:
            raise MPIException(_ERR_OTHER, f"{name}: size={size} is not allowed: at least 0 bytes")
        self._check_writable(now)
        self._together(now, size=size)
        try:
            if is_exact or now.state.size() < size:
                os.ftruncate(now.state.descriptor, size)
        except OSError as error:
            raise error_of(error, name) from None
        self._request(now, 0)

    size = property(Get_size, doc="Length of the file, in bytes.")

    def Sync(self) -> None:
        """Let what was written be seen by all; all ranks together."""
        now = self._now("Sync")
        self._check_split(now)
        self._together(now)
        self._request(now, 0)

    # --- views --------------------------------------------------------------------------------------

    def Set_view(
        self,
        disp: int = 0,
        etype: object = None,
        filetype: object = None,
        datarep: str = "native",
        info: Any = None,
    ) -> None:
        """Choose what this rank sees of the file; the pointers go to its beginning. All ranks together."""
        now = self._now("Set_view")
        self._check_split(now)
        unit = DATATYPES["BYTE"] if etype is None else _datatype("etype", etype)
        tile = unit if filetype is None else _datatype("filetype", filetype)
        place = operator.index(disp)
        is_sequential = bool(now.state.mode & _MODES["SEQUENTIAL"])
        if place == _CURRENT and is_sequential:
            place = now.own.view.place(now.state.shared * now.own.view.unit)
        elif place < 0 or is_sequential:
            allowed = "only DISPLACEMENT_CURRENT, with MODE_SEQUENTIAL" if is_sequential else "at least 0"
            raise MPIException(_ERR_ARG, f"Set_view: disp={disp} is not allowed: {allowed}")
        if datarep not in DATA_REPRESENTATIONS:
            raise MPIException(
                CONSTANTS["ERR_UNSUPPORTED_DATAREP"],
                f"Set_view: datarep={datarep!r} is not known; allowed: {', '.join(DATA_REPRESENTATIONS)}",
            )
        if unit.size == 0 or tile.size % unit.size:
            raise MPIException(
                _ERR_ARG,
                f"Set_view: a filetype consists of whole etypes, got {tile.size} bytes of data and etypes of "
                f"{unit.size}",
            )
        view = FileView(place, unit, tile, datarep)
        if view.is_resized and tile.size != tile.extent:
            raise MPIException(
                CONSTANTS["ERR_UNSUPPORTED_DATAREP"],
                "Set_view: a filetype with gaps and C's long, which has 4 bytes in external32 and 8 here, "
                "is not simulated; allowed: filetypes without gaps, and numbers of one size such as INT64_T",
            )
        self._together(now)
        now.own.view, now.own.position, now.state.shared = view, 0, 0
        if info:
            now.own.own.setdefault("info", {}).update(info._dict())
        self._together(now)

    def Get_view(self) -> tuple[int, Datatype, Datatype, str]:
        """Return displacement, etype, filetype and data representation."""
        view = self._now("Get_view").own.view
        return view.disp, view.etype, view.filetype, view.datarep

    def Get_type_extent(self, datatype: object) -> int:
        """Extent of a datatype in the file, in bytes."""
        view, given = self._now("Get_type_extent").own.view, _datatype("datatype", datatype)
        return view.data_bytes(given) if given.size == given.extent else int(given.extent)

    # --- pointers -----------------------------------------------------------------------------------

    def Seek(self, offset: int, whence: int = _SET) -> None:
        """Set this rank's pointer, in etypes: from the beginning, from where it is, or from the end."""
        now = self._now("Seek")
        self._check_random_access(now)
        now.own.position = _sought(now, now.own.position, offset, whence)

    def Seek_shared(self, offset: int, whence: int = _SET) -> None:
        """Set the shared pointer; all ranks together, with the same arguments."""
        now = self._now("Seek_shared")
        position = _sought(now, now.state.shared, offset, whence)
        self._together(now, offset=operator.index(offset), whence=operator.index(whence))
        now.state.shared = position
        self._together(now)

    def Get_position(self) -> int:
        """Return the rank's own pointer, in etypes."""
        now = self._now("Get_position")
        self._check_random_access(now)
        return now.own.position

    def Get_position_shared(self) -> int:
        """The shared pointer, in etypes."""
        now = self._now("Get_position_shared")
        now.hub.catch_up(now.name)
        return now.state.shared

    def Get_byte_offset(self, offset: int) -> int:
        """Byte of the file at which an offset of the view lies."""
        now = self._now("Get_byte_offset")
        if operator.index(offset) < 0:
            raise MPIException(_ERR_ARG, f"Get_byte_offset: offset={offset} is not allowed: at least 0")
        view = now.own.view
        return view.place(operator.index(offset) * view.unit)

    # --- attributes -----------------------------------------------------------------------------------

    def _own(self) -> dict[object, Any]:
        """Return what this rank has noted on the file; FILE_NULL has the error handler of files to come."""
        if self._state is not None:
            return self._now("attributes").own.own
        running = context.simulated()
        if running is None:
            return {}
        calls = running.calls
        own: dict[object, object] = calls.attributes.setdefault(("FILE_NULL", calls.hub.rank), {})
        return own

    def Set_atomicity(self, flag: bool) -> None:
        """Report whether overlapping accesses are one after another; all ranks together. They always are."""
        now = self._now("Set_atomicity")
        self._together(now, flag=bool(flag))
        now.state.is_atomic = bool(flag)

    def Get_atomicity(self) -> bool:
        """Whether `Set_atomicity` has asked for it."""
        return self._now("Get_atomicity").state.is_atomic

    atomicity = property(Get_atomicity, Set_atomicity, doc="Whether accesses are atomic.")

    def Get_amode(self) -> int:
        """Access mode that it was opened with."""
        return self._now("Get_amode").state.mode

    amode = property(Get_amode, doc="Access mode that it was opened with.")

    def Get_group(self) -> Group:
        """Return the group of its ranks."""
        return Group._of(tuple(self._now("Get_group").state.world))

    group = property(Get_group, doc="The group of its ranks.")
    group_size = property(lambda self: len(self._now("group_size").state.world), doc="Number of its ranks.")
    group_rank = property(lambda self: self._now("group_rank").me, doc="The running rank in it.")

    def Get_info(self) -> Info:
        """Return a copy of the hints that this rank has set."""
        return Info.Create(dict(self._now("Get_info").own.own.get("info", {})))

    def Set_info(self, info: Info) -> None:
        """Keep hints, in addition to those set before; nothing looks at them."""
        self._now("Set_info").own.own.setdefault("info", {}).update(info._dict())

    info = property(Get_info, Set_info, doc="Hints that this rank has set.")

    # How calls on files begin, and how bytes are moved.

    _state: FileState | None
    _comm: Any  #: the file's ranks, with its own messages

    def _now(self, name: str) -> FileCall:
        """Return the call under way; see `call_under_way`."""
        calls, state, me = call_under_way(self, "File", name, _NULL)
        return FileCall(name, calls.hub, state, me, state.owns[me])

    def _together(self, now: FileCall, **facts: object) -> None:
        """Wait for all ranks; facts are what they must give alike."""
        perform(self._comm, Call("barrier", f"File.{now.name}", facts=facts))

    @staticmethod
    def _begin_request(now: FileCall, n_bytes: int, latencies: int = 1) -> int:
        """Make a request to the file server: its handle."""
        now.hub.catch_up(now.name)
        handle = int(now.hub.gate())
        now.hub.open_gate(handle, now.state.server.end_of(now.hub.now(), n_bytes, latencies))
        return handle

    @staticmethod
    def _await(now: FileCall, handle: int) -> None:
        now.hub.wait_for([handle], now.name)
        now.hub.release_handles([handle])

    def _request(self, now: FileCall, n_bytes: int, latencies: int = 1) -> None:
        """Make a request and wait for it."""
        self._await(now, self._begin_request(now, n_bytes, latencies))

    # --- what is allowed ------------------------------------------------------------------------------

    @staticmethod
    def _check_writable(now: FileCall) -> None:
        if now.state.mode & CONSTANTS["MODE_RDONLY"]:
            raise MPIException(
                CONSTANTS["ERR_READ_ONLY"], f"{now.name}: the file was opened with MODE_RDONLY"
            )

    @staticmethod
    def _check_random_access(now: FileCall) -> None:
        if now.state.mode & CONSTANTS["MODE_SEQUENTIAL"]:
            raise MPIException(
                _ERR_UNSUPPORTED,
                f"{now.name}: a file of MODE_SEQUENTIAL is read and written with the shared pointer only",
            )

    @staticmethod
    def _check_split(now: FileCall) -> None:
        if now.own.split is not None:
            raise MPIException(
                _ERR_OTHER, f"{now.name} while {now.own.split[0]} is under way: call its end first"
            )

    # --- reads and writes -----------------------------------------------------------------------------

    def _transfer(self, method: Method, offset: int | None, buf: object, status: object) -> Any:
        """Do what a row of the table says."""
        now = self._now(method.name)
        is_write, where = method.base.startswith("Write"), method.kind
        if method.form == "end":
            return self._end(now, method, buf, status)
        if is_write:
            self._check_writable(now)
        elif now.state.mode & CONSTANTS["MODE_WRONLY"]:
            raise MPIException(CONSTANTS["ERR_ACCESS"], f"{now.name}: the file was opened with MODE_WRONLY")
        if where in ("at", "own"):
            self._check_random_access(now)
        is_collective = where == "ordered" or "_all" in method.name
        if is_collective:
            self._check_split(now)
        place = parse_simple(buf, not is_write)
        view = now.own.view
        n_bytes = view.file_bytes(place.datatype, place.count, place.bytes)
        position = self._position(now, where, offset, n_bytes)
        if is_collective and method.form != "nonblocking":
            handle = self._begin_joint(now, n_bytes)
        else:
            handle = self._begin_request(now, n_bytes, 1 + (where == "shared"))
        done = self._move(now, view, position * view.unit, place, is_write)
        if where == "own":
            now.own.position = position + -(-n_bytes // view.unit)  # by what was asked for, as MPI has it
        done = view.memory_bytes(place.datatype, done)
        if method.form == "blocking":
            self._await(now, handle)
            _fill(status, done)
            return None
        if method.form == "nonblocking":
            return now.hub.handle_request(self._comm, handle, done)
        now.own.split = (method.name, buf, handle, done)
        return None

    def _end(self, now: FileCall, method: Method, buf: object, status: object) -> None:
        begin = method.name.replace("_end", "_begin")
        if now.own.split is None or now.own.split[0] != begin:
            under_way = now.own.split[0] if now.own.split else "nothing"
            raise MPIException(_ERR_OTHER, f"{now.name} without {begin}: {under_way} is under way")
        _, _, handle, done = now.own.split
        now.own.split = None
        self._await(now, handle)
        _fill(status, done)

    def _position(self, now: FileCall, where: str, offset: int | None, n_bytes: int) -> int:
        """Return where a transfer begins, in etypes; shared pointers go on."""
        state, unit = now.state, now.own.view.unit
        units = -(-n_bytes // unit)
        if where == "at":
            place = operator.index(offset)  # type: ignore[arg-type]
            if place < 0:
                raise MPIException(_ERR_OTHER, f"{now.name}: offset={offset} is not allowed: at least 0")
            return place
        if where == "own":
            return now.own.position
        if where == "shared":
            now.hub.catch_up(now.name)
            place = state.shared
            state.shared += units
            return place
        everybody = np.zeros(self._comm.size, np.int64)
        make = maker_of(NAMED["Allgather"])
        mine = np.array([n_bytes], np.int64)
        perform(self._comm, make(self._comm, PROBLEMS["allgather"], f"File.{now.name}", mine, everybody))
        joint, before = self._joint(now), -(-everybody // unit)
        if joint.total is None:  # this rank is the first that knows of all
            joint.total, joint.begin = int(everybody.sum()), state.shared
            state.shared += int(before.sum())
        return joint.begin + int(before[: now.me].sum())

    @staticmethod
    def _joint(now: FileCall) -> CollectiveTransfer:
        """Return what the ranks share about this rank's next collective transfer."""
        return now.state.joints.setdefault(now.own.calls, CollectiveTransfer())

    def _begin_joint(self, now: FileCall, n_bytes: int) -> int:
        """Make the request of a collective transfer, together with all others: this rank's handle."""
        joint, number = self._joint(now), now.own.calls
        if joint.total is None:  # the ranks have not met yet
            joint.sizes[now.me] = n_bytes
            self._together(now)
            joint.total = sum(joint.sizes.values())
        now.hub.catch_up(now.name)
        if joint.end_s is None:
            joint.end_s = now.state.server.end_of(now.hub.now(), joint.total)
        handle = int(now.hub.gate())
        now.hub.open_gate(handle, joint.end_s)
        now.own.calls += 1
        joint.left += 1
        if joint.left == len(now.state.world):
            del now.state.joints[number]
        return handle

    @staticmethod
    def _move(now: FileCall, view: FileView, position: int, place: Simple, is_write: bool) -> int:
        """Read or write now; how many bytes."""
        if is_phantom(place):
            raise TypeError(f"{now.name}: a phantom buffer (labkit.sized) has no bytes for a file")
        try:
            if is_write:
                data = view.to_file(place.datatype, packed(place))
                now.state.write(view, position, data)
                return len(data)
            asked = view.file_bytes(place.datatype, place.count, place.bytes)
            data = now.state.read(view, position, asked)
        except OSError as error:
            raise error_of(error, f"{now.name} of {now.state.path!r}") from None
        unpack(place, view.from_file(place.datatype, data))
        return len(data)


add_methods(File, FILES, _expression, {"__name__": __name__})


def _datatype(what: str, value: object) -> Datatype:
    if not isinstance(value, Datatype):
        raise TypeError(f"{what}: expected a Datatype, got {type(value).__name__}")
    if not value:
        raise MPIException(_ERR_TYPE, f"{what} is DATATYPE_NULL")
    return value


def _check_mode(mode: int) -> None:
    """Refuse modes that contradict each other."""
    ways = sum(bool(mode & _MODES[name]) for name in ("RDONLY", "WRONLY", "RDWR"))
    wrong = ""
    if ways != 1:
        wrong = f"exactly one of MODE_RDONLY, MODE_WRONLY and MODE_RDWR is needed, got {ways}"
    elif mode & _MODES["RDONLY"] and mode & (_MODES["CREATE"] | _MODES["EXCL"]):
        wrong = "MODE_RDONLY goes neither with MODE_CREATE nor with MODE_EXCL"
    elif mode & _MODES["RDWR"] and mode & _MODES["SEQUENTIAL"]:
        wrong = "MODE_RDWR does not go with MODE_SEQUENTIAL"
    if wrong:
        raise MPIException(CONSTANTS["ERR_AMODE"], f"File.Open: amode={mode}: {wrong}")


def _sought(now: Any, position: int, offset: int, whence: int) -> int:
    """Return where a pointer goes."""
    view = now.own.view
    now.hub.catch_up(now.name)
    if whence == _SET:
        place = 0
    elif whence == _CUR:
        place = position
    elif whence == _END:
        place = -(-view.seen(now.state.size()) // view.unit)
    else:
        raise MPIException(_ERR_ARG, f"{now.name}: whence={whence} is not SEEK_SET, SEEK_CUR or SEEK_END")
    place += operator.index(offset)
    if place < 0:
        raise MPIException(
            _ERR_OTHER, f"{now.name}: the pointer would go to {place}, before the view's beginning"
        )
    return place


FILE_NULL = File()
KNOWN["FILE_NULL"] = FILE_NULL
