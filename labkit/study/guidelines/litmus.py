"""The litmus test: an own broadcast, known in every step, beside the library's tells whose fault a time is.

If both scale badly it is the machine; if only the library's does, it is the library.

References
----------
.. [1] S. Shudler et al.: Engineering algorithms for scalability through continuous validation of performance
   expectations. IEEE TPDS 30(8), 2019, sections 2.2 and 3.1.2. doi:10.1109/TPDS.2019.2896993
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from labkit import context
from labkit import html as markup
from labkit.html import quantity
from labkit.run import machine_of, run
from labkit.scaling import Verdict, judge
from labkit.scaling.samples import LEAST_VALUES
from labkit.study.guidelines.operations import bench_call, buffer, whole_numbers
from labkit.timing import Repeats
from labkit.timing.window import wait_until
from labkit.units import format_bytes

__all__ = ["Litmus", "litmus", "own_broadcast"]

#: so many times longer than its messages alone may an own broadcast take, or the library's than the own one
LIMIT = 3.0
#: a pair of ranks whose message takes so many times the median is named
_SLOW_PAIR = 4.0
_TAG = 79
_SLOT_S = 1.0

_CONCLUSIONS = {
    "fine": "both broadcasts scale as promised, and neither machine nor library is to blame",
    "library": "it is the library: its broadcast is slow, and an own binomial one over messages is not",
    "both": "it is both: the own binomial broadcast suffers from the machine, the library's far more",
    "machine": "it is the machine: an own binomial broadcast suffers as the library's does",
    "uneven": "the machine is uneven, and the library copes: only the own binomial broadcast is slow",
    "undecided": "it is undecided",
}


def own_broadcast(comm: Any, data: Any) -> None:
    """Broadcast from rank 0 along a binomial tree: ceil(log2 p) plain messages one after another."""
    rank, size, bit = comm.Get_rank(), comm.Get_size(), 1
    while bit < size and not rank & bit:
        bit <<= 1
    if rank:
        comm.Recv(data, source=rank - bit, tag=_TAG)
    bit >>= 1
    while bit:
        if rank + bit < size:
            comm.Send(data, dest=rank + bit, tag=_TAG)
        bit >>= 1


@dataclass(frozen=True)
class Litmus:
    """What the litmus test has found.

    Attributes
    ----------
    word : {"fine", "library", "machine", "both", "uneven", "undecided"}
    own, library : Verdict
        Their growth, judged against log p.
    frame : DataFrame
        By ranks: own_s, library_s, ideal_s (its messages alone), own_factor (over the ideal), library_factor
        (over the own).
    slow_pairs : list of (int, int, float)
        Pairs of ranks whose message takes many times the median, and how many, the slowest first.
    n_bytes : int
    reasons : list of str
        What says so.
    about : str
        Where.
    """

    word: str
    own: Verdict
    library: Verdict
    frame: pd.DataFrame
    slow_pairs: list[tuple[int, int, float]]
    n_bytes: int
    reasons: list[str] = field(default_factory=list)
    about: str = ""

    def __bool__(self) -> bool:
        """Whether nothing is to blame."""
        return self.word == "fine"

    def headline(self) -> str:
        """Say it in a sentence."""
        return f"Litmus test on {self.about}, {format_bytes(self.n_bytes)}: {_CONCLUSIONS[self.word]}."

    def __str__(self) -> str:
        lines = [self.headline(), *(f"  {reason}" for reason in self.reasons)]
        head = ("ranks", "own", "library", "messages alone", "own/alone", "library/own")
        lines.append("  " + "  ".join(f"{name:>14}" for name in head))
        for row in self._rows():
            lines.append("  " + "  ".join(f"{cell:>14}" for cell in row))
        return "\n".join(lines)

    __repr__ = __str__

    def _rows(self) -> list[tuple[str, ...]]:
        times = self.frame[["own_s", "library_s", "ideal_s"]].to_numpy(float)
        factors = self.frame[["own_factor", "library_factor"]].to_numpy(float)
        return [
            (f"{p}", *(quantity(float(v), "s", 3) for v in some), *(f"{v:.2f}" for v in both))
            for p, some, both in zip(self.frame["ranks"], times, factors, strict=True)
        ]

    def _repr_html_(self) -> str:
        head = ("ranks", "own", "library", "messages alone", "own / alone", "library / own")
        said = "".join(f"<p>{escape(reason)}</p>" for reason in self.reasons)
        return markup.card(escape(self.headline()), said + markup.table(head, self._rows()))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "word": self.word, "sentence": self.headline(), "reasons": self.reasons, "n_bytes": self.n_bytes,
            "own": self.own.match, "library": self.library.match, "rows": self.frame.to_dict("records"),
            "slow_pairs": [{"from": a, "to": b, "factor": f} for a, b, f in self.slow_pairs],
        }  # fmt: skip


def litmus(
    on: Any = "star",
    ranks: Iterable[int] = (2, 4, 8, 16, 32, 64),
    n_bytes: int = 8,
    *,
    repeats: Repeats | None = None,
    launches: int | None = None,
    limit: float = LIMIT,
    timeout_s: float | None = 600.0,
    seed: int = 0,
    **options: Any,
) -> Litmus:
    """Separate the machine's faults from the library's by a broadcast that is known in every step.

    Beside the library's broadcast runs an own one, along a binomial tree by plain messages. Both are judged
    against log p; the own one is held against the time that its messages take alone (a ping-pong along each
    edge of the tree), the library's against the own one.

    Parameters
    ----------
    on : str or Platform
    ranks : list of int
        From five values on their growth is judged, too.
    n_bytes : int
        The message.
    repeats, launches
        As in `labkit.guidelines`.
    limit : float
        From how many times longer on something is slow.
    timeout_s, seed, **options
        Of `labkit.run`.

    Returns
    -------
    Litmus
        True in a condition when nothing is to blame.

    Examples
    --------
    >>> import labkit as lk
    >>> lk.litmus("star", coll={"bcast": "linear"}, ranks=[4, 8, 16, 32, 64, 128]).word
    'library'
    """
    counts = [p for p in whole_numbers(ranks, "ranks", 1) if p > 1]
    (n,) = whole_numbers(n_bytes, "n_bytes", 1)
    is_real = machine_of(on).is_real
    number = launches or (3 if is_real else 1)
    asked = repeats or Repeats(least=10, most=30, most_s=2.0)
    rows: list[dict[str, Any]] = []
    pairs: dict[tuple[int, int], list[float]] = {}
    is_valid, about = True, str(on)
    for p in counts:
        for launch in range(number):
            args = n, asked, p == counts[-1]
            done = run(_program, p, on, args=args, seed=seed + launch, timeout_s=timeout_s, **options)
            is_valid, about = is_valid and done.is_valid, done.on
            own, library, _ = done.results[0]
            rows += [{"ranks": p, "own": a, "library": b} for a, b in zip(own, library, strict=False)]
            for result in done.results:
                for pair, seconds in result[2]:
                    pairs.setdefault(pair, []).append(seconds)
    return _read(pd.DataFrame(rows), pairs, n, limit, is_valid, about)


def _program(comm: Any, n: int, repeats: Repeats, with_pairs: bool) -> Any:
    """Time both broadcasts, and the messages along the tree's edges."""
    data = buffer(math.ceil(n / 8))
    own = bench_call(comm, lambda: own_broadcast(comm, data), repeats)
    library = bench_call(comm, lambda: comm.Bcast(data, root=0), repeats)
    return own, library, _pairs(comm, data) if with_pairs else []


def _pairs(comm: Any, data: Any) -> list[tuple[tuple[int, int], float]]:
    """Return, of each edge of the tree at its parent, how long a message takes: half a ping-pong."""
    rank, found, machine = comm.Get_rank(), [], context.simulated()
    clock = machine.wtime if machine is not None else _wall
    begin = comm.allreduce(clock(), op=_most()) + _SLOT_S
    for child in range(1, comm.Get_size()):
        parent = child & (child - 1)
        if machine is None:
            comm.Barrier()
        if rank not in (child, parent):
            continue
        if machine is not None:  # each edge has a second of its own, so that none disturbs another
            wait_until(begin + child * _SLOT_S, clock)
        best = math.inf
        for _ in range(1 if machine is not None else 5):
            start = clock()
            if rank == parent:
                comm.Send(data, dest=child, tag=_TAG)
                comm.Recv(data, source=child, tag=_TAG)
            else:
                comm.Recv(data, source=parent, tag=_TAG)
                comm.Send(data, dest=parent, tag=_TAG)
            best = min(best, clock() - start)
        if rank == parent:
            found.append(((parent, child), best / 2))
    return found


def _wall() -> float:
    import time

    return time.monotonic()


def _most() -> Any:
    from labkit import MPI

    return MPI.MAX


def _read(
    data: pd.DataFrame,
    pairs: dict[tuple[int, int], list[float]],
    n: int,
    limit: float,
    is_valid: bool,
    on: str,
) -> Litmus:
    table = data.groupby("ranks")[["own", "library"]].median()
    single = float(np.median([min(times) for times in pairs.values()]))
    ideal = np.array([math.ceil(math.log2(p)) * single for p in table.index])
    frame = pd.DataFrame(
        {
            "ranks": table.index, "own_s": table["own"].to_numpy(), "library_s": table["library"].to_numpy(),
            "ideal_s": ideal, "own_factor": table["own"].to_numpy() / ideal,
            "library_factor": table["library"].to_numpy() / table["own"].to_numpy(),
        }
    )  # fmt: skip
    verdicts = [
        judge(data["ranks"], data[side], "log p", is_valid=is_valid, metric="time", unit="s")
        for side in ("own", "library")
    ]
    slow = sorted(((min(t) / single, pair) for pair, t in pairs.items()), reverse=True)
    named = [(*pair, factor) for factor, pair in slow if factor >= _SLOW_PAIR]
    word, reasons = _concluded(frame, verdicts, limit, is_valid)
    if named:
        a, b, factor = named[0]
        more = f", and {len(named) - 1} more pairs of ranks are slow" if len(named) > 1 else ""
        reasons.append(f"a message from rank {a} to rank {b} takes {factor:.3g} times the median{more}")
    return Litmus(word, verdicts[0], verdicts[1], frame, named, n, reasons, on)


def _concluded(
    frame: pd.DataFrame, verdicts: list[Verdict], limit: float, is_valid: bool
) -> tuple[str, list[str]]:
    """Return the word, and what says so."""
    reasons, bad, is_open = [], [], []
    sides = (
        ("the own broadcast", "own_factor", "the messages that it consists of", verdicts[0]),
        ("the library's broadcast", "library_factor", "the own one", verdicts[1]),
    )
    for name, column, other, verdict in sides:
        factors = frame[column].to_numpy(float)
        worst, at = float(factors.max()), int(frame["ranks"].to_numpy()[factors.argmax()])
        is_slow = worst > limit
        grows = verdict.match == "none"
        if is_slow:
            reasons.append(f"{name} takes {worst:.3g} times as long as {other} at {at} ranks")
        if grows:
            reasons.append(f"{name} grows faster than log p: {_growth(verdict)}")
        bad.append(is_slow or grows)
        is_open.append(verdict.match == "undecided" and len(frame) >= LEAST_VALUES)
    if not is_valid:
        return "undecided", ["the ranks shared cores: these times allow no word", *reasons]
    if bad[0] and not bad[1]:
        # the own one is slow; if the library's is not faster it suffers alike
        return ("uneven" if frame["library_factor"].min() < 1 / limit else "machine"), reasons
    if bad[0] and bad[1]:
        return ("both" if frame["library_factor"].max() > limit else "machine"), reasons
    if bad[1]:
        return "library", reasons
    if any(is_open):
        what = " and ".join(name for (name, *_), one in zip(sides, is_open, strict=True) if one)
        return "undecided", [f"the growth of {what} is undecided, and no time is far off"]
    return "fine", [f"neither takes more than {limit:g} times what it may"]


def _growth(verdict: Verdict) -> str:
    if verdict.seen:
        return f"it {verdict.seen}"
    return f"as {verdict.model.term}" if verdict.model is not None else "no law was found"
