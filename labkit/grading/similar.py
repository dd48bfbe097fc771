"""Submissions that resemble each other: shared passages of tokens, by names, numbers and texts left out.

A source becomes a sequence of tokens in which every name, number and text is the same: renaming and other
comments change nothing. Of each passage of 12 tokens a fingerprint is taken, and of each window of 6
neighbouring passages one is kept (winnowing: Schleimer, Wilkerson, Aiken, *Winnowing: local algorithms for
document fingerprinting*, SIGMOD 2003, which finds every shared passage of 17 tokens or more). What the
assignment gave to everybody does not count, nor what most of the class has.

What the number means: how much of the shorter one of two sources is also in the other one, as sequences of
tokens. It is no probability, and no proof that anybody has copied. Small tasks have few good solutions, and
these are alike; who has read the same textbook writes the same loop. A pair is worth being read side by side.
"""

from __future__ import annotations

import io
import itertools
import keyword
import tokenize
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

from labkit.errors import DataError
from labkit.process.limited import limited

__all__ = ["Alike", "Pair", "similar"]

_PASSAGE, _WINDOW = 12, 6
#: a passage shared by this share of the class, and by at least this number, belongs to the task
_COMMON_SHARE, _COMMON_LEAST = 0.4, 4
#: sources with fewer distinct passages than this are not compared
_FEWEST = 12
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.ENCODING, tokenize.ENDMARKER}
_MOST_TOKENS = 20_000


@dataclass(frozen=True)
class Pair:
    """Two submissions that share passages.

    `share`: Of the shorter one's passages, how many are in the other one: 0 to 1.
    `passages`: How many are shared.
    `longest`: Tokens in the longest passage that both have.
    `lines`: Where it is in each, first and last line.
    """

    students: tuple[str, str]
    share: float
    passages: int
    longest: int
    lines: tuple[tuple[int, int], tuple[int, int]]


@dataclass(frozen=True)
class Alike:
    """What a comparison of a class has found.

    `pairs`: The most alike first.
    `usual`: The median share of all pairs: what is normal for this task and class.
    `compared`, `short`: How many submissions were compared, and how many are too short for it.
    `threshold`: From which share on a pair is listed.
    """

    pairs: list[Pair]
    usual: float
    compared: int
    short: int
    threshold: float


def similar(sources: Mapping[str, str], given: Sequence[str] = (), threshold: float = 0.6) -> Alike:
    """Compare all pairs of submissions.

    `sources`: Python source by student.
    `given`: Sources that everybody has: the notebook that was given out.
    `threshold`: The smallest share that is listed.
    """
    tokens = {student: _tokens_of(source) for student, source in sources.items()}
    prints = {student: _fingerprints([kind for kind, _ in own]) for student, own in tokens.items()}
    known = set().union(*(_all_passages([kind for kind, _ in _tokens(source)]) for source in given), set())
    counts = Counter(one for own in prints.values() for one in own)
    most = max(_COMMON_SHARE * len(prints), _COMMON_LEAST)
    own = {
        student: {p for p in found if p not in known and counts[p] <= most}
        for student, found in prints.items()
    }
    compared = {student: found for student, found in own.items() if len(found) >= _FEWEST}
    shares: list[float] = []
    listed: list[tuple[float, int, str, str]] = []
    for one, other in itertools.combinations(sorted(compared), 2):
        both = len(compared[one] & compared[other])
        shares.append(both / min(len(compared[one]), len(compared[other])))
        if shares[-1] >= threshold:
            listed.append((shares[-1], both, one, other))
    listed.sort(key=lambda row: (-row[0], row[2], row[3]))
    pairs = []
    for share, both, one, other in listed[:200]:
        longest, lines = _longest(tokens[one], tokens[other])
        pairs.append(Pair((one, other), share, both, longest, lines))
    usual = median(shares) if shares else 0.0
    return Alike(pairs, usual, len(compared), len(own) - len(compared), threshold)


def _tokens_of(source: str) -> list[tuple[str, int]]:
    """Return the tokens of an untrusted source; none where they are not found within the limits."""
    try:
        return [(kind, line) for kind, line in limited(_tokens, source)]
    except DataError:
        return []


def _tokens(source: str) -> list[tuple[str, int]]:
    """Return kind and line of each token; of a source that is no Python as many as there are."""
    found: list[tuple[str, int]] = []
    is_statement_begin = True
    try:
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type in _SKIPPED:
                continue
            if token.type == tokenize.STRING and is_statement_begin:
                continue  # a docstring
            is_statement_begin = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
            found.append((_kind(token), token.start[0]))
            if len(found) >= _MOST_TOKENS:
                break
    except (tokenize.TokenError, SyntaxError, ValueError):
        pass
    return found


def _kind(token: tokenize.TokenInfo) -> str:
    if token.type == tokenize.NAME:
        return token.string if keyword.iskeyword(token.string) else "name"
    if token.type in (tokenize.NUMBER, tokenize.STRING):
        return "value"
    if token.type in (tokenize.OP, tokenize.ERRORTOKEN):
        return token.string
    return tokenize.tok_name[token.type]


def _all_passages(kinds: list[str]) -> list[int]:
    text = [zlib.crc32(kind.encode(errors="replace")) for kind in kinds]
    return [hash(tuple(text[at : at + _PASSAGE])) for at in range(len(text) - _PASSAGE + 1)]


def _fingerprints(kinds: list[str]) -> set[int]:
    passages = _all_passages(kinds)
    return {min(passages[at : at + _WINDOW]) for at in range(max(len(passages) - _WINDOW + 1, 0))}


def _longest(
    one: list[tuple[str, int]], other: list[tuple[str, int]]
) -> tuple[int, tuple[tuple[int, int], tuple[int, int]]]:
    """Return the tokens of the longest passage that both have, the first of these, and its lines in each.

    A table of thousands of equal tokens must not hold up the class, so no pair of tokens is looked at: the
    passages of 1, 2, 4, ... tokens get numbers, the same for equal ones, and the longest one is put together.
    """
    numbers: dict[str, int] = {}
    mine, theirs = (
        np.array([numbers.setdefault(kind, len(numbers)) for kind, _ in own], np.int64)
        for own in (one, other)
    )
    levels = [(mine, theirs)]
    while min(map(len, levels[-1])) > (width := 1 << (len(levels) - 1)):
        levels.append(_numbered([(own[:-width], own[width:]) for own in levels[-1]]))
    size, found = 0, (np.zeros(len(one) + 1, np.int64), np.zeros(len(other) + 1, np.int64))
    for nth, level in reversed(list(enumerate(levels))):
        if min(map(len, level)) <= size:
            continue
        rest = [own[size:] for own in level]
        longer = _numbered([(own[: len(more)], more) for own, more in zip(found, rest, strict=True)])
        if np.isin(longer[0], longer[1]).any():
            size, found = size + (1 << nth), longer
    if not size:
        return 0, ((0, 0), (0, 0))
    at = int(np.flatnonzero(np.isin(found[0], found[1]))[0])
    there = int(np.flatnonzero(found[1] == found[0][at])[0])
    return size, ((one[at][1], one[at + size - 1][1]), (other[there][1], other[there + size - 1][1]))


def _numbered(pairs: Sequence[tuple[Any, Any]]) -> tuple[Any, Any]:
    """Return for each sequence of pairs of numbers a number for each pair, equal for equal ones in both."""
    joined = [np.concatenate(part) for part in zip(*pairs, strict=True)]
    which = np.unique(joined[0] * (int(joined[1].max(initial=0)) + 1) + joined[1], return_inverse=True)[1]
    return which[: len(pairs[0][0])], which[len(pairs[0][0]) :]
