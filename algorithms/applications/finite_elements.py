"""Heat in a pump by finite elements, as XNS does for blood: values go from nodes to elements and back.

The pump is a pipe with an axle, a mesh of hexahedra. Its elements, in the order of a space-filling curve,
are dealt to the ranks in equal pieces; a node belongs to the rank of its first element. A step of implicit
Euler is a linear system, solved by conjugate gradients: for a product, each element's rank gets the values
of its nodes (*scatter*), multiplies by the element's matrix, and returns sums to the nodes' ranks (*gather*).

Cost of an iteration, for E elements on p ranks::

    scatter, gather   about (E / p)^(2/3) values each, to and from the ranks that touch a rank's elements;
                      with ``every=True`` a message to every rank, most of them empty, as XNS did at first
    sums              two allreduces of 8 bytes
    arithmetic        150 E / p operations

Requires: nothing. Any p; ranks beyond the elements have nothing to compute.

Properties
    Heat is conserved up to the residual. The pieces are equal; how many ranks touch one hardly grows with p.

Reference
    B. Wylie, M. Geimer, M. Nicolai, M. Probst: Performance analysis and tuning of the XNS CFD solver on Blue
    Gene/L. EuroPVM/MPI 2007, doi:10.1007/978-3-540-75416-9_20.
    G. M. Morton: A computer oriented geodetic data base. IBM, 1966 (the curve).

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.finite_elements import finite_elements
>>> one, *_ = lk.run(finite_elements, 4, on="star:4", args=("T",)).results
>>> abs(one.heat - one.heat_at_begin) < 1e-9 * one.heat
True
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, room, work
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "ELEMENT", "SIZES", "STEP", "Heated", "cost", "finite_elements", "mesh"]

Field = NDArray[np.float64]
Ints = NDArray[np.int64]

#: elements across the pipe and along it, time steps, iterations of a step; T is for tests
SIZES = {"T": (6, 4, 2, 40), "4k": (16, 24, 5, 20), "150k": (48, 96, 5, 20), "600k": (80, 128, 5, 20)}

#: the axle's radius, of the pipe's
_AXLE = 0.3

#: a time step, in units of what heat takes to cross an element
STEP = 1.0

#: operations of an element, and the share of a core's peak (assumed)
_OPERATIONS, _SHARE = 150.0, 0.15

_LINE, _MASS = np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[2.0, 1.0], [1.0, 2.0]]) / 6
#: what heat conduction does with the values of an element's eight nodes
ELEMENT = sum(
    np.kron(np.kron(*(_LINE if k == axis else _MASS for k in (0, 1))), _LINE if axis == 2 else _MASS)
    for axis in range(3)
)


_NONE = np.empty(0, np.int64)


class Heated(NamedTuple):
    """The solution.

    Attributes
    ----------
    nodes : ndarray of int
        This rank's nodes.
    values : ndarray
        Their temperatures.
    heat, heat_at_begin : float
        Over all ranks.
    residual : float
        Of the last system, by its norm.
    partners : int
        Ranks that this one exchanges values with.
    """

    nodes: Ints
    values: Field
    heat: float
    heat_at_begin: float
    residual: float
    partners: int


@functools.cache
def mesh(across: int, along: int) -> tuple[Ints, Ints]:
    """Return the nodes of all elements, in the order of the curve, and the elements of all nodes.

    Returns
    -------
    nodes : ndarray of int, shape (elements, 8)
    elements : ndarray of int, shape (nodes, 8)
        In their order; -1 from where there are no more.
    """
    middle = (np.arange(across) + 0.5) / across * 2 - 1
    radius = np.hypot(*np.meshgrid(middle, middle))
    cells = np.argwhere(np.repeat(((radius > _AXLE) & (radius < 1))[..., None], along, axis=2))
    bits = range(int(max(across, along)).bit_length())
    key = sum(((cells[:, axis] >> b) & 1) << (3 * b + 2 - axis) for b in bits for axis in range(3))
    cells = cells[np.argsort(key)]
    corners = cells[:, None] + np.array(list(itertools.product((0, 1), repeat=3)))
    numbers = (corners[..., 0] * (across + 1) + corners[..., 1]) * (along + 1) + corners[..., 2]
    found, nodes = np.unique(numbers, return_inverse=True)
    nodes = nodes.reshape(-1, 8)
    order = np.argsort(nodes, axis=None, kind="stable")
    node = nodes.ravel()[order]
    place = np.arange(len(node)) - np.searchsorted(node, node)
    elements = np.full((len(found), 8), -1)
    elements[node, place] = order // 8
    nodes.flags.writeable = elements.flags.writeable = False
    return nodes, elements


def finite_elements(
    comm: Intracomm,
    size: str = "4k",
    *,
    every: bool = False,
    charged: bool = False,
    steps: int | None = None,
    iterations: int | None = None,
) -> Heated:
    """Conduct heat in a pump, some of whose nodes are hot at the begin.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    size : str
        A class of `SIZES`.
    every : bool
        Exchange messages with every rank, empty ones with those that share no node.
    charged : bool
        Charge the arithmetic instead of doing it; the result then has no numbers.
    steps, iterations : int, optional
        Time steps, and iterations of each, instead of those of the class.

    Returns
    -------
    Heated

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    across, along, usual_steps, usual = class_of(SIZES, size, "finite_elements")
    steps, iterations = (
        at_least_one("steps", steps, usual_steps),
        at_least_one("iterations", iterations, usual),
    )
    piece = _Piece(comm, mesh(across, along), every, charged)
    values = (piece.local % 5 < 2).astype(float)
    before, residual = piece.sum(piece.weights * values), 0.0
    for _ in range(steps):
        residual = piece.step(values, iterations)
    after = piece.sum(piece.weights * values)
    owned = np.flatnonzero(piece.is_own)
    return Heated(piece.local[owned], values[owned], after, before, residual, len({*piece.give, *piece.take}))


class _Piece:
    """A rank's elements, the nodes that they touch, and who else touches these."""

    def __init__(self, comm: Intracomm, whole: tuple[Ints, Ints], every: bool, charged: bool) -> None:
        nodes, elements = whole
        cuts = offsets(len(nodes), comm.size)
        mine = nodes[cuts[comm.rank] : cuts[comm.rank + 1]]
        self.comm, self.every, self.charged = comm, every, charged
        self.local, index = np.unique(mine, return_inverse=True)
        self.index = index.reshape(-1, 8)
        touching = elements[self.local]
        ranks = np.searchsorted(cuts, touching, "right") - 1  # -1 where there is no element
        self.is_own = ranks[:, 0] == comm.rank
        self.take = {int(q): np.flatnonzero(ranks[:, 0] == q) for q in np.unique(ranks[~self.is_own, 0])}
        self.give = {
            int(q): np.flatnonzero(self.is_own & (ranks == q).any(axis=1))
            for q in np.unique(ranks[self.is_own])
            if q not in (-1, comm.rank)
        }
        self.weights = (touching >= 0).sum(axis=1) / 8.0  # lumped masses

    def sum(self, values: Field) -> float:
        """Add up what the ranks' own nodes have."""
        mine = 0.0 if self.charged else float(values[self.is_own].sum())
        with phase("sums"):
            return float(self.comm.allreduce(mine))

    def swap(self, values: Field, send: dict[int, Ints], receive: dict[int, Ints], is_sum: bool) -> None:
        """Send values of some nodes to other ranks, and take or add what they send."""
        from labkit import MPI

        size, rank = self.comm.size, self.comm.rank
        for away in range(1, size):
            to, source = (rank + away) % size, (rank - away) % size
            sends, receives = self.every or to in send, self.every or source in receive
            if not (sends or receives):
                continue
            out, into = send.get(to, _NONE), receive.get(source, _NONE)
            mine = room(len(out), True) if self.charged else values[out]
            theirs = room(len(into), self.charged)
            self.comm.Sendrecv(
                mine,
                to if sends else MPI.PROC_NULL,
                recvbuf=theirs,
                source=source if receives else MPI.PROC_NULL,
            )
            if not self.charged and len(into):
                values[into] = values[into] + theirs if is_sum else theirs

    def product(self, values: Field) -> Field:
        """Return (M + step K) x; `values` get those of other ranks' nodes."""
        with phase("scatter"):
            self.swap(values, self.give, self.take, is_sum=False)
        found = np.zeros(len(self.local))
        with phase("elements"):
            work(_OPERATIONS * len(self.index), _SHARE)
            if not self.charged:
                np.add.at(found, self.index, values[self.index] @ (STEP * ELEMENT))
        with phase("gather"):
            self.swap(found, self.take, self.give, is_sum=True)
        return np.asarray(found + self.weights * values)

    def step(self, values: Field, iterations: int) -> float:
        """Solve (M + step K) x = M x0 by conjugate gradients, from x0; return the norm of what is left."""
        left = self.weights * values - self.product(values)
        along = left.copy()
        norm = self.sum(left * left)
        for _ in range(iterations):
            image = self.product(along)
            share = self.sum(along * image)
            if share > 0:
                values += norm / share * along
                left -= norm / share * image
            last, norm = norm, self.sum(left * left)
            if last > 0:
                along *= norm / last
                along += left
        return float(np.sqrt(norm))


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of an iteration, for a rank that has `n_bytes` of elements' nodes."""
    surface = (n_bytes / 64) ** (2 / 3)
    partners = min(ranks - 1, 26)
    return Cost(2 * partners + 2 * ceil_log2(ranks), 2 * 6 * 8 * surface)


ALGORITHM = Algorithm("finite_elements", "applications", function=finite_elements, cost=cost)
