"""Calls about the run as a whole: clock, names, start and end."""

from __future__ import annotations

import operator
import os
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from labkit import _kernels
from labkit.comm.handles import exceptions
from labkit.comm.handles.base import KNOWN
from labkit.comm.handles.exceptions import make_error, make_outside
from labkit.comm.handles.info import Info, deleted
from labkit.comm.pickling import pickle
from labkit.comm.place import here
from labkit.program.context import simulated

__all__ = [
    "ENVIRONMENT",
    "SETTINGS",
    "abort",
    "note_import",
    "own_settings",
    "set_setting",
    "settings",
]


def find_job() -> Callable[[int], NoReturn] | None:
    """Return what ends the job of the calling rank; the simulator replaces this when it is imported."""
    return None


def watch_errors() -> None:
    """Let error handlers see the errors of calls from now on (`labkit.comm.handles.errhandlers`)."""


def abort(errorcode: int = 0) -> NoReturn:
    """End the whole run with an error code; never returns, and nothing that the program does catches it."""
    end = find_job()
    if end is None:
        raise make_outside("Abort")
    end(operator.index(errorcode))


def _hub(name: str) -> Any:
    hub = _kernels.active_hub()
    if hub is None:
        raise make_outside(name)
    return hub


def Wtime() -> float:
    """Simulated time in seconds since the start of the run, at the running rank."""
    machine = simulated()
    if machine is not None:
        return float(machine.wtime())
    thread = _kernels.active_hub() is None and exceptions.owner_of_thread()
    return float(thread[0].clock(thread[1]) if thread else _hub("Wtime").wtime())


def Wtick() -> float:
    """Resolution of `Wtime` in seconds."""
    return 1e-9


def Get_processor_name() -> str:
    """Name of the simulated host, as the platform calls it."""
    rank = _kernels.current_rank()
    if rank < 0:
        thread = exceptions.owner_of_thread()
        return "host-0" if thread is None else f"host-{thread[0].host(thread[1])}"
    host = int(_hub("Get_processor_name").host(rank))
    return str(simulated().host_name(host))


def Get_version() -> tuple[int, int]:
    """Version of the MPI standard whose names and semantics are simulated."""
    return 4, 1


def Get_library_version() -> str:
    """Describe the library."""
    from labkit import __version__

    return f"labkit {__version__} (simulated)"


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Name and version of the implementation."""
    return "labkit", (0, 1, 0)


#: what `mpi4py.rc` has, and what each setting may be (None: a whole number)
SETTINGS: dict[str, tuple[object, tuple[object, ...] | None]] = {
    "initialize": (True, (True, False)),
    "threads": (True, (True, False)),
    "thread_level": ("multiple", ("single", "funneled", "serialized", "multiple")),
    "finalize": (None, (None, True, False)),
    "fast_reduce": (True, (True, False)),
    "recv_mprobe": (True, (True, False)),
    "irecv_bufsz": (32768, None),
    "errors": ("exception", ("default", "exception", "abort", "fatal")),
}

#: the error handlers of all objects, by `mpi4py.rc.errors`
_HANDLERS = {"default": "ERRORS_ARE_FATAL", "fatal": "ERRORS_ARE_FATAL", "abort": "ERRORS_ABORT"}
#: the levels of thread support, by the names of `mpi4py.rc`
_LEVELS = {"single": 0, "funneled": 1, "serialized": 2, "multiple": 3}


def own_settings() -> dict[str, Any] | None:
    """Return what the running rank has set and done itself; None outside ranks."""
    machine = simulated()
    if machine is None:
        return None
    own: dict[int, dict[str, object]] = machine.own_states
    return own.setdefault(machine.rank, {})


def settings() -> dict[str, Any]:
    """What the running rank has set of `mpi4py.rc`."""
    own = own_settings()
    return {} if own is None else own.get("rc", {})


def set_setting(name: str, value: object) -> None:
    """Set something of the running rank's `mpi4py.rc`."""
    own = own_settings()
    if own is not None:
        own.setdefault("rc", {})[name] = value


def set_settings(rc: Mapping[str, object]) -> None:
    """Set several."""
    for name, value in rc.items():
        set_setting(name, value)


def note_import() -> None:
    """Do what mpi4py.MPI does when a rank of a script first imports it: heed `mpi4py.rc` and MPI4PY_RC_*."""
    machine = simulated()
    given = {
        name: os.environ[word] for name in SETTINGS if (word := f"MPI4PY_RC_{name.upper()}") in os.environ
    }
    if machine is None or machine.is_early:
        return
    for name in ("PROTOCOL", "THRESHOLD"):
        if (text := os.environ.get(f"MPI4PY_PICKLE_{name}", "")).isdigit():
            setattr(pickle, name, int(text))
    if not (given or settings()):
        return
    own = own_settings()
    assert own is not None
    if own.get("imported"):
        return
    own["imported"] = True
    for name, text in given.items():
        set_setting(name, _read(name, text))
    rc = settings()
    for name, value in rc.items():
        allowed = SETTINGS[name][1]
        if not (value in allowed if allowed is not None else isinstance(value, int) and value >= 0):
            warnings.warn(f"mpi4py.rc.{name}: unexpected value {value!r}", stacklevel=3)
    own["is_late"] = rc.get("initialize", True) is False
    if own["is_late"]:
        _refuse_calls("MPI is not initialized yet: mpi4py.rc.initialize is False, so call MPI.Init() first")
    if (handler := _HANDLERS.get(rc.get("errors", "exception"))) is not None:
        own["errors"] = handler
        watch_errors()
    room = rc.get("irecv_bufsz")
    if isinstance(room, int) and room >= 0:
        machine.calls.hub.set_irecv_room(machine.rank, room)


def _read(name: str, text: str) -> Any:
    """Read the value of a variable of the environment, as mpi4py does."""
    words = {"false": False, "no": False, "off": False, "n": False, "0": False}
    words |= {"true": True, "yes": True, "on": True, "y": True, "1": True}
    if SETTINGS[name][1] is None:
        return int(text) if text.isdigit() else text
    return words.get(text.lower(), text.lower())


def _state() -> str:
    """Return ``before``, ``between`` or ``after``: where the running rank is of Init and Finalize."""
    machine = simulated()
    if machine is None or not machine.own_states:
        return "between"
    own = machine.own_states.get(machine.rank, {})
    return str(own.get("state", "before" if own.get("is_late") else "between"))


def Init() -> None:
    """Initialize MPI explicitly, where ``mpi4py.rc.initialize = False``; refused where it is initialized."""
    _initialize("Init", _LEVELS["single"])


def Init_thread(required: int = 3) -> int:
    """As `Init`; the thread level provided is the one required."""
    if required not in _LEVELS.values():
        raise make_error(13, f"Init_thread takes a thread level of MPI, got {required!r}")
    return _initialize("Init_thread", required)


def _initialize(name: str, required: int) -> int:
    state = _state()
    if state != "before":
        happened = "is initialized already" if state == "between" else "has been finalised"
        raise make_error(
            16,
            f"{name}: MPI {happened}; mpi4py initializes it on import, unless mpi4py.rc.initialize = False",
        )
    own = own_settings()
    assert own is not None
    own |= {"state": "between", "level": required}
    _refuse_calls("")
    return int(own["level"])


def Finalize() -> None:
    """End the rank's communication."""
    if _state() == "after":
        raise make_error(16, "Finalize: MPI has been finalised already")
    own = own_settings()
    if own is not None:
        deleted(KNOWN["COMM_SELF"])  # MPI: first, and its callbacks may still communicate
        own["state"] = "after"
        _refuse_calls(f"this rank has called MPI.Finalize() at {here()}, and nothing can be called after it")


def _refuse_calls(why: str) -> None:
    """Refuse the running rank's calls of MPI from now on; an empty reason: refuse them no more."""
    machine = simulated()
    if machine is not None:
        machine.calls.hub.refuse_calls(machine.rank, why)


def Is_initialized() -> bool:
    """Whether MPI has been initialized, on import or explicitly."""
    return _state() != "before"


def Is_finalized() -> bool:
    """Whether the running rank has called `Finalize`."""
    return _state() == "after"


def Is_thread_main() -> bool:
    """Whether this is the rank's main thread."""
    return exceptions.owner_of_thread() is None


def Query_thread() -> int:
    """Thread level provided: the one required (mpi4py requires THREAD_MULTIPLE)."""
    own = own_settings() or {}
    if "level" in own:
        return int(own["level"])
    rc = own.get("rc", {})
    asked = rc.get("thread_level", "multiple") if rc.get("threads", True) else "single"
    return _LEVELS.get(asked, _LEVELS["multiple"])


def Get_hw_resource_info() -> Info:
    """Return what kinds of hardware `Comm.Split_type` knows, and whether the rank is confined to one of each.

    A simulated rank is confined to its host, which is what ranks with shared memory have in common.
    """
    return Info.Create({"mpi_shared_memory": "true"})


def Pcontrol(level: int) -> None:
    """Nothing to do: there is no profiler to control."""
    if level < 0:
        raise make_error(13, f"level={level}: a level of profiling is 0 or more")


def Get_abi_version() -> tuple[int, int]:
    """Version of MPI's binary interface; there is no such version, as there is no library to link with."""
    return -1, -1


def Get_abi_info() -> Info:
    """Return the sizes in bytes of MPI's integers."""
    return Info.Create({f"mpi_{name}_size": "8" for name in ("aint", "count", "offset")})


def Get_abi_fortran_info() -> Info:
    """Return INFO_NULL: nothing is known of a Fortran compiler."""
    return Info()


#: name in the module -> function
ENVIRONMENT: dict[str, object] = {
    function.__name__: function
    for function in (
        *(
            Wtime,
            Wtick,
            Get_processor_name,
            Get_version,
            Get_library_version,
        ),
        *(
            get_vendor,
            Init,
            Init_thread,
            Finalize,
            Is_initialized,
            Is_finalized,
            Is_thread_main,
            Query_thread,
            Pcontrol,
            Get_hw_resource_info,
            Get_abi_version,
            Get_abi_info,
            Get_abi_fortran_info,
        ),
    )
}
