"""FT of the NAS Parallel Benchmarks: a diffusion equation on a cube, solved by Fourier transforms.

The random field is transformed once. Each step multiplies its modes by their decay, transforms them back
and adds up 1024 values. Transforms are those of pencils: a grid of ranks, two transpositions each.

Cost of a step, for n points on p = q^2 ranks::

    evolve      6 n / p operations
    transform   5 n log n / p operations
    transpose   2 (q - 1) messages of 16 n / (p q) bytes
    checksum    an allreduce of 16 bytes

Requires: nothing. Any p, but ranks beyond the grid's lines have nothing to do.

Properties
    Half or more of the time is in messages on a cluster: all data cross the machine twice in a step.

Reference
    D. Bailey et al.: The NAS Parallel Benchmarks. Int. J. Supercomputer Applications 5 (1991),
    doi:10.1177/109434209100500306; verification values: its program, version 3. Pencils:
    `labkit.algorithms.fft.pencil`.

Examples
--------
>>> import labkit as lk
>>> from labkit.algorithms.applications.ft import ft
>>> run = lk.run(ft, 4, on="star:4", args=("T",))
>>> print(f"{run.results[0][0]:.6f}")
502.246646+680.508630j
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.algorithms.applications._nas import at_least_one, class_of, randoms, work
from labkit.algorithms.fft.pencil import cost as transposes
from labkit.algorithms.fft.pencil import pencil
from labkit.datasets.matrices import offsets
from labkit.program.context import phase
from labkit.program.sized import sized
from labkit.registry import Algorithm, Cost

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["ALGORITHM", "SIZES", "VERIFIED", "cost", "ft"]

Block = NDArray[np.complex128]


class Size(NamedTuple):
    """A class: points along x, y and z, steps."""

    shape: tuple[int, int, int]
    steps: int


#: the classes; T is for tests
SIZES = {
    "T": Size((16, 8, 4), 3),
    "S": Size((64, 64, 64), 6),
    "W": Size((128, 128, 32), 6),
    "A": Size((256, 256, 128), 6),
    "B": Size((512, 256, 256), 20),
    "C": Size((512, 512, 512), 20),
}

#: the checksums that the benchmark accepts, within 1e-12
VERIFIED = {
    "S": [
        5.546087004964e2 + 4.845363331978e2j,
        5.546385409189e2 + 4.865304269511e2j,
        5.546148406171e2 + 4.883910722336e2j,
        5.545423607415e2 + 4.901273169046e2j,
        5.544255039624e2 + 4.917475857993e2j,
        5.542683411902e2 + 4.932597244941e2j,
    ]
}

_SEED = 314159265
_DIFFUSION = 1e-6
_VALUES = 1024


def ft(comm: Intracomm, size: str = "S", *, charged: bool = False, steps: int | None = None) -> list[complex]:
    """Solve the equation of a class.

    Parameters
    ----------
    comm : communicator
        mpi4py's, or a simulated one.
    size : str
        A class of `SIZES`.
    charged : bool
        Charge the arithmetic instead of doing it; the checksums are then 0.
    steps : int, optional
        Steps, instead of those of the class.

    Returns
    -------
    list of complex
        The checksum of each step, on every rank.

    Raises
    ------
    DataError
        If there is no such class, or a number is out of range.
    """
    from labkit import MPI

    (nx, ny, nz), most = class_of(SIZES, size, "ft")
    most = at_least_one("steps", steps, most)
    rows, columns = MPI.Compute_dims(comm.size, 2)
    i, j = divmod(comm.rank, columns)
    z, y, y_mode, x_mode = (
        _range(*of) for of in ((nz, rows, i), (ny, columns, j), (ny, rows, i), (nx, columns, j))
    )
    shape = (len(z), len(y), nx)
    field = sized(len(z) * len(y) * nx, np.complex128).reshape(shape) if charged else _field(z, y, (nx, ny))
    modes = pencil(comm, field, (nz, ny, nx))  # all of z, parts of y and x
    if not charged:
        squares = (
            _frequency(np.arange(nz), nz)[:, None, None]
            + _frequency(y_mode, ny)[:, None]
            + _frequency(x_mode, nx)
        )
        decay = np.exp(-4 * np.pi**2 * _DIFFUSION * squares)
    checksums = []
    for _ in range(most):
        with phase("evolve"):
            work(6.0 * modes.size, 1.0)
            if not charged:
                modes = modes * decay
        field = _inverse(comm, modes, (ny, nx, nz), charged)  # all of y, parts of x and z
        with phase("checksum"):
            mine = np.zeros(1, complex) if charged else _checksum(field, (nx, ny, nz), comm)
            total = np.empty(1, complex)
            comm.Allreduce(mine, total)
        checksums.append(complex(total[0]))
    return checksums


def _range(length: int, parts: int, part: int) -> NDArray[np.int64]:
    """Return the indices of a part."""
    return np.arange(*offsets(length, parts)[part : part + 2])


def _frequency(index: NDArray[np.int64], length: int) -> NDArray[np.float64]:
    """Return squared frequencies of modes."""
    return np.asarray(((index + length // 2) % length - length // 2) ** 2.0, np.float64)


def _field(z: NDArray[np.int64], y: NDArray[np.int64], size: tuple[int, int]) -> Block:
    """Return the random field at some z and y, all x; x is fastest in the sequence."""
    nx, ny = size
    lines = [randoms(_SEED, 2 * nx * (ny * int(k) + int(y[0])), 2 * nx * len(y)) for k in z if len(y)]
    return np.array(lines, float).reshape(len(z), len(y), nx, 2).view(complex)[..., 0]


def _inverse(comm: Intracomm, modes: Block, shape: tuple[int, int, int], charged: bool) -> Block:
    """Transform back: conj F(conj v) / n is the inverse of F."""
    turned = (*modes.shape[1:], modes.shape[0])
    if charged:
        return pencil(comm, modes.reshape(turned), shape)
    return pencil(comm, np.moveaxis(modes, 0, 2).conj(), shape).conj() / np.prod(shape)


def _checksum(field: Block, size: tuple[int, int, int], comm: Intracomm) -> NDArray[np.complex128]:
    """Return this rank's share of the sum of 1024 values; `field` has all y, parts of x and z."""
    from labkit import MPI

    nx, ny, nz = size
    rows, columns = MPI.Compute_dims(comm.size, 2)
    i, j = divmod(comm.rank, columns)
    x, z = _range(nx, rows, i), _range(nz, columns, j)
    at = np.arange(1, _VALUES + 1)
    at_x, at_y, at_z = at % nx, 3 * at % ny, 5 * at % nz
    mine = np.isin(at_x, x) & np.isin(at_z, z)
    first_x, first_z = (int(one[0]) if len(one) else 0 for one in (x, z))
    return np.array([field[at_y[mine], at_x[mine] - first_x, at_z[mine] - first_z].sum()])


def cost(ranks: int, n_bytes: float) -> Cost:
    """Return messages and bytes of a step's transpositions, for a rank that has `n_bytes`."""
    return transposes(ranks, n_bytes)


ALGORITHM = Algorithm("ft", "applications", function=ft, cost=cost)
