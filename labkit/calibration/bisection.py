"""Effective bisection bandwidth: what pairs of ranks get when a random half of them sends to the other half.

References
----------
T. Hoefler, T. Schneider, A. Lumsdaine: Multistage switches are not crossbars: effects of static routing in
high-performance networks. IEEE Cluster 2008, doi:10.1109/CLUSTR.2008.4663762.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError
from labkit.html import number, quantity
from labkit.run import run

__all__ = ["EffectiveBisection", "effective_bisection"]

_BAR = "display:inline-block;height:.8em;background:#0072B2"


@dataclass(frozen=True)
class EffectiveBisection:
    """The bandwidths of pairs, over random bisections.

    Attributes
    ----------
    bytes_per_s : ndarray, shape (samples, p // 2)
        Of every pair in every bisection.
    alone_bytes_per_s : float
        Of a pair that has the machine to itself.
    """

    bytes_per_s: NDArray[np.float64]
    alone_bytes_per_s: float

    @property
    def samples_bytes_per_s(self) -> NDArray[np.float64]:
        """The mean of the pairs in each bisection."""
        means: NDArray[np.float64] = self.bytes_per_s.mean(axis=1)
        return means

    @property
    def mean_bytes_per_s(self) -> float:
        """The effective bisection bandwidth of a pair: the mean over all bisections."""
        return float(self.bytes_per_s.mean())

    @property
    def share(self) -> float:
        """The mean as a share of what a pair alone has; 1 is full effective bisection bandwidth."""
        return self.mean_bytes_per_s / self.alone_bytes_per_s

    def __str__(self) -> str:
        low, high = np.quantile(self.samples_bytes_per_s, [0.05, 0.95])
        samples, pairs = self.bytes_per_s.shape
        return (
            f"effective bisection bandwidth of a pair: {quantity(self.mean_bytes_per_s, 'B/s')}, "
            f"{100 * self.share:.1f} % of a pair alone; {number(samples)} bisections of {pairs} pairs, 90 % "
            f"of them between {quantity(float(low), 'B/s')} and {quantity(float(high), 'B/s')}"
        )

    def _repr_html_(self) -> str:
        counts, edges = np.histogram(
            self.samples_bytes_per_s, bins=min(20, max(1, len(self.bytes_per_s) // 5))
        )
        most = max(int(counts.max()), 1)
        rows = "".join(
            f"<tr><td style='text-align:right'>{quantity(float(a), 'B/s')}</td>"
            f"<td><span style='{_BAR};width:{160 * n / most:.0f}px'></span> {n}</td></tr>"
            for a, n in zip(edges[:-1], counts, strict=True)
        )
        return f"<p>{self}</p><table><tr><th>from</th><th>bisections</th></tr>{rows}</table>"


def effective_bisection(
    on: Any = "star",
    ranks: int = 64,
    *,
    samples: int = 100,
    n_bytes: int = 1 << 20,
    seed: int = 0,
    **options: Any,
) -> EffectiveBisection:
    """Measure the effective bisection bandwidth, on a simulated machine or a real one.

    In each of the bisections the ranks are drawn into two halves, and pairs between them: every rank of the
    first half sends one message to its partner in the second, all at the same time.

    Parameters
    ----------
    on : str, cluster or Platform
        As for `labkit.run`.
    ranks : int
        At least 2; of an odd number one pauses.
    samples : int
        Bisections.
    n_bytes : int
        Of each message.
    seed : int
        Of the draws.
    **options
        Further options of `labkit.run`, such as ``model=``.

    Returns
    -------
    EffectiveBisection

    Examples
    --------
    >>> effective_bisection("star", 8, samples=5).share > .999
    True
    """
    if ranks < 2 or samples < 1 or n_bytes < 1:
        raise DataError(
            f"an effective bisection needs 2 ranks, 1 sample and 1 byte or more; got ranks={ranks!r}, "
            f"samples={samples!r}, n_bytes={n_bytes!r}"
        )
    pairs = ranks // 2
    done = run(_measure, ranks=ranks, on=on, args=(samples, n_bytes, seed), **options)
    seconds = np.array(list(zip(*done.results, strict=True)), float)
    received = np.sort(seconds, axis=1)[:, :pairs]  # who does not receive says nan, which sorts last
    alone = run(_alone, ranks=ranks, on=on, args=(n_bytes,), **options)
    alone_s = min(s for s in alone.results if s is not None)
    return EffectiveBisection(n_bytes / received, n_bytes / alone_s)


def _measure(comm: Any, samples: int, n_bytes: int, seed: int) -> list[float]:
    """Return how long a message took in every bisection; nan on ranks that send."""
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    rng = np.random.default_rng(seed)
    data = np.zeros(n_bytes, np.uint8)
    found = []
    for _ in range(samples):
        order = rng.permutation(comm.size)
        place = int(np.flatnonzero(order == comm.rank)[0])
        half = comm.size // 2
        comm.Barrier()
        begin = MPI.Wtime()
        took = float("nan")
        if place < half:
            comm.Send(data, int(order[place + half]))
        elif place < 2 * half:
            comm.Recv(data, int(order[place - half]))
            took = float(MPI.Wtime() - begin)
        found.append(took)
    return found


def _alone(comm: Any, n_bytes: int) -> float | None:
    """Return how long a message from the first half's first rank to the second half's takes."""
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    data, partner = np.zeros(n_bytes, np.uint8), comm.size // 2
    comm.Barrier()
    begin = MPI.Wtime()
    if comm.rank == 0:
        comm.Send(data, partner)
    elif comm.rank == partner:
        comm.Recv(data, 0)
        return float(MPI.Wtime() - begin)
    return None
