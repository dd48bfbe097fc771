"""Bodies in the plane, spread evenly or in clusters: each body depends on its number and the seed alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["KINDS", "bodies"]

KINDS = ("even", "plummer", "two_clusters")


def bodies(
    kind: str, n: int, part: slice = slice(None), *, seed: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return positions and masses; all masses together are 1.

    Parameters
    ----------
    kind : str
        "even": in a square of side 2; "plummer": a cluster of radius 1 whose density falls steeply, seen from
        above; "two_clusters": three quarters of the bodies in one of a tenth of that radius at (-2, -1), the
        others in one of radius 1 at (2, 1).
    n : int
        Bodies of all ranks.
    part : slice
        Which of them.
    seed : int

    Returns
    -------
    positions : ndarray of float64, shape (m, 2)
    masses : ndarray of float64, shape (m,)

    Raises
    ------
    DataError
        If there is no such kind.

    References
    ----------
    H. C. Plummer: On the problem of distribution in globular star clusters. Monthly Notices of the Royal
    Astronomical Society 71 (1911), doi:10.1093/mnras/71.5.460.

    Examples
    --------
    >>> positions, masses = bodies("even", 4)
    >>> positions.shape, masses.tolist()
    ((4, 2), [0.25, 0.25, 0.25, 0.25])
    """
    if kind not in KINDS:
        raise DataError(f"kind must be one of: {', '.join(KINDS)}; got {kind!r}", code="unknown-name")
    drawn = np.random.default_rng(seed).random((n, 3))
    if kind == "even":
        places = 2 * drawn[:, :2] - 1
    else:
        inside = 0.98 * drawn[:, 0] + 0.01  # of the mass; the outermost and innermost hundredth is left out
        radius = (inside ** (-2 / 3) - 1) ** -0.5
        height = 2 * drawn[:, 2] - 1
        angle = 2 * np.pi * drawn[:, 1]
        flat = radius * np.sqrt(1 - height**2)
        places = np.column_stack([flat * np.cos(angle), flat * np.sin(angle)])
        if kind == "two_clusters":
            is_dense = np.arange(n) % 4 > 0
            places[is_dense] *= 0.1
            places += np.where(is_dense[:, None], [-2.0, -1.0], [2.0, 1.0])
    return places[part], np.full(n, 1.0 / max(n, 1))[part]
