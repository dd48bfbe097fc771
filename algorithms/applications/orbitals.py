"""Electronic structure as in BigDFT: orbitals are whole for one half of a step, cut up for the other.

The Hamiltonian acts on one orbital at a time, so a rank has whole orbitals. To make them orthogonal,
products of all pairs are needed, so then a rank has a part of every orbital. Each step filters the
orbitals, transposes them, solves the small eigenvalue problem in their space, rotates them, transposes
them back, and collects their density, from which the next step's potential follows.

Cost of a step, for m orbitals of n numbers on p ranks::

    filter      90 m n / p operations
    transpose   3 alltoallvs of m n / p numbers
    overlap     4 m^2 n / p operations; an allreduce of 2 m^2 numbers
    rotate      2 m^2 n / p operations, and 25 m^3 on every rank
    density     a reduce-scatter and an allgather of n numbers

Requires: nothing. Any p; ranks beyond m have no orbital, but a part of all of them.

Properties
    All data cross the machine three times in a step, and every rank solves the small eigenvalue problem: both
    limit the speedup.

Reference
    L. Genovese, A. Neelov, S. Goedecker et al.: Daubechies wavelets as a basis set for density functional
    pseudopotential calculations. J. Chemical Physics 129 (2008), doi:10.1063/1.2949547. Here orbitals are
    values on a cube's points, not wavelets. The filter: Y. Zhou, Y. Saad, M. Tiago, J. Chelikowsky:
    Self-consistent-field calculations using Chebyshev-filtered subspace iteration. J. Computational Physics
    219 (2006), doi:10.1016/j.jcp.2006.03.017.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.orbitals import orbitals
>>> run = lk.run(orbitals, 4, on="star:4", args=("T",))
>>> [round(float(one), 6) for one in run.results[0].energies[:2]]
[0.297093, 0.574572]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, randoms, room, work
from labkit.datasets.matrices import offsets
from labkit.errors import DataError
from labkit.program.context import phase
from labkit.program.sized import is_sized, sized
from labkit.registry import Algorithm, Cost
from labkit.schedule.doubling import ceil_log2

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "SIZES", "States", "cost", "orbitals"]

Block = NDArray[np.float64]


class Size(NamedTuple):
    """A class: points along an edge, orbitals, steps."""

    points: int
    orbitals: int
    steps: int


#: the classes; T is for tests
SIZES = {"T": Size(6, 8, 12), "small": Size(64, 128, 10), "large": Size(128, 512, 10)}

#: of the Chebyshev polynomial that filters
_DEGREE = 8
_SEED = 314159265

#: shares of a core's peak: of stencils, which wait for memory, and of products of matrices (assumed)
_STENCIL_SHARE, _MATRIX_SHARE = 0.2, 0.8


class States(NamedTuple):
    """The lowest states.

    Attributes
    ----------
    energies : ndarray, shape (m,)
        Rising; the upper ones are those that the filter has not separated yet.
    orbitals : ndarray, shape (a, n)
        This rank's orbitals, a row each.
    """

    energies: Block
    orbitals: Block


def orbitals(
    comm: Intracomm,
    size: str = "small",
    *,
    repulsion: float = 0.0,
    charged: bool = False,
    steps: int | None = None,
) -> States:
    """Compute the lowest states of particles in a box.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    size : str
        A class of `SIZES`.
    repulsion : float
        The potential is this times the density of the lower half of the orbitals; without it the energies
        are those of the box, sums of three 1 - cos(k pi / (n + 1)).
    charged : bool
        Charge the arithmetic instead of doing it; the result is then 0.
    steps : int, optional
        Steps, instead of those of the class.

    Returns
    -------
    States

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    edge, m, most = class_of(SIZES, size, "orbitals")
    most = at_least_one("steps", steps, most)
    if not 0 <= repulsion < np.inf:
        raise DataError(f"repulsion must be a number from 0 on, got {repulsion!r}", code="out-of-range")
    n, p, rank = edge**3, comm.size, comm.rank
    rows, columns = np.diff(offsets(m, p)), np.diff(offsets(n, p))
    mine, energies = int(rows[rank]), np.zeros(m)
    potential = np.zeros(1 if charged else n)
    psi = sized(mine * n, float) if charged else np.empty(0)
    if not charged:
        psi = randoms(_SEED, int(offsets(m, p)[rank]) * n, mine * n).reshape(mine, n) - 0.5
    highest, lowest = 6.0 + repulsion, 0.0
    for step in range(most):
        with phase("filter"):
            work(10.0 * (_DEGREE + 1) * mine * n, _STENCIL_SHARE)
            h_psi = psi
            if not charged:
                if step:  # damp what is above the states of interest
                    psi = _filtered(psi, potential, edge, lowest, highest)
                h_psi = _hamiltonian(psi, potential, edge)
        parts = [_transpose(comm, one, rows, columns) for one in (psi, h_psi)]
        with phase("overlap"):
            work(4.0 * m * m * int(columns[rank]), _MATRIX_SHARE)
            both = np.zeros((2, m, m))
            if charged:
                comm.Allreduce(sized(both.size, float), sized(both.size, float))
            else:
                comm.Allreduce(np.array([parts[0] @ one.T for one in parts]), both)
        with phase("rotate"):
            work(2.0 * m * m * int(columns[rank]) + 25.0 * m**3, _MATRIX_SHARE)
            whole = parts[0]
            if not charged:
                energies, mix = _eigen(both[1], both[0])
                lowest = float(energies[-1])
                whole = mix.T @ whole
        psi = _transpose(comm, whole, rows, columns, back=True)
        with phase("density"):
            density = sized(n, float) if charged else _density(psi, offsets(m, p)[rank], m // 2)
            part = room(int(columns[rank]), charged)
            comm.Reduce_scatter(density, part, columns.tolist())
            total = sized(n, float) if charged else potential
            comm.Allgatherv(part if charged else repulsion * part, [total, columns])
    return States(energies, psi)


def _eigen(hamiltonian: Block, overlap: Block) -> tuple[Block, Block]:
    """Return energies and the rotation that makes the orbitals orthogonal; equal on all ranks."""
    inverse = np.linalg.inv(np.linalg.cholesky(overlap))
    energies, mix = np.linalg.eigh(inverse @ (hamiltonian + hamiltonian.T) / 2 @ inverse.T)
    return energies, inverse.T @ mix


def _hamiltonian(psi: Block, potential: Block, edge: int) -> Block:
    """Return H psi: half the negative Laplacian of six neighbors, zero outside the box, and the potential."""
    cube = np.pad(psi.reshape(-1, edge, edge, edge), ((0, 0), (1, 1), (1, 1), (1, 1)))
    inner = slice(1, -1)
    near = cube[:, 2:, inner, inner] + cube[:, :-2, inner, inner] + cube[:, inner, 2:, inner]
    near = near + cube[:, inner, :-2, inner] + cube[:, inner, inner, 2:] + cube[:, inner, inner, :-2]
    return (3.0 + potential) * psi - near.reshape(psi.shape) / 2


def _filtered(psi: Block, potential: Block, edge: int, low: float, high: float) -> Block:
    """Apply the Chebyshev polynomial that is small between `low` and `high` and large below."""
    middle, half = (high + low) / 2, (high - low) / 2
    last, now = psi, (_hamiltonian(psi, potential, edge) - middle * psi) / half
    for _ in range(_DEGREE - 1):
        last, now = now, 2 / half * (_hamiltonian(now, potential, edge) - middle * now) - last
    return np.asarray(now / np.linalg.norm(now, axis=1, keepdims=True), np.float64)


def _transpose(comm: Intracomm, block: Block, rows: Any, columns: Any, back: bool = False) -> Block:
    """Exchange whole orbitals (some rows, all columns) for parts of all of them, or back."""
    with phase("transpose"):
        cut, whole = (columns, rows) if not back else (rows, columns)
        going, coming = cut * int(whole[comm.rank]), whole * int(cut[comm.rank])
        n = int(coming.sum())
        found = room(n, is_sized(block))
        if is_sized(block):
            comm.Alltoallv([block, going], [found, coming])
            return found
        pieces = np.split(block, np.cumsum(cut)[:-1], axis=0 if back else 1)
        comm.Alltoallv([np.concatenate([one.ravel() for one in pieces]), going], [found, coming])
        got = np.split(found, np.cumsum(coming)[:-1])
        mine = int(cut[comm.rank])
        shapes = [(mine, int(one)) if back else (int(one), mine) for one in whole]
        parts = [one.reshape(shape) for one, shape in zip(got, shapes, strict=True)]
        return np.concatenate(parts, axis=1 if back else 0)


def _density(psi: Block, first: int, occupied: int) -> Block:
    """Return the density of this rank's orbitals among the lower half."""
    some = psi[: max(0, occupied - int(first))]
    return np.asarray((some**2).sum(0), np.float64)


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step's transpositions, for a rank that has `n_bytes` of orbitals."""
    away = 1 - 1 / ranks
    return Cost(3 * (ranks - 1) + ceil_log2(ranks), 3 * n_bytes * away)


ALGORITHM = Algorithm("orbitals", "applications", function=orbitals, cost=cost)
