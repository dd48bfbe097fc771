"""Constants, datatypes and operators as mpi4py has them."""

from __future__ import annotations

import numpy as np

from labkit import MPI
from tests.support.same import Table

CASES = Table(ranks=(1, 2, 4))
case = CASES.case


@case
def constants(comm):
    yield "signs", lambda: [getattr(MPI, n) < 0 for n in ("ANY_SOURCE", "ANY_TAG", "PROC_NULL", "UNDEFINED")]
    yield "differ", lambda: len({MPI.ANY_SOURCE, MPI.PROC_NULL, MPI.ROOT}) == 3
    yield (
        "sizes",
        lambda: [t.Get_size() for t in (MPI.INT, MPI.DOUBLE, MPI.BYTE, MPI.LONG, MPI.DOUBLE_INT, MPI.BOOL)],
    )
    yield "extents", lambda: [t.Get_extent() for t in (MPI.INT, MPI.DOUBLE_INT, MPI.INT_INT)]
    yield "names", lambda: [t.Get_name() for t in (MPI.INT, MPI.DOUBLE, MPI.BYTE)]
    yield (
        "operators",
        lambda: [op(3, 5) for op in (MPI.SUM, MPI.PROD, MPI.MAX, MPI.MIN, MPI.BAND, MPI.BOR, MPI.BXOR)],
    )
    yield "logical", lambda: [op(3, 0) for op in (MPI.LAND, MPI.LOR, MPI.LXOR)]
    yield "pairs", lambda: (MPI.MAXLOC((1, 4), (1, 2)), MPI.MINLOC((1, 4), (2, 0)))
    yield "commutative", lambda: (MPI.SUM.Is_commutative(), MPI.SUM.is_predefined)
    yield "operators on arrays", lambda: MPI.MAX(np.array([1, 5]), np.array([4, 2]))
    for name in [name for name in dir(MPI) if name.startswith("ERR_") and name != "ERR_LASTCODE"]:
        if name not in ("ERR_ABI", "ERR_ERRHANDLER"):  # of a later MPI than Open MPI's
            yield f"text of {name}", lambda name=name: MPI.Get_error_string(getattr(MPI, name))
    yield "made of nothing", lambda: MPI.INT.Get_contents()
    yield "compare", lambda: (comm == MPI.COMM_NULL, comm == comm, bool(MPI.COMM_NULL), bool(comm))
    yield "null communicator", lambda: MPI.COMM_NULL.Get_rank()
    yield "self", lambda: (MPI.COMM_SELF.rank, MPI.COMM_SELF.size, MPI.COMM_SELF.allreduce(3))
    yield "group", lambda: (comm.Get_rank(), comm.Get_size(), comm.rank, comm.size)
    yield "initialized", lambda: (MPI.Is_initialized(), MPI.Is_finalized())
    yield "dtypes", lambda: [MPI.Datatype.fromcode(c).Get_size() for c in ("i", "d", "l")]
    yield "class of errors", lambda: issubclass(MPI.Exception, RuntimeError)
    yield "tags", lambda: comm.Get_attr(MPI.TAG_UB) >= 32767
    yield "reduce local", lambda: (b := np.arange(3.0), MPI.SUM.Reduce_local(np.ones(3), b))[0]
    yield "error text", lambda: isinstance(MPI.Get_error_string(MPI.ERR_RANK), str)
    yield "null source", lambda: MPI.ERR_RANK != MPI.ERR_TAG
