"""The parameters of LogGP from round trips: measured between two ranks, fitted, and said how well they fit.

PRTT(n, d, k) is the time from the first of n messages of k bytes, the sender working for d seconds between
them, to the answer to the last. By LogGP it is PRTT(1, 0, k) + (n - 1) max(o + d, g + G k), and for one
message 2 (L + 2 o + G k). A long d lays o bare, d = 0 g and G, and L is what is left: nothing but round trips
on one clock, and no message is timed alone.

References
----------
T. Hoefler, A. Lichei, W. Rehm: Low-overhead LogGP parameter assessment for modern interconnection networks.
IPDPS 2007, doi:10.1109/IPDPS.2007.370593.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.optimize import nnls

from labkit.errors import DataError
from labkit.launch.run import run
from labkit.models import LogGP
from labkit.program import context

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["fit_loggp", "measure_round_trips", "predicted_round_trips"]

_TAG = 78
#: steps that exceed the overhead by this factor measure the gap, not the processor
_BEYOND_OVERHEAD = 1.1


def measure_round_trips(
    on: object = "mpi",
    sizes: Iterable[int] = (1, 512, 1024, 2048, 4096, 8192, 16384, 32768),
    *,
    messages: int = 16,
    repeats: int = 5,
    **options: Any,
) -> pd.DataFrame:
    """Measure PRTT(1, 0, k), PRTT(n, 0, k) and PRTT(n, d, k) between ranks 0 and 1, d being PRTT(1, 0, k).

    Parameters
    ----------
    on : str, cluster or Platform
        As for `labkit.run`.
    sizes : iterable of int
        k, in bytes; all of one protocol: LogGP has no rendezvous.
    messages : int
        n, at least 2.
    repeats : int
        Of each; the least is kept, as whatever disturbs can only delay. The first comes on top, as a warm-up.
    **options
        Further options of `labkit.run`, such as ``model=``.

    Returns
    -------
    pandas.DataFrame
        A row for each of them: messages, delay_s, bytes, seconds.

    Raises
    ------
    DataError
        No sizes, fewer than two messages or one repetition.
    """
    chosen = sorted({int(size) for size in sizes})
    if not chosen or chosen[0] < 0 or messages < 2 or repeats < 1:
        raise DataError(
            f"round trips need sizes >= 0, two messages or more and one repetition or more; got sizes "
            f"{chosen}, messages={messages!r}, repeats={repeats!r}",
            code="out-of-range",
        )
    done = run(_measure, ranks=2, on=on, args=(chosen, messages, repeats), **options)
    return pd.DataFrame(done.results[0], columns=["messages", "delay_s", "bytes", "seconds"])


def fit_loggp(table: pd.DataFrame) -> LogGP:
    """Find L, o, g and G of measured round trips.

    Parameters
    ----------
    table : pandas.DataFrame
        Of `measure_round_trips`; at least two sizes.

    Returns
    -------
    labkit.models.LogGP
        `predicted_round_trips` predicts each row. An overhead that differs from size to size is
        given as its median. A gap that the overhead hides at all sizes, or all but one, is given as 0: no
        message measures it better; G is then that of single messages.

    Raises
    ------
    DataError
        Rows are missing.

    Examples
    --------
    >>> from labkit.machines import models
    >>> planted = LogGP(latency_s=5e-6, overhead_s=2e-6, gap_s=3e-6, gap_per_byte_s=1e-9)
    >>> table = measure_round_trips("star:2", model=models.get("loggps", **planted.options()))
    >>> fit = fit_loggp(table)
    >>> [round(1e6 * seconds, 3) for seconds in (fit.latency_s, fit.overhead_s, fit.gap_s)]
    [5.0, 2.0, 3.0]
    """
    single = table[table["messages"] == 1].set_index("bytes")["seconds"]
    overhead = float(_steps(table, single, is_late=True).median())
    steps = _steps(table, single, is_late=False)
    clear = steps[steps > _BEYOND_OVERHEAD * overhead]
    intercept, per_byte = _line(clear) if len(clear) > 1 else (0.0, _line(single / 2)[1])
    rest = single / 2 - 2 * overhead - per_byte * single.index.to_numpy(float)
    return LogGP(max(float(rest.median()), 0.0), overhead, intercept, per_byte)


def predicted_round_trips(table: pd.DataFrame, net: LogGP) -> pd.Series:
    """Return what LogGP predicts for the rows of `measure_round_trips`, in seconds."""
    trip = table["bytes"].map(net.round_trip_s)
    late = net.overhead_s + table["delay_s"]
    early = net.gap_s + net.gap_per_byte_s * table["bytes"]
    return trip + (table["messages"] - 1) * np.maximum(late, early)


def _line(times: pd.Series) -> tuple[float, float]:
    """Fit a line over the sizes, by relative errors; return where it begins and how it rises, both >= 0."""
    size, seconds = times.index.to_numpy(float), times.to_numpy(float)
    found, _ = nnls(np.column_stack([1 / seconds, size / seconds]), np.ones(len(size)))
    return float(found[0]), float(found[1])


def _steps(table: pd.DataFrame, single: pd.Series, *, is_late: bool) -> pd.Series:
    """Return, by size, how long one message more takes, without the delay."""
    rows = table[(table["messages"] > 1) & ((table["delay_s"] > 0) == is_late)].set_index("bytes")
    if len(single) < 2 or set(rows.index) != set(single.index):
        raise DataError(
            "LogGP is fitted to round trips at two sizes or more, each with one message, with several, and "
            "with several that are delayed: use measure_round_trips",
            code="not-enough-data",
        )
    return (rows["seconds"] - single) / (rows["messages"] - 1) - rows["delay_s"]


def _measure(
    comm: Intracomm, sizes: list[int], messages: int, repeats: int
) -> list[tuple[int, float, int, float]]:
    """Measure; only rank 0's rows count."""
    rows = []
    if comm.Get_rank() > 1:
        return []
    for size in sizes:
        trip = _told(comm, _least(comm, 1, 0.0, size, repeats))
        rows.append((1, 0.0, size, trip))
        rows.append((messages, 0.0, size, _least(comm, messages, 0.0, size, repeats)))
        rows.append((messages, trip, size, _least(comm, messages, trip, size, repeats)))
    return rows


def _told(comm: Intracomm, seconds: float) -> float:
    """Send rank 1 the value that rank 0 found."""
    if comm.Get_rank() == 0:
        comm.send(seconds, dest=1, tag=_TAG)
        return seconds
    told: float = comm.recv(source=0, tag=_TAG)
    return told


def _least(comm: Intracomm, messages: int, delay_s: float, size: int, repeats: int) -> float:
    return min([_trip(comm, messages, delay_s, size) for _ in range(repeats + 1)][1:])


def _trip(comm: Intracomm, messages: int, delay_s: float, size: int) -> float:
    from labkit import MPI  # this rank's: mpi4py's or the simulated one

    out, into = np.ones(size, np.uint8), np.zeros(size, np.uint8)
    if comm.Get_rank() == 1:
        for _ in range(messages):
            comm.Recv(into, source=0, tag=_TAG)
        comm.Send(out, dest=0, tag=_TAG)
        return 0.0
    tick = MPI.Wtime() - MPI.Wtime()
    begin = MPI.Wtime()
    comm.Send(out, dest=1, tag=_TAG)
    for _ in range(messages - 1):
        if delay_s:
            _work(MPI.Wtime, delay_s, -tick)
        comm.Send(out, dest=1, tag=_TAG)
    comm.Recv(into, source=1, tag=_TAG)
    return float(MPI.Wtime() - begin + tick)


def _work(clock: Any, seconds: float, tick_s: float) -> None:
    """Keep the processor busy, on a simulated machine by charging it; two readings of the clock included."""
    until = clock() + seconds - 2 * tick_s
    context.compute(seconds=max(seconds - 2 * tick_s, 0.0))
    while clock() < until:
        pass
