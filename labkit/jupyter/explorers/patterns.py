"""Communication patterns, and the links that they make hot."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError

__all__ = ["PATTERNS", "Load", "link_facts", "loads", "pairs", "refused"]

#: name -> what it is
PATTERNS = {
    "none": "no messages",
    "ring": "every host to the next one",
    "shift": "every host to the one that is some places further",
    "halo": "every host to its four neighbours in a grid of hosts, row by row",
    "transpose": "host (row, column) of a square grid to (column, row)",
    "random pairs": "every host to one other, drawn at random",
    "all to all": "every host to every other",
}
#: pairs whose routes are looked up
MOST_PAIRS = 70_000
Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """How often a pattern crosses each link.

    Attributes
    ----------
    messages : int
        Of the pattern.
    crossed : dict of str to int
        Link to the messages that cross it.
    hottest : list of (str, int, float)
        Links, the messages on each, and the seconds that each needs for one byte of all of them; the
        slowest first.
    """

    messages: int
    crossed: dict[str, int]
    hottest: list[tuple[str, int, float]]


def refused(hosts: int) -> dict[str, str]:
    """Return the patterns that so many hosts cannot do, each with the reason.

    Parameters
    ----------
    hosts : int

    Returns
    -------
    dict of str to str

    Examples
    --------
    >>> refused(12)
    {'transpose': '12 hosts are no square'}
    """
    if hosts < 2:
        return {name: "one host has no other" for name in PATTERNS if name != "none"}
    found = {}
    if round(hosts**0.5) ** 2 != hosts:
        found["transpose"] = f"{hosts:,} hosts are no square"
    if hosts * hosts > MOST_PAIRS:
        found["all to all"] = f"{hosts:,} hosts are too many (most: {int(MOST_PAIRS**0.5)})"
    return found


def pairs(pattern: str, hosts: int, shift: int = 1, seed: int = 0) -> Pairs:
    """Return the messages of a pattern.

    Parameters
    ----------
    pattern : str
        A key of `PATTERNS`.
    hosts : int
    shift : int
        For "shift".
    seed : int
        For "random pairs": every host sends and receives once, none to itself where that can be.

    Returns
    -------
    array of int64, shape (messages, 2)
        Sender and receiver of each; messages of a host to itself are left out.

    Raises
    ------
    DataError
        Unknown, too many messages, or hosts that are no square for a transpose.
    """
    every = np.arange(hosts)
    if pattern not in PATTERNS:
        raise DataError(f"a pattern is one of {', '.join(PATTERNS)}; got {pattern!r}")
    if pattern == "none":
        return np.empty((0, 2), np.int64)
    if pattern == "all to all":
        if hosts * hosts > MOST_PAIRS:
            raise DataError(
                f"all to all on {hosts:,} hosts has {hosts * (hosts - 1):,} messages; at most "
                f"{int(MOST_PAIRS**0.5)} hosts are looked at: take a smaller machine of the same kind"
            )
        found = np.stack([np.repeat(every, hosts), np.tile(every, hosts)], 1)
    elif pattern == "halo":
        rows = max(d for d in range(1, int(hosts**0.5) + 1) if hosts % d == 0)
        row, column = np.divmod(every, hosts // rows)
        columns = hosts // rows
        ways = [((row + a) % rows) * columns + (column + b) % columns for a, b in _NEIGHBOURS]
        found = np.unique(np.concatenate([np.stack([every, way], 1) for way in ways]), axis=0)
    else:
        found = np.stack([every, _targets(pattern, hosts, shift, seed)], 1)
    kept: Pairs = found[found[:, 0] != found[:, 1]]
    return kept


_NEIGHBOURS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def _targets(pattern: str, hosts: int, shift: int, seed: int) -> Pairs:
    every = np.arange(hosts)
    if pattern in ("ring", "shift"):
        return np.asarray((every + (1 if pattern == "ring" else shift)) % hosts, np.int64)
    if pattern == "transpose":
        side = round(hosts**0.5)
        if side * side != hosts:
            raise DataError(f"a transpose needs a square number of hosts; {hosts} is none")
        row, column = np.divmod(every, side)
        return np.asarray(column * side + row, np.int64)
    # One cycle through all hosts in random order: a permutation without a fixed point.
    order = np.argsort(np.random.PCG64(seed).random_raw(hosts), kind="stable")
    target: Pairs = np.empty(hosts, np.int64)
    target[order] = np.roll(order, -1)
    return target


def link_facts(built: Any, names: Iterable[str]) -> dict[str, tuple[float, float, str]]:
    """Return bytes/s, seconds of latency and policy of some links, by name."""
    wanted = set(names)
    found = {}
    for i in range(built.link_count if wanted else 0):
        if built.link_name(i) in wanted:
            name, *facts = built.link(i)
            found[name] = tuple(facts)
            if len(found) == len(wanted):  # of a large machine mostly the first ones
                break
    return found


def loads(built: Any, chosen: Pairs) -> Load:
    """Count how often the routes of messages cross each link.

    Parameters
    ----------
    built : labkit._kernels.Platform
    chosen : array, shape (messages, 2)

    Returns
    -------
    Load
        Loopbacks are left out.
    """
    crossed: Counter[str] = Counter()
    for a, b in chosen.tolist():
        with contextlib.suppress(ValueError):  # not every pair of hosts of a file need be joined
            crossed.update(built.route(a, b)[0])
    if not crossed:
        return Load(len(chosen), {}, [])
    facts = link_facts(built, crossed)
    rate = {link: bytes_per_s for link, (bytes_per_s, _, policy) in facts.items() if policy != "fatpipe"}
    hottest = [(link, count, count / rate[link]) for link, count in crossed.items() if link in rate]
    hottest.sort(key=lambda one: (-one[2], one[0]))
    return Load(len(chosen), dict(crossed), hottest)
