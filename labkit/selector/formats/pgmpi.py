"""PGMPITuneLib's profiles: a file for one collective and one number of ranks, with ranges of sizes.

Behind the collective, the ranks and a list of mock-ups a profile has ranges of bytes, of the message or of
one block, both ends included, each with the number of a mock-up. What lies in no range is left to the MPI
library. PGMPITuneD is given a folder of them (``--ppath=FOLDER``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labkit.errors import DataError, ScheduleError
from labkit.selector.formats.bands import Band, SizeBand, first_matches, rows_of
from labkit.selector.libraries import names_table

__all__ = ["read", "write"]

#: sizes are C's int
_MOST = 2**31 - 1


def write(operation: str, bands: Sequence[Band], ranks: Sequence[int], title: str) -> dict[int, str]:
    """Write a profile for each number of ranks that has a mock-up somewhere."""
    if operation not in names_table("pgmpi"):
        raise DataError(
            f"PGMPITuneLib's {operation} cannot be tuned; it has {', '.join(names_table('pgmpi'))}",
            code="no-counterpart",
        )
    entry = names_table("pgmpi")[operation]
    mock_ups, found = entry["algorithms"], {}
    for p in ranks:
        band = next(band for band in bands if band.low <= p < band.high)
        ranges = []
        for step in band.steps:
            if step.name not in mock_ups and step.name is not None and step.name not in entry["own"]:
                raise DataError(
                    f"PGMPITuneLib has no {operation}/{step.name}: tune with library='pgmpi', which tries "
                    "its mock-ups and what libraries do by themselves",
                    code="no-counterpart",
                )
            if step.name in mock_ups and step.low <= _MOST:
                ranges.append((int(step.low), int(min(step.high - 1, _MOST)), str(step.name)))
        names = list(dict.fromkeys(name for _, _, name in ranges))
        if names:
            lines = [f"# {title}", f"MPI_{operation.capitalize()}", str(p), str(len(names))]
            lines += [f"{i} {mock_ups[name]}" for i, name in enumerate(names, 1)]
            lines += [str(len(ranges)), *(f"{a} {b} {names.index(name) + 1}" for a, b, name in ranges)]
            found[p] = "\n".join(lines) + "\n"
    if not found:
        raise DataError(
            f"no mock-up of {operation} is the fastest anywhere: there is nothing to write", code="no-data"
        )
    return found


def read(text: str, where: str) -> list[dict[str, Any]]:
    """Return the rules of one profile."""
    remarks_apart = (line.partition("#")[0].split() for line in text.splitlines())
    lines = iter([words for words in remarks_apart if words])
    (method,) = _words(lines, 1, "a collective such as MPI_Allreduce", where)
    operation = method.removeprefix("MPI_").lower()
    if not method.startswith("MPI_") or operation not in names_table("pgmpi"):
        methods = ", ".join(f"MPI_{name.capitalize()}" for name in names_table("pgmpi"))
        raise ScheduleError(
            f"{where}: labkit reads profiles of {methods}; got {method!r}", code="no-counterpart"
        )
    ranks = _number(_words(lines, 1, "the number of ranks", where)[0], 1, where)
    mock_ups: dict[str, str] = names_table("pgmpi")[operation]["algorithms"]
    known = {of: name for name, of in mock_ups.items()}
    numbered: dict[int, str | None] = {}
    for _ in range(_number(_words(lines, 1, "the number of mock-ups", where)[0], 0, where)):
        number, mock_up = _words(lines, 2, "a number and a mock-up", where)
        if mock_up not in known and mock_up != "default":
            raise ScheduleError(
                f"{where}: labkit has no counterpart of the mock-up {mock_up!r}; it has {', '.join(known)}",
                code="no-counterpart",
            )
        which = _number(number, 0, where)
        if which in numbered:
            raise ScheduleError(f"{where}: two mock-ups have the number {which}", code="duplicate-name")
        numbered[which] = known.get(mock_up)
    ranges = []
    for _ in range(_number(_words(lines, 1, "the number of ranges", where)[0], 1, where)):
        words = _words(lines, 3, "first size, last size and a mock-up's number", where)
        low, high, which = (_number(word, 0, where) for word in words)
        if high < low or which not in numbered:
            numbers = ", ".join(map(str, numbered))
            raise ScheduleError(
                f"{where}: a range is first size, last size and one of {numbers}; got {' '.join(words)}",
                code="malformed-line",
            )
        ranges.append((float(low), high + 1.0, (numbered[which],)))
    if (rest := next(lines, None)) is not None:
        raise ScheduleError(
            f"{where}: unexpected text after the last range: {' '.join(rest)!r}", code="malformed-line"
        )
    steps = first_matches(ranges, lambda low, high, name: SizeBand(low, high, name[0]))
    return rows_of(operation, [Band(ranks, ranks + 1, steps)])


def _words(lines: Any, count: int, what: str, where: str) -> list[str]:
    words: list[str] = next(lines, [])
    if len(words) != count:
        raise ScheduleError(
            f"{where}: a profile has a line with {what} here; got {' '.join(words)[:80]!r}",
            code="malformed-line",
        )
    return words


def _number(word: str, least: int, where: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 19 and least <= int(word)):
        raise ScheduleError(
            f"{where}: a whole number from {least} on is needed here; got {word[:40]!r}", code="out-of-range"
        )
    return int(word)
