"""Names that resemble one that is not known: every "did you mean" of labkit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType

__all__ = ["near", "nearest"]

#: Comparing is quadratic in the length of a name and linear in their number.
_MOST_NAMES, _MOST_LETTERS = 5000, 200
_CUTOFF = 0.6
#: of a word that is only the beginning of a name: "smaple" for "sample_sort"
_LEAST_BEGUN, _CUTOFF_BEGUN = 4, 0.8


def near(name: str, known: Iterable[str], most: int = 3, cutoff: float = _CUTOFF) -> list[str]:
    """Return up to `most` names that resemble one, the nearest first; upper and lower case are the same.

    Examples
    --------
    >>> near("Grafene", ["graphene", "jugene"], most=1)
    ['graphene']
    >>> near("smaple", ["radix_sort", "sample_sort"])
    ['sample_sort']
    """
    import difflib  # for a mistake only: every rank of a real run loads this file

    lower = {one.lower(): one for one in islice(known, _MOST_NAMES) if len(one) <= _MOST_LETTERS}
    word = name[:_MOST_LETTERS].lower()
    found = difflib.get_close_matches(word, list(lower), most, cutoff)
    if not found and len(word) >= _LEAST_BEGUN:
        begun = {one[: len(word)]: one for one in reversed(lower) if len(one) > len(word)}
        found = [begun[one] for one in difflib.get_close_matches(word, list(begun), most, _CUTOFF_BEGUN)]
    return [lower[one] for one in found]


def nearest(
    name: str,
    known: Iterable[str],
    most: int = 3,
    cutoff: float = _CUTOFF,
    instead: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Suggest such names, as the end of a sentence; empty where none is near.

    What stands in `instead` is suggested for a known word that is no name itself.

    Examples
    --------
    >>> nearest("grafene", ["graphene", "xyz"])
    "; did you mean 'graphene'?"
    >>> nearest("xyz", ["graphene"])
    ''
    >>> nearest("bandwith", ["lat", "bandwidth"], instead={"bandwidth": "bw"})
    "; did you mean 'bw'?"
    """
    found = [instead.get(one, one) for one in near(name, known, most, cutoff)]
    return "; did you mean " + " or ".join(map(repr, found)) + "?" if found else ""
