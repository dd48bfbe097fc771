"""The simulated `labkit.MPI`, put together from the parts of this package."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from labkit import _kernels
from labkit.comm import addresses, buffers, general, matched, names
from labkit.comm.addresses import MEMORY
from labkit.comm.arguments import convert_functions, convert_methods
from labkit.comm.buffering import BUFFERING
from labkit.comm.collective.prequest import Prequest
from labkit.comm.communicator import COMM_NULL, COMM_SELF, COMM_WORLD, Comm, Intracomm
from labkit.comm.environment import ENVIRONMENT
from labkit.comm.errorfunctions import ERROR_FUNCTIONS
from labkit.comm.files.file import FILE_NULL, File
from labkit.comm.handles import datatypes, exceptions, packing, status
from labkit.comm.handles.base import MODULE_NAME, MissingError, refuse
from labkit.comm.handles.constants import CONSTANTS
from labkit.comm.handles.errhandlers import ERRHANDLERS, Errhandler
from labkit.comm.handles.foreign import foreign_memory
from labkit.comm.handles.grequest import Grequest
from labkit.comm.handles.groups import GROUP_EMPTY, GROUP_NULL, Group
from labkit.comm.handles.info import INFO_ENV, INFO_NULL, Info
from labkit.comm.handles.operators import OPERATORS, Op
from labkit.comm.handles.sessions import SESSION_NULL, Session
from labkit.comm.handles.special import SPECIAL
from labkit.comm.handles.statusmemory import F_STATUS
from labkit.comm.inter.intercomm import Intercomm
from labkit.comm.inter.ports import PORTS
from labkit.comm.pickling import Pickle, pickle
from labkit.comm.private import PRIVATE
from labkit.comm.rank_module import RankModule
from labkit.comm.rma.window import WIN_NULL, Win
from labkit.comm.topology.graphs import SPECIAL_WEIGHTS
from labkit.comm.topology.grid import Compute_dims
from labkit.comm.topology.topologies import Cartcomm, Distgraphcomm, Graphcomm, Topocomm

__all__ = ["simulated_module"]

_CLASSES = (
    *(
        Comm,
        Intracomm,
        Topocomm,
        Cartcomm,
        Graphcomm,
        Distgraphcomm,
        Intercomm,
        Group,
        datatypes.Datatype,
        Op,
        status.Request,
        Prequest,
        Grequest,
        Info,
        Session,
        Errhandler,
        Win,
        File,
        status.Status,
        matched.Message,
    ),
    *(exceptions.Exception, Pickle),
)


class SimulatedModule(RankModule):
    """A module that says which names of mpi4py.MPI it does not simulate yet."""

    def __getattr__(self, name: str) -> Any:
        if name == "__pyx_capi__":  # what compiled code looks for first
            raise MissingError(
                "an extension compiled against mpi4py's C interface calls an MPI library, and a simulated "
                "run has none; run on real MPI (--on mpi)"
            )
        raise refuse("MPI", name, names.MODULE)

    def __reduce__(self) -> Any:
        return importlib.import_module, (MODULE_NAME,)

    def __dir__(self) -> list[str]:
        return sorted(name for name in self.__dict__ if not name.startswith("_"))


def _build() -> SimulatedModule:
    module = SimulatedModule(MODULE_NAME, "mpi4py.MPI's interface on a simulated machine.")
    module.__dict__.update(CONSTANTS)
    module.__dict__.update(F_STATUS)
    module.__dict__.update(datatypes.DATATYPES)
    module.__dict__.update(OPERATORS)
    module.__dict__.update(ENVIRONMENT)
    module.__dict__.update(ERROR_FUNCTIONS)
    module.__dict__.update(MEMORY)
    module.__dict__.update(BUFFERING)
    module.__dict__.update(PRIVATE)
    module.__dict__.update(PORTS)
    module.__dict__.update(SPECIAL)
    module.__dict__.update(SPECIAL_WEIGHTS)
    module.__dict__.update(ERRHANDLERS)
    module.__dict__.update({cls.__name__: cls for cls in _CLASSES})
    module.__dict__.update(
        COMM_WORLD=COMM_WORLD,
        COMM_SELF=COMM_SELF,
        COMM_NULL=COMM_NULL,
        GROUP_EMPTY=GROUP_EMPTY,
        GROUP_NULL=GROUP_NULL,
        Compute_dims=Compute_dims,
        INFO_NULL=INFO_NULL,
        INFO_ENV=INFO_ENV,
        SESSION_NULL=SESSION_NULL,
        WIN_NULL=WIN_NULL,
        FILE_NULL=FILE_NULL,
        REQUEST_NULL=status.REQUEST_NULL,
        MESSAGE_NULL=matched.MESSAGE_NULL,
        MESSAGE_NO_PROC=matched.MESSAGE_NO_PROC,
        pickle=pickle,
        _datatype_create=datatypes._datatype_create,
        __file__=__file__,
    )
    functions = (*ENVIRONMENT.values(), *ERROR_FUNCTIONS.values(), Compute_dims)
    functions = (*functions, *(value for name, value in BUFFERING.items() if name.endswith("_buffer")))
    functions = (*functions, *PORTS.values(), addresses.Alloc_mem, addresses.Free_mem)
    for function in (*functions, addresses.Get_address, addresses.Aint_add, addresses.Aint_diff):
        function.__module__ = MODULE_NAME
    return module


def _register() -> None:
    _kernels.register_python_side(
        {
            "request_type": status.Request,
            "status_type": status.Status,
            "message_type": matched.Message,
            "message_no_proc": matched.MESSAGE_NO_PROC,
            "make_error": exceptions.make_error,
            "make_outside": exceptions.make_outside,
            "make_ended": exceptions.make_ended,
            "owner_of_thread": exceptions.find_owner_of_thread,
            "parse_buffer": buffers.parse_buffer,
            "unpacked": packing.unpacked,
            "find_format": datatypes.find_format,
            "datatypes": tuple(datatypes.DATATYPES.values()),
            "in_place": SPECIAL["IN_PLACE"],
            "foreign_memory": foreign_memory,
        }
    )


_module: SimulatedModule | None = None


def simulated_module() -> SimulatedModule:
    """Return the simulated module; the same one every time."""
    global _module
    if _module is None:
        _register()
        general.complete()
        classes = {cls.__name__: cls for cls in _CLASSES}
        convert_methods(classes)
        _module = _build()
        convert_functions(_module.__dict__, classes)
        sys.modules.setdefault(MODULE_NAME, _module)
    return _module
