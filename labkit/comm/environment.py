"""Calls about the run as a whole: clock, names, start and end."""

from __future__ import annotations

from typing import Any, NoReturn

from labkit import _kernels
from labkit.comm.handles.constants import ERROR_TEXTS
from labkit.comm.handles.exceptions import make_outside

__all__ = ["ENVIRONMENT", "AbortError", "abort"]


class AbortError(BaseException):
    """A rank called Abort.

    Attributes
    ----------
    code : int
    """

    def __init__(self, code: int) -> None:
        super().__init__(f"MPI_Abort({code})")
        self.code = code


def abort(errorcode: int = 0) -> NoReturn:
    """End the whole run with an error code."""
    raise AbortError(int(errorcode))


def _hub(name: str) -> Any:
    hub = _kernels.active_hub()
    if hub is None:
        raise make_outside(name)
    return hub


def Wtime() -> float:
    """Simulated time in seconds since the start of the run, at the running rank."""
    return float(_hub("Wtime").wtime())


def Wtick() -> float:
    """Resolution of `Wtime` in seconds."""
    return 1e-9


def Get_processor_name() -> str:
    """Name of the simulated host."""
    rank = _kernels.current_rank()
    return f"host-{_hub('Get_processor_name').host(rank)}" if rank >= 0 else "host-0"


def Get_version() -> tuple[int, int]:
    """Version of the MPI standard whose names and semantics are simulated."""
    return 4, 1


def Get_library_version() -> str:
    """Describe the library."""
    from labkit import __version__

    return f"labkit {__version__} (simulated)"


def Get_error_class(errorcode: int) -> int:
    """Error class of an error code."""
    return errorcode if errorcode in ERROR_TEXTS else 14


def Get_error_string(errorcode: int) -> str:
    """MPI's words for an error code."""
    return ERROR_TEXTS.get(errorcode, ERROR_TEXTS[14])


def get_vendor() -> tuple[str, tuple[int, int, int]]:
    """Name and version of the implementation."""
    return "labkit", (0, 1, 0)


def _always(value: Any, text: str) -> Any:
    def call() -> Any:
        return value

    call.__doc__ = text
    return call


def Init() -> None:
    """Nothing to do: the simulated MPI is always initialised."""


def Init_thread(required: int = 3) -> int:
    """Nothing to do; the thread level provided is THREAD_FUNNELED."""
    return min(required, 1)


def Finalize() -> None:
    """Nothing to do: the end of the program is the end of its communication."""


def Attach_buffer(buf: Any) -> None:
    """Nothing to do: buffered sends are kept by the simulator."""


def Detach_buffer() -> None:
    """Nothing to do: see `Attach_buffer`."""


def Pcontrol(level: int) -> None:
    """Nothing to do: there is no profiler to control."""


def Alloc_mem(size: int, info: Any = None) -> bytearray:
    """Return memory of so many bytes."""
    return bytearray(size)


def Free_mem(mem: Any) -> None:
    """Nothing to do: Python frees it."""


#: name in the module -> function
ENVIRONMENT: dict[str, Any] = {
    function.__name__: function
    for function in (
        *(
            Wtime,
            Wtick,
            Get_processor_name,
            Get_version,
            Get_library_version,
            Get_error_class,
            Get_error_string,
        ),
        *(
            get_vendor,
            Init,
            Init_thread,
            Finalize,
            Attach_buffer,
            Detach_buffer,
            Pcontrol,
            Alloc_mem,
            Free_mem,
        ),
    )
} | {
    "Is_initialized": _always(True, "Whether MPI is initialised: always."),
    "Is_finalized": _always(False, "Whether MPI is finalised: never while a program runs."),
    "Is_thread_main": _always(True, "Whether this is the main thread of the rank."),
    "Query_thread": _always(1, "THREAD_FUNNELED."),
}
