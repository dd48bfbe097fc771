"""What two runs of one program printed, compared: times and the order of lines aside."""

from __future__ import annotations

import re
from collections import Counter

__all__ = ["first_difference", "same"]

_NUMBER = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")
#: words of a line whose numbers may be times, or rates made of them
_TIMED = re.compile(
    r"\b(times?|timing|seconds?|secs?|elapsed|took|wall\w*|runtime|latency|bandwidth|speed\w*|duration|"
    r"transfer|tiempo|tempo|[mu]?sec|[mu]s|[KMG]?B/s|\d+(?:\.\d+)?s|efficiency|performance)\b",
    re.IGNORECASE,
)
#: hosts, addresses of objects, and paths that differ from machine to machine
_ADDRESS = re.compile(r"0x[0-9a-fA-F]+")


def _masked(line: str, hosts: tuple[str, ...]) -> str:
    line = _ADDRESS.sub("0x", line)
    for host in hosts:
        line = re.sub(rf"\b{re.escape(host)}\b", "HOST", line)
    return _NUMBER.sub("#", line) if _TIMED.search(line) else line


def _lines(text: str, hosts: tuple[str, ...]) -> Counter[str]:
    return Counter(filter(None, (" ".join(_masked(line, hosts).split()) for line in text.splitlines())))


def same(one: str, other: str, hosts: tuple[str, ...] = ()) -> bool:
    """Return whether two texts hold the same lines in any order, or the same words where ranks' lines mix.

    Numbers of lines that speak of time are not compared, nor are the names of hosts.

    Examples
    --------
    >>> same("rank 0 of 2\\nrank 1 of 2\\n", "rank 1 of 2\\nrank 0 of 2\\n")
    True
    >>> same("sum 6\\ntook 0.31 s\\n", "took 0.02 s\\nsum 6\\n")
    True
    >>> same("sum 6\\n", "sum 7\\n")
    False
    """
    lines = [_lines(text, hosts) for text in (one, other)]
    if lines[0] == lines[1]:
        return True
    words = [Counter(word for line in each.elements() for word in line.split()) for each in lines]
    if words[0] == words[1]:
        return True
    letters = [Counter("".join(each.elements())) for each in words]
    return letters[0] == letters[1] and len(one.splitlines()) != len(other.splitlines())


def first_difference(one: str, other: str, hosts: tuple[str, ...] = ()) -> str:
    """Return a line of each that the other has not."""
    lines = [_lines(text, hosts) for text in (one, other)]
    return " | ".join(next(iter((a - b).elements()), "(nothing)")[:100] for a, b in (lines, lines[::-1]))
