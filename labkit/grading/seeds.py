"""A student's own inputs, from a keyed generator: nobody without the key can predict them.

The key is a student's, from the course's secret by HMAC. Numbers come from SHAKE-256 over the key and a label
of their own for each case and each rank: a rank's input reveals nothing about that of another one.
The key never leaves the grader. How many ranks are tried is drawn again for every grading.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import secrets
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Seed", "Stream", "student_seed"]

T = TypeVar("T")
#: orders of residues that are tried before some residue is left out
_TRIES = 24


def student_seed(student: str, assignment: str, secret: str = "") -> int:
    """Return the seed of a student's inputs.

    Parameters
    ----------
    student : str
        Name or number, as it is in the list of students.
    assignment : str
        The assignment's name.
    secret : str
        The course's secret. Without one the seed is drawn again on every call: a seed that follows from the
        name alone could be worked out by anybody, submissions included.

    Returns
    -------
    int
        At least 0, below 2**128.

    Examples
    --------
    >>> student_seed("ada", "sort", "s3cret") == student_seed("ada", "sort", "s3cret")
    True
    >>> student_seed("ada", "sort", "s3cret") == student_seed("bob", "sort", "s3cret")
    False
    """
    if not secret:
        return secrets.randbits(128)
    text = f"{assignment}\0{student}".encode(errors="surrogatepass")
    return int.from_bytes(hmac.new(secret.encode(), text, hashlib.sha256).digest()[:16], "big")


class Stream:
    """Random 64-bit integers of a label, as `numpy.random.PCG64.random_raw` gives them."""

    def __init__(self, key: bytes) -> None:
        self._key, self._calls = key, 0

    def random_raw(self, size: int) -> NDArray[np.uint64]:
        """Return the next 64-bit integers."""
        self._calls += 1
        text = self._key + self._calls.to_bytes(8, "big")
        return np.frombuffer(hashlib.shake_256(text).digest(8 * size), "<u8").astype(np.uint64)


class Seed(int):
    """A student's seed: a whole number, and what can be drawn from it.

    `value`: The student's (`student_seed`).
    `draw`: Of this grading; by default a new one.
    """

    draw: int

    def __new__(cls, value: int, draw: int | None = None) -> Self:
        """Make it a number with a draw."""
        made = super().__new__(cls, value)
        made.draw = secrets.randbits(64) if draw is None else draw
        return made

    @classmethod
    def of(cls, seed: int) -> Seed:
        """Return a seed unchanged, or a plain number as a seed whose numbers of ranks are always the same."""
        return seed if isinstance(seed, Seed) else cls(seed, 0)

    def _key(self, *label: object) -> bytes:
        size = max(int(self).bit_length() // 8 + 1, 16)
        words = repr((int(self) < 0, label)).encode(errors="surrogatepass")
        return hmac.new(abs(int(self)).to_bytes(size, "big"), words, hashlib.sha256).digest()

    def stream(self, *label: object) -> Stream:
        """Return the random integers of a label."""
        return Stream(self._key("stream", *label))

    def number(self, *label: object) -> int:
        """Return a random number below 2**128 of a label: a seed for a generator of somebody else's."""
        return int.from_bytes(self._key("number", *label)[:16], "big")

    def array(self, n: int, dtype: Any, *label: object) -> NDArray[Any]:
        """Return n random values of a dtype: all integers, or numbers from 0 to 1."""
        raw = self.stream("array", np.dtype(dtype).str, *label).random_raw(max(n, 1))[:n]
        if np.dtype(dtype).kind == "f":
            return ((raw >> np.uint64(11)) / float(1 << 53)).astype(dtype)
        return raw.astype(dtype)

    def ranks(self, least: int, most: int, count: int, *label: object) -> Sequence[int]:
        """Return different numbers between two bounds, one of each of `count` parts: drawn again each time.

        The parts have no gaps between them and widths in proportion to what is in them. All numbers are
        at about the same place of their part, so that none of the intervals from n to 2 n is left out if
        the parts are no longer than that. Of the residues modulo 2, 3, 4 and 6 as many as possible are met:
        all of them by six numbers, where the parts are long enough.
        """
        parts, place = _parts(least, most, count), self.fraction(*label)
        found = [[part[int(place * len(part))] for part in parts]]
        for nth in range(_TRIES if count > 1 else 0):
            residues = self.shuffled(range(6), *label, "residues", nth)
            found.append([_nearest(part, place, residues[at % 6]) for at, part in enumerate(parts)])
        return max(found, key=lambda numbers: sum(len({n % m for n in numbers}) for m in (2, 3, 4, 6)))

    def strata(self, least: int, most: int, count: int, *label: object) -> list[int]:
        """Return a number of each of `count` parts, whatever its residues, in an order that is drawn.

        All are at the same place of their part, that of `fraction` for the same label.
        """
        place = self.fraction(*label)
        found = [part[int(place * len(part))] for part in _parts(least, most, count)]
        return self.shuffled(found, *label, "order")

    def fraction(self, *label: object) -> float:
        """Return a number from 0 to 1, drawn again for every grading; 1 excluded."""
        return self.drawn(0, (1 << 53) - 1, "fraction", *label) / (1 << 53)

    def drawn(self, least: int, most: int, *label: object) -> int:
        """Return a number between two bounds, both included: drawn again for every grading."""
        key = hmac.new(self._key("ranks", *label), self.draw.to_bytes(8, "big"), hashlib.sha256).digest()
        return least + int.from_bytes(key[:16], "big") % (most - least + 1)

    def chosen(self, of: Sequence[T], *label: object) -> T:
        """Return one of several, drawn again for every grading."""
        return of[self.drawn(0, len(of) - 1, *label)]

    def shuffled(self, of: Iterable[T], *label: object) -> list[T]:
        """Return several in an order that is drawn again for every grading."""
        return [
            one
            for _, _, one in sorted((self.drawn(0, 1 << 62, *label, n), n, one) for n, one in enumerate(of))
        ]

    def ordered(self, of: Iterable[T], fits: Callable[[Sequence[T]], bool], *label: object) -> Sequence[T]:
        """Return at most six in an order that fits, drawn again for every grading; unchanged if none does."""
        given = tuple(of)
        return next(
            (order for order in self.shuffled(itertools.permutations(given), *label) if fits(order)), given
        )


def _parts(least: int, most: int, count: int) -> list[range]:
    """Return parts without gaps between them, of widths in proportion to what is in them."""
    edges = [least]
    for nth in range(1, count + 1):
        edge = round(least * ((most + 1) / least) ** (nth / count))
        edges.append(min(max(edge, edges[-1] + 1), most + 1 - (count - nth)))
    return [range(low, high) for low, high in itertools.pairwise(edges)]


def _nearest(part: range, place: float, residue: int) -> int:
    """Return the number of a part that is nearest to a place in it, of a residue modulo 6 if there is one."""
    at = int(place * len(part))
    near = part[max(at - 5, 0) : at + 6]
    same = [n for n in near if n % 6 == residue] or [n for n in near if n % 2 == residue % 2] or list(near)
    return min(same, key=lambda number: abs(number - part[at]))
