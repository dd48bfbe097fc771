"""The states of a finite automaton along a distributed text: a scan whose operator composes functions.

The state before a block depends on all characters before it. But each rank can find, for *every* state, where
its block leads from there: a function from states to states. Functions compose associatively, so an exclusive
scan of them gives the function of all blocks before; from the start state that is one state, and each rank
then runs the automaton from there.

Cost, for n characters on p ranks and s states::

    maps        s n / p steps of the automaton on a rank: the price of not knowing where to begin
    scan        log p messages of 8 s bytes
    run         n / p steps

Requires: nothing. Any p, any number of characters on a rank.

Properties
    The operator is associative and does not commute. With many states the maps take longer than the run.

Reference
    W. D. Hillis, G. L. Steele: Data parallel algorithms. Communications of the ACM 29 (1986),
    doi:10.1145/7902.7903. R. E. Ladner, M. J. Fischer: Parallel prefix computation. Journal of the ACM 27
    (1980), doi:10.1145/322217.322232.

Examples
--------
Which characters are inside quotation marks?

>>> import labkit as lk, numpy as np
>>> from labkit.algorithms.prefix.lexing import lexing
>>> quotes = np.zeros((2, 128), int)
>>> quotes[1] = 1
>>> quotes[:, ord('"')] = 1, 0
>>> def program(comm):
...     text = ['say "a', ' b", no'][comm.rank]
...     return lexing(comm, np.frombuffer(text.encode(), np.uint8), quotes).tolist()
>>> lk.run(program, 2, on="star:2").results
[[0, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0, 0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from labkit.errors import DataError
from labkit.program.context import compute, phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "cost", "lexing"]

States = NDArray[np.int64]


def lexing(comm: Intracomm, symbols: ArrayLike, table: ArrayLike, start: int = 0) -> States:
    """Return the state of an automaton after each of this rank's characters.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    symbols : array_like of int, shape (n_local,)
        This rank's part of the text: columns of the table.
    table : array_like of int, shape (states, n_symbols)
        ``table[state, symbol]`` is the next state; the same on all ranks.
    start : int
        The state before the first character of rank 0.

    Returns
    -------
    ndarray of int64, shape (n_local,)

    Raises
    ------
    DataError
        If the table, the start or a symbol is outside.
    """
    rows, text = np.asarray(table), np.asarray(symbols, np.int64)
    if rows.ndim != 2 or not rows.size or not 0 <= rows.min() <= rows.max() < len(rows):
        raise DataError(
            f"table must have states 0 to s - 1 in s rows, got shape {rows.shape}", code="count-mismatch"
        )
    if not 0 <= start < len(rows):
        raise DataError(f"start must be a state from 0 to {len(rows) - 1}, got {start}", code="out-of-range")
    if text.ndim != 1 or (text.size and not 0 <= text.min() <= text.max() < rows.shape[1]):
        raise DataError(f"symbols must be 0 to {rows.shape[1] - 1} in one dimension", code="out-of-range")
    with phase("maps"):
        compute(flops=float(len(text) * len(rows)))
        mine = np.arange(len(rows))
        for symbol in text:
            mine = rows[mine, symbol]
    with phase("scan"):
        before = comm.exscan(mine, op=_then)
    with phase("run"):
        compute(flops=float(len(text)))
        state = start if comm.rank == 0 else int(before[start])
        states = np.empty(len(text), np.int64)
        for place, symbol in enumerate(text):
            state = states[place] = rows[state, symbol]
    return states


def _then(first: States, second: States) -> States:
    """Return the function that applies the first one, then the second one."""
    return second[first]


def cost(ranks: int, n_bytes: float, states: int = 2) -> Cost:
    """Bound the messages and bytes of a rank; those of its text stay where they are."""
    return Cost(ceil_log2(ranks), 2 * 8 * states * ceil_log2(ranks), is_bound=True)


ALGORITHM = Algorithm(
    "lexing",
    "prefix",
    function=lexing,
    cost=cost,
    expectations={"maps": "1", "scan": "log p", "run": "1", "": "log p"},
)
