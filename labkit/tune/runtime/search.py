"""Searches: which codelet is measured next, and which one is the fastest.

`BruteForce` measures all. `ByAttributes` fixes one attribute after the other, as ADCL does: it compares
codelets that differ in that attribute only, has a second pair confirm what the first one says, and leaves
out all codelets with the slower value. ADCL takes attributes for independent, and a codelet for what its
attributes are; in collectives neither holds (few rounds or few bytes: that changes with the size). So
comparisons take a few measurements only, a value is out where no codelet with it comes near, and what is then
left is measured: all a few times, and the fastest in full.

`Halving` measures all a few times, and only the fastest of them as often as brute force does. It asks for no
attributes.

All are driven in the same way on all ranks, by estimates that all ranks have: they need no messages.

References
----------
.. [1] E. Gabriel, S. Huang: Runtime optimization of application level communication patterns. IPDPS 2007.
.. [2] Z. Karnin, T. Koren, O. Somekh: Almost optimal exploration in multi-armed bandits. ICML 2013, PMLR
   28(3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from itertools import combinations
from math import hypot
from typing import ClassVar

from labkit.errors import DataError
from labkit.tune.runtime.codelets import Codelet

__all__ = ["SEARCHES", "BruteForce", "ByAttributes", "Halving", "Search", "search_of"]

#: of the measurements of a codelet this part is made of all of them first
_FIRST_PART = 5
#: who was left out is taken after all where it was faster than the rest turn out to be by so much
_CLEARLY = 0.8
#: two codelets differ clearly from such a ratio on, and if by so many standard errors
_WORTH, _SIGMAS = 1.25, 3.0
#: of two values of an attribute at the most
_COMPARISONS = 4


class Search(ABC):
    """Names codelets to measure, one by one, and is told what they took.

    Parameters
    ----------
    codelets : sequence of Codelet
        That can be used.
    points, warmup : int
        Measurements that tell what a codelet takes, and calls before them that do not count.

    Attributes
    ----------
    times : dict of str to float
        Name to seconds, of those measured.
    errors : dict of str to float
        Name to the standard error of these seconds.
    words : list of str
        What was found out on the way, as sentences.
    """

    name: ClassVar[str]
    #: whether what is measured of a codelet at several times is estimated together
    is_joined: ClassVar[bool] = False

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        self.codelets, self.points, self.warmup = tuple(codelets), points, warmup
        #: measurements of the current codelet
        self.needed = points
        self.times: dict[str, float] = {}
        self.errors: dict[str, float] = {}
        self.words: list[str] = []
        self._plan = self._steps()
        self.current: Codelet | None = next(self._plan, None)

    @abstractmethod
    def _steps(self) -> Iterator[Codelet]:
        """Yield codelets to measure; when it goes on, the last one's time is known."""

    def tell(self, time_s: float, error_s: float = 0.0) -> None:
        """Say what the current codelet took, and its standard error; the next one is then the current one."""
        if self.current is None:
            raise DataError("the search is over")
        self.times[self.current.name], self.errors[self.current.name] = time_s, error_s
        self.current = next(self._plan, None)

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        return f"{self.points} of each"

    @property
    def winner(self) -> str:
        """The fastest of those measured, the first of equals."""
        return min(self.times, key=lambda name: self.times[name])


class BruteForce(Search):
    """All codelets, in their order."""

    name = "brute force"

    def _steps(self) -> Iterator[Codelet]:
        yield from self.codelets


class ByAttributes(Search):
    """One attribute after the other, by a few measurements; then those that are left, the fastest in full.

    Values of an attribute are compared by codelets that differ in it alone. A value is out where it loses
    clearly in two comparisons, wins clearly in none, and none of the codelets measured with it comes near to
    the fastest one without it. A difference is clear where it is larger than the noise of both. So attributes
    that depend on each other leave their codelets in. All in all it makes half of brute force's calls at the
    most.
    """

    name = "attributes"
    is_joined = True

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        self.first, self.lot = max(1, points // _FIRST_PART), max(1, points // 2)
        self._calls_left = len(codelets) * (points + warmup) // 2
        self._lots: dict[str, int] = {}
        super().__init__(codelets, points, warmup)

    def _steps(self) -> Iterator[Codelet]:
        left = list(self.codelets)
        for attribute in self._attributes():
            left = yield from self._fixed(attribute, left)
        for codelet in self._by_promise(left):
            yield from self._measured(codelet, self.first)
        while (finalist := self._next_finalist(left)) is not None:
            yield from self._measured(finalist, self.lot)
            self._lots[finalist.name] = self._lots.get(finalist.name, 0) + 1

    def _attributes(self) -> list[str]:
        """Attributes by how many codelets have them: what concerns most comes first."""
        counts: dict[str, int] = {}
        for codelet in self.codelets:
            for name in codelet.attributes:
                counts[name] = counts.get(name, 0) + 1
        return sorted(counts, key=lambda name: -counts[name])

    def _measured(self, codelet: Codelet, points: int) -> Iterator[Codelet]:
        """Yield a codelet if its calls are still allowed; the first one always is."""
        calls = points + self.warmup
        if not self.times or calls <= self._calls_left:
            self.needed = points
            self._calls_left -= calls
            yield codelet

    def _is_clear(self, slower: str, faster: str) -> bool:
        """Whether one codelet is slower by more than both times' noise."""
        more = self.times[slower] - self.times[faster]
        noise = hypot(self.errors[slower], self.errors[faster])
        return self.times[slower] > _WORTH * self.times[faster] and more > _SIGMAS * noise

    def _fixed(self, attribute: str, left: list[Codelet]) -> Generator[Codelet, None, list[Codelet]]:
        """Compare values of an attribute, two at a time; return the codelets that are left."""
        pairs = [
            pair
            for pair in combinations([one for one in left if attribute in one.attributes], 2)
            if pair[0].differs_in(pair[1]) == [attribute]
        ]
        made: dict[frozenset[Hashable], int] = {}
        won: dict[tuple[Hashable, Hashable], int] = {}
        out: set[Hashable] = set()
        while pairs:
            pair = min(pairs, key=self._effort)
            pairs.remove(pair)
            values = frozenset(one.attributes[attribute] for one in pair)
            if values & out or made.get(values, 0) == _COMPARISONS:
                continue
            for one in pair:
                if one.name not in self.times:
                    yield from self._measured(one, self.first)
            if any(one.name not in self.times for one in pair):
                break
            made[values] = made.get(values, 0) + 1
            best, worst = sorted(pair, key=lambda one: self.times[one.name])
            better, worse = best.attributes[attribute], worst.attributes[attribute]
            if not self._is_clear(worst.name, best.name):
                continue
            won[better, worse] = won.get((better, worse), 0) + 1
            if won.get((worse, better)):
                self.words.append(f"{attribute}: {better} or {worse}? Two comparisons disagree; both stay")
                made[values] = _COMPARISONS
            elif won[better, worse] == 2 and self._is_beaten(attribute, worse, left):
                out.add(worse)
                kept = [one for one in left if one.attributes.get(attribute) != worse]
                gone = len(left) - len(kept)
                self.words.append(
                    f"{attribute}: {better} is clearly faster than {worse} in two comparisons; "
                    f"{gone} codelet{'s' if gone > 1 else ''} with {worse} {'are' if gone > 1 else 'is'} out"
                )
                left = kept
        return left

    def _effort(self, pair: tuple[Codelet, Codelet]) -> tuple[int, int]:
        """How many of a pair are to be measured first, and how far it is from the fastest codelet so far."""
        fastest = self._codelet(self.winner) if self.times else self.codelets[0]
        new = sum(one.name not in self.times for one in pair)
        return new, min(len(fastest.differs_in(one)) for one in pair)

    def _is_beaten(self, attribute: str, value: Hashable, left: list[Codelet]) -> bool:
        """Whether no codelet measured with a value comes near to the fastest one without it."""
        known = [one for one in left if one.name in self.times]
        own = [one.name for one in known if one.attributes.get(attribute) == value]
        others = [one.name for one in known if one.attributes.get(attribute) != value]
        best = min(others, key=lambda name: self.times[name])
        return all(self._is_clear(name, best) for name in own)

    def _codelet(self, name: str) -> Codelet:
        return next(one for one in self.codelets if one.name == name)

    def _by_promise(self, left: list[Codelet]) -> Iterator[Codelet]:
        """Yield what is left, the nearest to the fastest one so far first."""
        rest = [one for one in left if one.name not in self.times]
        while rest:
            if self.times:
                fastest = self._codelet(self.winner)
                rest.sort(key=lambda one: len(fastest.differs_in(one)))
            yield rest.pop(0)

    def _next_finalist(self, left: list[Codelet]) -> Codelet | None:
        """Return who is measured once more: of the two fastest, the one with fewer measurements."""
        if self.lot + self.warmup > self._calls_left:
            return None
        known = sorted((one for one in left if one.name in self.times), key=lambda one: self.times[one.name])
        open_ones = [one for one in known if self._lots.get(one.name, 0) < 2]
        chosen = [one for one in known[:2] if one in open_ones] or open_ones[:1]
        return min(chosen, key=lambda one: self._lots.get(one.name, 0), default=None)

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        if not self._lots:
            return f"{self.first} of each"
        more = f"{self.lot} or {2 * self.lot} more" if len(set(self._lots.values())) > 1 else None
        more = more or f"{self.lot * next(iter(self._lots.values()))} more"
        return f"{self.first} of each, then {more} of {len(self._lots)} that seemed the fastest"

    @property
    def winner(self) -> str:
        """The fastest of those measured most, unless it turns out to be clearly slower than others."""
        return _confirmed(self.times, list(self._lots))


class Halving(Search):
    """All a few times, then the fastest of them in full: half of brute force's calls at the most.

    Where that leaves no two to be measured in full, all are measured half as often. (Of one measurement each
    there is no half.)
    """

    name = "halving"

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        whole, count = points + warmup, len(codelets)
        first = max(1, points // _FIRST_PART)
        finalists = (count * whole // 2 - count * (first + warmup)) // whole
        if finalists < 2:
            first, finalists = max(1, whole // 2 - warmup), 0
        self.first, self.finalists = first, finalists
        self._final: list[str] = []
        super().__init__(codelets, points, warmup)

    def _steps(self) -> Iterator[Codelet]:
        self.needed = self.first
        yield from self.codelets
        self.needed = self.points
        order = sorted(self.codelets, key=lambda one: self.times[one.name])
        for codelet in order[: self.finalists]:
            yield codelet
            self._final.append(codelet.name)
        if self.finalists:
            out = order[self.finalists]
            self.words.append(f"{out.name} was the first to be left out, after {self.first} measurements")

    @property
    def counted(self) -> str:
        """How many times each is measured, as a part of a sentence."""
        if not self.finalists:
            return f"{self.first} of each"
        return f"{self.first} of each, then {self.points} of the {self.finalists} fastest"

    @property
    def winner(self) -> str:
        """The fastest of those measured in full, unless it turns out to be clearly slower than others."""
        return _confirmed(self.times, self._final)


def _confirmed(times: Mapping[str, float], final: Sequence[str]) -> str:
    """Return the fastest of the finalists, or where one that is none is clearly faster, that one."""
    fastest = min(times, key=lambda name: times[name])
    if not final:
        return fastest
    best = min(final, key=lambda name: times[name])
    return fastest if times[fastest] < _CLEARLY * times[best] else best


#: name -> search
SEARCHES: dict[str, type[Search]] = {kind.name: kind for kind in (BruteForce, ByAttributes, Halving)}


def search_of(value: str) -> type[Search]:
    """Return a search by its name."""
    if value not in SEARCHES:
        raise DataError(f"search must be one of: {', '.join(map(repr, SEARCHES))}, got {value!r}")
    return SEARCHES[value]
