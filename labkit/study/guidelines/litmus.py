"""The litmus test: a known broadcast, compared with the library's, shows which of them causes a time.

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
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.checks import whole_numbers
from labkit.errors import DataError
from labkit.launch.run import machine_of, run
from labkit.machines.noise import noise_of
from labkit.program import context
from labkit.scaling import Verdict, judge
from labkit.scaling.samples import LEAST_VALUES
from labkit.study.guidelines.check import bench_call, buffer, busy_host, rounds
from labkit.study.guidelines.report import GuidelineComparison, SideTimes, compare_all
from labkit.text import html as markup
from labkit.text.html import quantity
from labkit.text.units import format_bytes
from labkit.timing.clocks import wait_until

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm, Op

__all__ = ["Litmus", "litmus", "own_broadcast"]

#: largest ratio of the known broadcast to its messages alone, and of the library's to the known one
LIMIT = 3.0
#: a pair of ranks whose message takes this multiple of the median is named
_SLOW_PAIR = 4.0
_TAG = 79
_SLOT_S = 1.0
#: along each edge, in each launch on a real machine
_PING_PONGS = 20

_CONCLUSIONS = {
    "fine": "both broadcasts scale as promised, and neither machine nor library is to blame",
    "library": "it is the library: its broadcast is slow, and an own binomial one over messages is not",
    "both": "it is both: the own binomial broadcast suffers from the machine, the library's far more",
    "machine": "it is the machine: an own binomial broadcast suffers as the library's does",
    "uneven": "the machine is uneven, and the library copes: only the own binomial broadcast is slow",
    "undecided": "it is undecided",
}


def own_broadcast(comm: Intracomm, data: object) -> None:
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

    `word` ({"fine", "library", "machine", "both", "uneven", "undecided"})
    `own`, `library`: Their growth, judged against log p.
    `frame`: By ranks: own_s, library_s, ideal_s (its messages alone), own_factor (over the ideal),
        library_factor (over the own).
    `slow_pairs`: Pairs of ranks whose message takes many times the median, and how many, the slowest first.
    `reasons`: What says so.
    `about`: Where.
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
        """Return it as a sentence."""
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
        return markup.titled_block(escape(self.headline()), said + markup.table(head, self._rows()))

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "word": self.word,
            "sentence": self.headline(),
            "reasons": self.reasons,
            "n_bytes": self.n_bytes,
            "own": self.own.match,
            "library": self.library.match,
            "rows": self.frame.to_dict("records"),
            "slow_pairs": [{"from": a, "to": b, "factor": f} for a, b, f in self.slow_pairs],
        }


def litmus(
    on: object = "star",
    ranks: Iterable[int] = (2, 4, 8, 16, 32, 64),
    n_bytes: int = 8,
    *,
    repeats: int = 12,
    launches: int | None = None,
    limit: float = LIMIT,
    timeout_s: float | None = 600.0,
    seed: int = 0,
    **options: Any,
) -> Litmus:
    """Separate the machine's faults from the library's by a broadcast that is known in every step.

    The library's broadcast and labkit's own, along a binomial tree by plain messages, run. Both are judged
    against log p; the own one is compared with the time that its messages take alone (a ping-pong along each
    edge of the tree), the library's against the own one.

    Parameters
    ----------
    on : str or Platform
        The machine.
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
    counts = [p for p in whole_numbers("ranks", ranks, 1) if p > 1]
    if not counts:
        raise DataError(
            f"the litmus test takes numbers of ranks from 2 on; got {ranks!r}", code="out-of-range"
        )
    (n,) = whole_numbers("n_bytes", [n_bytes], 1)
    is_real = machine_of(on).is_real
    number = launches or (3 if is_real else 1)
    (asked,) = whole_numbers("repeats", [repeats], 1)
    found: dict[str, dict[int, list[list[float]]]] = {"own": {}, "library": {}, "message": {}}
    pairs: dict[tuple[int, int], list[float]] = {}
    is_valid, about, busy = True, str(on), busy_host() if is_real else ""
    for p in counts:
        for launch in range(number):
            args = n, asked, p == counts[-1], bool(launch % 2)
            done = run(_program, p, on, args=args, seed=seed + launch, timeout_s=timeout_s, **options)
            is_valid, about = is_valid and done.is_valid, done.on
            for side, times in zip(found, done.results[0], strict=False):
                found[side].setdefault(p, []).append(times)
            for result in done.results:
                for pair, times in result[3]:
                    pairs.setdefault(pair, []).extend(times)
    is_exact = not is_real and not noise_of(options.get("noise")).jitter_s
    sides = {
        side: {p: SideTimes(tuple(map(np.array, one)), is_exact) for p, one in by_ranks.items()}
        for side, by_ranks in found.items()
    }
    return _read(sides, pairs, n, limit, is_valid, about, busy)


def _program(comm: Intracomm, n: int, repeats: int, with_pairs: bool, library_first: bool) -> Any:
    """Time both broadcasts, and the messages along the tree's edges."""
    data = buffer(math.ceil(n / 8))

    def message() -> None:
        if comm.Get_rank() < 2:
            (comm.Recv if comm.Get_rank() else comm.Send)(data, 1 - comm.Get_rank(), _TAG)

    calls = [lambda: own_broadcast(comm, data), lambda: comm.Bcast(data, root=0), message]
    order = (2, 1, 0) if library_first else (0, 1, 2)
    times: dict[int, list[float]] = {k: [] for k in order}
    for count in rounds(repeats):
        for k in order:
            times[k] += bench_call(comm, calls[k], count)
    return times[0], times[1], times[2], _pairs(comm, data) if with_pairs else []


def _pairs(comm: Intracomm, data: object) -> list[tuple[tuple[int, int], list[float]]]:
    """Return, of each edge of the tree at its parent, how long messages take: half a ping-pong each."""
    rank, machine = comm.Get_rank(), context.simulated()
    found: list[tuple[tuple[int, int], list[float]]] = []
    clock = machine.wtime if machine is not None else _wall
    begin = comm.allreduce(clock(), op=_most()) + _SLOT_S
    for child in range(1, comm.Get_size()):
        parent = child & (child - 1)
        if machine is None:
            comm.Barrier()
        if rank not in (child, parent):
            continue
        if machine is not None:  # each edge has its own second, so that none disturbs another
            wait_until(begin + child * _SLOT_S, clock)
        times = []
        for _ in range(1 if machine is not None else _PING_PONGS):
            start = clock()
            if rank == parent:
                comm.Send(data, dest=child, tag=_TAG)
                comm.Recv(data, source=child, tag=_TAG)
            else:
                comm.Recv(data, source=parent, tag=_TAG)
                comm.Send(data, dest=parent, tag=_TAG)
            times.append((clock() - start) / 2)
        if rank == parent:
            found.append(((parent, child), times))
    return found


def _wall() -> float:
    import time

    return time.monotonic()


def _most() -> Op:
    from labkit import MPI

    most: Op = MPI.MAX
    return most


def _read(
    sides: dict[str, dict[int, SideTimes]],
    pairs: dict[tuple[int, int], list[float]],
    n: int,
    limit: float,
    is_valid: bool,
    on: str,
    busy: str,
) -> Litmus:
    counts = list(sides["own"])
    single = {pair: float(np.median(times)) for pair, times in pairs.items()}
    middle = float(np.median(list(single.values())))
    is_exact = next(iter(sides["own"].values())).is_exact
    pool = np.array([middle] if is_exact else [v for times in pairs.values() for v in times])
    own, library, message = sides["own"], sides["library"], sides["message"]
    # what a start in a window adds to one message, compared with a ping-pong along the same edge
    added = {p: max(0.0, float(np.median(message[p].values)) - single[0, 1]) for p in counts}
    alone = {
        p: SideTimes.of(math.ceil(math.log2(p)) * pool + (0.0 if is_exact else added[p]), is_exact)
        for p in counts
    }
    asked = [(own[p], alone[p]) for p in counts] + [(library[p], own[p]) for p in counts]
    found = compare_all([*asked, *((own[p], library[p]) for p in counts)], margin=limit - 1)
    k = len(counts)
    slow_own, slow_library, quick_library = found[:k], found[k : 2 * k], found[2 * k :]
    frame = pd.DataFrame(
        {
            "ranks": counts,
            "own_s": [one.left_s for one in slow_own],
            "library_s": [one.left_s for one in slow_library],
            "ideal_s": [one.right_s for one in slow_own],
            "own_factor": [one.factor for one in slow_own],
            "library_factor": [one.factor for one in slow_library],
        }
    )
    growth_own, growth_library = (_growth_of(side, is_valid) for side in (own, library))
    verdicts = [growth_own, growth_library]
    slow = sorted(((one / middle, pair) for pair, one in single.items()), reverse=True)
    named = [(*pair, factor) for factor, pair in slow if factor >= _SLOW_PAIR]
    word, reasons = _concluded(counts, slow_own, slow_library, verdicts, limit, is_valid)
    if word == "machine" and any(one.word == "violated" for one in quick_library):
        word = "uneven"
    if named:
        a, b, factor = named[0]
        more = f", and {len(named) - 1} more pairs of ranks are slow" if len(named) > 1 else ""
        reasons.append(f"a message from rank {a} to rank {b} takes {factor:.3g} times the median{more}")
    return Litmus(
        word, growth_own, growth_library, frame, named, n, [*reasons, *([busy] if busy else [])], on
    )


def _growth_of(samples: dict[int, SideTimes], is_valid: bool) -> Verdict:
    x = np.concatenate([np.full(one.values.size, p) for p, one in samples.items()])
    y = np.concatenate([one.values for one in samples.values()])
    return judge(x, y, "log p", is_valid=is_valid, metric="time", unit="s")


def _concluded(
    counts: list[int],
    own: list[GuidelineComparison],
    library: list[GuidelineComparison],
    verdicts: list[Verdict],
    limit: float,
    is_valid: bool,
) -> tuple[str, list[str]]:
    """Return the verdict and its reason."""
    reasons, bad, slow, unclear = [], [], [], []
    sides = (
        ("the own broadcast", own, "the messages that it consists of", verdicts[0]),
        ("the library's broadcast", library, "the own one", verdicts[1]),
    )
    for name, compared, other, verdict in sides:
        longer = [(one.factor, p) for p, one in zip(counts, compared, strict=True) if one.word == "violated"]
        if longer:
            factor, at = max(longer)
            reasons.append(f"{name} takes {factor:.3g} times as long as {other} at {at} ranks")
        grows = verdict.match == "none"
        if grows:
            reasons.append(f"{name} grows faster than log p: {_growth(verdict)}")
        open_ = [p for p, one in zip(counts, compared, strict=True) if one.word == "undecided"]
        if open_:
            unclear.append(
                f"whether {name} takes more than {limit:g} times as long as {other} is undecided at "
                f"{open_[0]} ranks"
            )
        if verdict.match == "undecided" and len(counts) >= LEAST_VALUES:
            unclear.append(f"the growth of {name} is undecided")
        bad.append(bool(longer) or grows)
        slow.append(bool(longer))
    if not is_valid:
        return "undecided", ["the ranks shared cores: these times allow no verdict", *reasons]
    if bad[0]:
        return ("both" if slow[1] else "machine"), reasons
    if bad[1]:
        return ("undecided" if any("own broadcast" in one for one in unclear) else "library"), [
            *reasons,
            *unclear,
        ]
    if unclear:
        return "undecided", unclear
    return "fine", [f"neither takes more than {limit:g} times what it may"]


def _growth(verdict: Verdict) -> str:
    if verdict.seen:
        return f"it {verdict.seen}"
    return f"like {verdict.model.term}" if verdict.model is not None else "no model was found"
