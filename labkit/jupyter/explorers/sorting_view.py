"""The sorting player's content, without a widget: every rank's keys after each phase of a parallel sort."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit import registry
from labkit.context import watching
from labkit.errors import DataError

__all__ = [
    "INPUTS", "MOST_KEYS", "MOST_RANKS", "OVERSAMPLING", "Played", "Step", "inputs", "play", "samples",
    "sorts",
]  # fmt: skip

MOST_RANKS, MOST_KEYS = 16, 256
#: samples for each of what sample sort takes by default, 32 or p of a rank
OVERSAMPLING = (4.0, 2.0, 1.0, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32)
#: name -> what it is
INPUTS = {
    "random": "every key anywhere",
    "reversed": "the largest keys on the first rank",
    "sorted": "already in order",
    "dealt out": "neighbouring keys on neighbouring ranks",
    "nearly sorted": "in order but for some pairs",
}
#: where a sort keeps its keys, the latest name first
_NAMES = ("merged", "result", "pieces", "mine", "given")
Keys = NDArray[np.int64]


@dataclass(frozen=True)
class Step:
    """The end of a phase.

    Attributes
    ----------
    phase : str
    keys : tuple of arrays
        What every rank holds, as places in the sorted sequence: 0 is the smallest key.
    owner : array, shape (keys,)
        The rank of every key.
    end_s : float
        When the last rank was through, in simulated time.
    """

    phase: str
    keys: tuple[Keys, ...]
    owner: Keys
    end_s: float

    @property
    def imbalance(self) -> float:
        """The largest number of keys of a rank, divided by the mean."""
        sizes = [len(one) for one in self.keys]
        return max(sizes) * len(sizes) / sum(sizes)


@dataclass(frozen=True)
class Played:
    """A sort taken apart.

    Attributes
    ----------
    algorithm, on : str
    steps : list of Step
        The input first.
    samples : str
        How many samples were taken, and what that promises; empty of a sort that takes none.
    """

    algorithm: str
    on: str
    steps: list[Step]
    samples: str = ""

    def moved(self, step: int) -> NDArray[np.int64]:
        """Return how many keys went from rank to rank in a step, shape (ranks, ranks)."""
        ranks = len(self.steps[0].keys)
        before, now = self.steps[max(step - 1, 0)].owner, self.steps[step].owner
        return np.bincount(before * ranks + now, minlength=ranks * ranks).reshape(ranks, ranks)

    def target(self, step: int) -> Keys:
        """Return the rank that every key is sent to next: its own where no exchange is left."""
        for later in self.steps[step + 1 :]:
            if (later.owner != self.steps[step].owner).any():
                return later.owner
        return self.steps[step].owner

    def reading(self, step: int) -> str:
        """Say what happened in a step."""
        one = self.steps[step]
        n, ranks = len(one.owner), len(one.keys)
        where = f"{self.algorithm}, {ranks} ranks, {n} keys"
        if step == 0:
            return f"{where}: the input, before the first of {len(self.steps) - 1} steps."
        table = self.moved(step)
        away = n - int(np.trace(table))
        went = f"{away} of {n} keys went to another rank" if away else "no key left its rank"
        whole = self.steps[-1].end_s
        spent = max(one.end_s - self.steps[step - 1].end_s, 0.0)
        sizes = [len(keys) for keys in one.keys]
        even = f"every rank holds {sizes[0]}"
        balance = (
            even if min(sizes) == max(sizes) else f"the largest rank holds {one.imbalance:.3g} times the mean"
        )
        return (
            f"{where}, step {step} of {len(self.steps) - 1}, {one.phase}: {went}; {balance}; "
            f"{spent / whole if whole else 0.0:.0%} of the time."
        )


def sorts() -> list[str]:
    """Return the names of the sorts."""
    return list(registry.names("sorting"))


def samples(algorithm: str) -> bool:
    """Whether a sort takes samples, so many that its ``oversampling`` says."""
    function = registry.get("sorting", algorithm).function
    return function is not None and "oversampling" in inspect.signature(function).parameters


def _samples(algorithm: str, n: int, ranks: int, oversampling: float) -> str:
    """Say how many samples a sort takes and what balance that promises; nothing of one without samples."""
    if not samples(algorithm):
        return ""
    module = importlib.import_module(f"labkit.algorithms.sorting.{algorithm}")
    block = module.block_length(n, ranks, oversampling)
    most = min(module.largest_block(n, ranks, oversampling), n)
    each = "every key is a sample" if block == 1 else f"one sample for {block} keys"
    bound = f"no rank can end with more than {most} keys, {most * ranks / n:.3g} times the mean"
    return f"{each}; where they are taken at equal distances, {bound}"


def inputs(kind: str, ranks: int, per_rank: int, seed: int) -> list[Keys]:
    """Return the keys of every rank, as places in the sorted sequence.

    Raises
    ------
    DataError
        An unknown kind.
    """
    n = ranks * per_rank
    every = np.arange(n)
    if kind == "random":
        every = np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
    elif kind == "reversed":
        every = every[::-1]
    elif kind == "dealt out":
        every = every.reshape(per_rank, ranks).T.ravel()
    elif kind == "nearly sorted":
        pairs = np.random.PCG64(seed).random_raw(max(1, n // 12)) % max(n - 1, 1)
        for at in pairs.astype(np.int64).tolist():
            other = (at + per_rank) % n
            every[[at, other]] = every[[other, at]]
    elif kind != "sorted":
        raise DataError(f"an input is one of {', '.join(INPUTS)}; got {kind!r}")
    return [np.asarray(part, np.int64) for part in every.reshape(ranks, per_rank)]


@lru_cache(maxsize=32)
def play(
    algorithm: str, kind: str = "random", ranks: int = 6, per_rank: int = 16, seed: int = 0,
    on: str = "star", oversampling: float = 1.0, is_drawn: bool = False,
) -> Played:  # fmt: skip
    """Sort, and keep what every rank holds at the end of every phase.

    Parameters
    ----------
    algorithm : str
        A name of `sorts`.
    kind : str
        A name of `INPUTS`.
    ranks, per_rank : int
        At most 16 ranks of 256 keys; sorts of one key per rank get one.
    seed : int
        Of the input.
    on : str
        The machine that it is simulated on.
    oversampling : float
        Of a sort that takes samples: their number, in multiples of its default.
    is_drawn : bool
        Of such a sort: whether the samples are drawn at random, not taken at equal distances.

    Raises
    ------
    DataError
        Too many ranks or keys, or a sort that does not sort.
    """
    import labkit as lk

    sorter = registry.get("sorting", algorithm)
    per_rank = sorter.requirements.keys_per_rank or per_rank
    if not (1 <= ranks <= MOST_RANKS and 1 <= per_rank <= MOST_KEYS):
        raise DataError(
            f"the player shows 1 to {MOST_RANKS} ranks of 1 to {MOST_KEYS} keys, got {ranks} of {per_rank}"
        )
    given = inputs(kind, ranks, per_rank, seed)
    n = ranks * per_rank
    scale = 60_000 // n  # wide apart, so that digits differ
    function = sorter.function
    assert function is not None
    seen: list[list[tuple[str, Keys]]] = [[] for _ in range(ranks)]

    def watch(rank: int, phase: str, variables: Mapping[str, Any]) -> None:
        keys = _held(variables)
        if keys is not None:
            seen[rank].append((phase, np.asarray(keys, np.int64) // scale))

    options = {"oversampling": oversampling, "seed": seed if is_drawn else None} if samples(algorithm) else {}

    def program(comm: Any) -> Any:
        return function(comm, (given[comm.rank] * scale).astype(np.uint16), **options)

    with watching(watch):
        run = lk.run(program, ranks, on=on, isolate=False)
    last = [np.asarray(one, np.int64).ravel() // scale for one in run.results]
    steps = [Step("input", tuple(given), _owners(given, n), 0.0), *_steps(seen, given, run.phases, n)]
    if not (np.concatenate(last) == np.arange(n)).all():
        raise DataError(f"{algorithm} did not sort these keys: the player has nothing to show")
    taken = _samples(algorithm, n, ranks, oversampling)
    return Played(algorithm, on, steps, taken)


def _held(variables: Mapping[str, Any]) -> Any:
    """Find a sort's keys among its variables."""
    for name in _NAMES:
        if name in variables:
            value = variables[name]
            value = value.keys if name == "given" and not isinstance(value, np.ndarray) else value
            return np.atleast_1d(value)
    return None


def _steps(seen: list[list[tuple[str, Keys]]], given: list[Keys], phases: Any, n: int) -> list[Step]:
    """Join what the ranks held: the k-th end of a phase on all ranks is one step."""
    ends = _ends(phases)
    counted: list[dict[tuple[str, int], Keys]] = []
    for events in seen:
        often: dict[str, int] = {}
        found: dict[tuple[str, int], Keys] = {}
        for phase, keys in events:
            often[phase] = often.get(phase, 0) + 1
            found[phase, often[phase]] = keys
        counted.append(found)
    order = list(counted[int(np.argmax([len(found) for found in counted]))])
    held = list(given)
    steps = []
    for which in order:
        held = [found.get(which, before) for found, before in zip(counted, held, strict=True)]
        steps.append(Step(which[0], tuple(held), _owners(held, n), ends.get(which, 0.0)))
    return steps


def _ends(phases: Any) -> dict[tuple[str, int], float]:
    """When the last rank left a phase for the k-th time."""
    found: dict[tuple[str, int], float] = {}
    for (_, phase), rows in phases.groupby(["rank", "phase"], sort=False):
        for k, end in enumerate(sorted(rows["end_s"].tolist()), 1):
            found[str(phase), k] = max(found.get((str(phase), k), 0.0), float(end))
    return found


def _owners(held: list[Keys], n: int) -> Keys:
    owner: Keys = np.zeros(n, np.int64)
    for rank, keys in enumerate(held):
        owner[keys] = rank
    return owner
