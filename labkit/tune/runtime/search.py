"""Searches: which codelet is measured next, and which one is the fastest.

`BruteForce` measures all. `ByAttributes` fixes one attribute after the other, as ADCL does: it compares
codelets that differ in that attribute only, has a second pair confirm what the first one says, and leaves out
all codelets with another value. It measures half of the codelets at the most, and it finds the fastest one
where attributes do not depend on each other.

`Halving` measures all a few times, and only the fastest of them as often as brute force does. It assumes
nothing of attributes, which in collectives depend on each other (few rounds or few bytes: that changes with
the size) and do not tell which codelet suffers from dropped packets.

All are driven in the same way on all ranks, by estimates that all ranks have: they need no messages.

References
----------
.. [1] E. Gabriel, S. Huang: Runtime optimization of application level communication patterns. IPDPS 2007.
.. [2] Z. Karnin, T. Koren, O. Somekh: Almost optimal exploration in multi-armed bandits. ICML 2013, PMLR
   28(3).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable, Iterator, Sequence
from itertools import combinations
from typing import ClassVar

from labkit.errors import DataError
from labkit.tune.runtime.codelets import Codelet

__all__ = ["SEARCHES", "BruteForce", "ByAttributes", "Halving", "Search", "search_of"]

#: of the measurements of a codelet this part is made of all of them first
_FIRST_PART = 5
#: who was left out is taken after all where it was faster than the rest turn out to be by so much
_CLEARLY = 0.8


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
    words : list of str
        What was found out on the way, as sentences.
    """

    name: ClassVar[str]

    def __init__(self, codelets: Sequence[Codelet], points: int = 20, warmup: int = 1) -> None:
        self.codelets, self.points, self.warmup = tuple(codelets), points, warmup
        #: measurements of the current codelet
        self.needed = points
        self.times: dict[str, float] = {}
        self.words: list[str] = []
        self._plan = self._steps()
        self.current: Codelet | None = next(self._plan, None)

    @abstractmethod
    def _steps(self) -> Iterator[Codelet]:
        """Yield codelets to measure; when it goes on, the last one's time is known."""

    def tell(self, time_s: float) -> None:
        """Say what the current codelet took; the next one is then the current one."""
        if self.current is None:
            raise DataError("the search is over")
        self.times[self.current.name] = time_s
        self.current = next(self._plan, None)

    @property
    def counted(self) -> str:
        """How often each is measured, as a part of a sentence."""
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
    """One attribute after the other; half of the codelets at the most (and two at the least)."""

    name = "attributes"

    @property
    def most(self) -> int:
        """How many are measured at the most."""
        return min(len(self.codelets), max(2, len(self.codelets) // 2))

    def _steps(self) -> Iterator[Codelet]:
        left = list(self.codelets)
        yield from self._measured(left[:1])
        for attribute in self._attributes():
            left = yield from self._fixed(attribute, left)
        for codelet in self._by_promise(left):
            yield from self._measured([codelet])

    def _attributes(self) -> list[str]:
        """Attributes by how many codelets have them: what concerns most comes first."""
        counts: dict[str, int] = {}
        for codelet in self.codelets:
            for name in codelet.attributes:
                counts[name] = counts.get(name, 0) + 1
        return sorted(counts, key=lambda name: -counts[name])

    def _measured(self, codelets: Sequence[Codelet]) -> Iterator[Codelet]:
        for codelet in codelets:
            if codelet.name not in self.times and len(self.times) < self.most:
                yield codelet

    def _fixed(self, attribute: str, left: list[Codelet]) -> Generator[Codelet, None, list[Codelet]]:
        """Compare values of an attribute, two at a time, by two pairs of codelets; return what is left."""
        open_values = True
        while open_values:
            open_values = False
            votes: list[tuple[Hashable, Hashable]] = []
            while len(votes) < 2:
                pair = self._pair(attribute, left, set(votes[0]) if votes else None)
                if pair is None:
                    break
                yield from self._measured(pair)
                if any(one.name not in self.times for one in pair):
                    return left
                self._seen.add(frozenset(one.name for one in pair))
                best, worst = sorted(pair, key=lambda one: self.times[one.name])
                votes.append((best.attributes[attribute], worst.attributes[attribute]))
            if len(votes) < 2:
                break
            (better, worse), again = votes
            if again != (better, worse):
                self.words.append(f"{attribute}: {better} or {worse}? Two comparisons disagree; both stay")
                break
            kept = [one for one in left if one.attributes.get(attribute) != worse]
            self.words.append(
                f"{attribute}: {better} is faster than {worse} in two comparisons; "
                f"{len(left) - len(kept)} codelets with {worse} are out"
            )
            left, open_values = kept, True
        return left

    @property
    def _seen(self) -> set[frozenset[str]]:
        found: set[frozenset[str]] = self.__dict__.setdefault("_pairs", set())
        return found

    def _pair(
        self, attribute: str, left: list[Codelet], values: set[Hashable] | None
    ) -> list[Codelet] | None:
        """Return two codelets that differ in this attribute only, with these values where some are given.

        Pairs with what is measured already come first, then those near to the fastest one.
        """
        fastest = self[self.winner] if self.times else left[0]
        found = []
        for one, other in combinations([one for one in left if attribute in one.attributes], 2):
            names = frozenset((one.name, other.name))
            if one.differs_in(other) != [attribute] or names in self._seen:
                continue
            if values is not None and {one.attributes[attribute], other.attributes[attribute]} != values:
                continue
            new = sum(name not in self.times for name in names)
            far = min(len(fastest.differs_in(one)), len(fastest.differs_in(other)))
            found.append(((new, far), [one, other]))
        return min(found, key=lambda pair: pair[0])[1] if found else None

    def __getitem__(self, name: str) -> Codelet:
        return next(one for one in self.codelets if one.name == name)

    def _by_promise(self, left: list[Codelet]) -> Iterator[Codelet]:
        """Yield what is left, the nearest to the fastest one so far first."""
        rest = [one for one in left if one.name not in self.times]
        while rest:
            fastest = self[self.winner]
            rest.sort(key=lambda one: len(fastest.differs_in(one)))
            yield rest.pop(0)


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
        """How often each is measured, as a part of a sentence."""
        if not self.finalists:
            return f"{self.first} of each"
        return f"{self.first} of each, then {self.points} of the {self.finalists} fastest"

    @property
    def winner(self) -> str:
        """The fastest of those measured in full, unless it turns out to be clearly slower than others."""
        fastest = min(self.times, key=lambda name: self.times[name])
        if not self._final:
            return fastest
        best = min(self._final, key=lambda name: self.times[name])
        return fastest if self.times[fastest] < _CLEARLY * self.times[best] else best


#: name -> search
SEARCHES: dict[str, type[Search]] = {kind.name: kind for kind in (BruteForce, ByAttributes, Halving)}


def search_of(value: str) -> type[Search]:
    """Return a search by its name.

    Raises
    ------
    DataError
        There is none of that name.
    """
    if value not in SEARCHES:
        raise DataError(f"search is one of {', '.join(map(repr, SEARCHES))}, got {value!r}")
    return SEARCHES[value]
