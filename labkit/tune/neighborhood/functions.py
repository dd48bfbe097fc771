"""The function set of an exchange with neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.real.collectives.messages import mpi_of
from labkit.selector import Situation
from labkit.tune.neighborhood.forms import FORMS, Exchange, codelet_of
from labkit.tune.neighborhood.pattern import graph_pattern, grid_pattern
from labkit.tune.runtime.codelets import FunctionSet
from labkit.tune.runtime.world import most_of

__all__ = ["neighborhood_set"]


def neighborhood_set(
    comm: Any, arrays: Sequence[NDArray[Any]], width: int = 1, send: Sequence[Any] | None = None,
    recv: Sequence[Any] | None = None, forms: Sequence[str] | None = None,
) -> FunctionSet:  # fmt: skip
    """Return the forms of an exchange of arrays' regions; see `labkit.tune.entrance.Tune.neighborhood`.

    Raises
    ------
    DataError
        Arrays that differ, are not contiguous or not there; regions or a grid that they do not fit; a form
        that is not known.
    """
    mpi = mpi_of(comm)
    if not isinstance(comm, mpi.Topocomm):
        raise DataError(
            "an exchange with neighbours takes a communicator with a topology: comm.Create_cart(...) or "
            f"comm.Create_dist_graph_adjacent(...); got a {type(comm).__name__}"
        )
    is_grid = isinstance(comm, mpi.Cartcomm)
    _check(arrays)
    shape = tuple(int(n) for n in arrays[0].shape)
    if isinstance(width, bool) or not isinstance(width, int) or width < 1:
        raise DataError(f"width is a whole number of cells from 1 on, got {width!r}")
    if (send is None) != (recv is None):
        raise DataError("send= and recv= are given both, or none: regions for each neighbour")
    if send is None or recv is None:
        if not is_grid:
            raise DataError(
                "on a graph the regions are not known: give send=[slices, ...] and recv=[slices, ...], one "
                "for each outgoing and incoming edge"
            )
        pattern = grid_pattern(comm, shape, width)
    else:
        pattern = graph_pattern(comm, shape, send, recv)
    names = list(FORMS) if forms is None else list(forms)
    unknown = [name for name in names if name not in FORMS]
    if unknown:
        raise DataError(f"there is no form {unknown[0]!r}; there are: {', '.join(FORMS)}")
    sent = sum(part.region.count for part in pattern.sends) * arrays[0].itemsize
    n_bytes = most_of(comm, [float(sent)])[0]
    at = Situation("neighborhood", int(comm.Get_size()), n_bytes)
    create = mpi.Win.Create
    exchanges = [Exchange(comm, array, pattern, create(array, 1, comm=comm)) for array in arrays]

    def exchange_of(array: Any = None) -> Exchange:
        if array is None and len(exchanges) == 1:
            return exchanges[0]
        for exchange in exchanges:
            if exchange.array is array:
                return exchange
        known = "the array" if len(exchanges) == 1 else f"one of the {len(exchanges)} arrays"
        raise DataError(
            f"this exchange takes {known} that it was made with: lk.tune.neighborhood(comm, array)"
        )

    def free() -> None:
        for exchange in exchanges:
            exchange.free()

    rings = zip(comm.dims, comm.periods, strict=True) if is_grid else ()
    has_short_rings = any(is_ring and n < 3 for n, is_ring in rings)
    codelets = [codelet_of(name, exchange_of, has_short_rings) for name in names]
    return FunctionSet("neighborhood", codelets, lambda *_: at, free)


def _check(arrays: Sequence[Any]) -> None:
    if not arrays:
        raise DataError("an exchange takes at least one array, with its halos: neighborhood(comm, array)")
    for array in arrays:
        if not isinstance(array, np.ndarray) or not array.flags.c_contiguous or not array.flags.writeable:
            raise DataError(
                "an exchange takes NumPy arrays that are contiguous (in C order) and can be written; got "
                f"{type(array).__name__}"
            )
        if array.shape != arrays[0].shape or array.dtype != arrays[0].dtype:
            raise DataError(
                f"the arrays of an exchange are alike; got {arrays[0].shape} of {arrays[0].dtype} and "
                f"{array.shape} of {array.dtype}"
            )
