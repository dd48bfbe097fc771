"""Open MPI's dynamic rules: the classic file, and JSON (Open MPI 6.0 and later).

Both say, for numbers of ranks and for sizes, the algorithm, its fan-out and the length of its segments. In
the classic file a rule holds up to the next one, in JSON between two bounds, and the first that fits counts.
Sizes are those of the message, of some operations those of all ranks' blocks together (``counts_all`` in
``datasets/selectors/ompi_names.toml``). Number 0 leaves the choice to Open MPI. Limits on requests have no
counterpart in labkit and are passed over; so are fan-outs and segments of algorithms that Open MPI builds
without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf
from typing import Any

from labkit import registry
from labkit.errors import DataError, ScheduleError, nearest
from labkit.selector.formats.bands import Band, SizeBand, first_matches, rows_of
from labkit.selector.libraries import library_names, names_table, settings_of
from labkit.selector.rules import Rules

__all__ = ["read_classic", "read_json", "write_classic", "write_json"]

_VERSION = "rule-file-version-"
#: algorithms that Open MPI cuts into segments, and labkit does not
_WHOLE = (("bcast", "binomial"), ("reduce", "binomial"))


def _code(operation: str, name: str | None) -> tuple[int, int, int]:
    """Return an algorithm's number, fan-out and length of segments."""
    if name is None:
        return 0, 0, 0
    base, settings = settings_of(name)
    if base not in library_names("ompi", operation):
        raise DataError(
            f"Open MPI has no {operation}/{name}: tune with library='ompi', which tries its own only",
            code="no-counterpart",
        )
    chains, length = settings.pop("chains", 0), settings.pop("segment_bytes", 0)
    if settings:
        raise DataError(
            f"Open MPI's rules have no place for {', '.join(settings)} of {operation}/{name}: leave it out",
            code="conflicting-options",
        )
    return names_table("ompi")[operation]["algorithms"][base], chains, length


def _name(operation: str, number: int, chains: int, length: int, where: str) -> str | None:
    """Return the algorithm of a number, None for 0."""
    if number == 0:
        return None
    algorithms: dict[str, int] = names_table("ompi")[operation]["algorithms"]
    known = {of: name for name, of in reversed(algorithms.items())}
    if number not in known:
        numbers = ", ".join(f"{of} ({known[of]})" for of in sorted(known))
        raise ScheduleError(
            f"{where}: labkit has no counterpart of Open MPI's {operation} algorithm {number}; "
            f"it has those of 0 (Open MPI's choice), {numbers}",
            code="no-counterpart",
        )
    name, parameters = known[number], registry.get(operation, known[number]).parameters
    if chains and "chains" in parameters:
        name += f":chains={chains}"
    if length and (operation, known[number]) in _WHOLE:
        raise ScheduleError(
            f"{where}: labkit's {operation}/{known[number]} has no segments, got a segment's "
            f"length of {length}; write 0, or take an algorithm that has them",
            code="no-counterpart",
        )
    if length and "segments" in parameters:
        name += f":segment_bytes={length}"
    return name


def _factor(operation: str, band: Band) -> int:
    return max(1, int(band.low)) if names_table("ompi")[operation].get("counts_all") else 1


def _amount(operation: str) -> str:
    return "total_bytes" if names_table("ompi")[operation].get("counts_all") else "bytes"


def write_classic(operation: str, bands: Sequence[Band], title: str) -> str:
    """Write the classic form."""
    lines = [f"# {title}", "1  # one operation"]
    lines += [f"{names_table('ompi')[operation]['collective']}  # {operation}"]
    lines.append(f"{len(bands)}  # numbers of ranks")
    for band in bands:
        lines += [f"{int(band.low)}  # ranks and more", f"{len(band.steps)}  # sizes"]
        factor = _factor(operation, band)
        for step in band.steps:
            number, chains, length = _code(operation, step.name)
            end = "" if step.high == inf else f", below {int(step.high) * factor}"
            lines.append(f"{int(step.low) * factor} {number} {chains} {length}  # {step.name}{end}")
    return "\n".join(lines) + "\n"


def read_classic(text: str, where: str) -> Rules:
    """Read the classic form."""
    numbers = _numbers(text, where)
    version = next(numbers)
    rows: list[dict[str, object]] = []
    by_id = {entry["collective"]: name for name, entry in names_table("ompi").items()}
    for _ in range(_next(numbers, "the number of collectives", where)):
        which = _next(numbers, "a collective's number", where)
        if which not in by_id:
            known = ", ".join(f"{number} ({name})" for number, name in sorted(by_id.items()))
            raise ScheduleError(
                f"{where}: collective {which} is not known to labkit; it knows {known}", code="unknown-name"
            )
        operation = by_id[which]
        starts: list[tuple[int, list[SizeBand]]] = []
        for _ in range(_next(numbers, f"how many numbers of ranks {operation} has", where)):
            ranks = _next(numbers, "a number of ranks", where)
            count = _next(numbers, "how many sizes there are", where)
            found = [_size(numbers, operation, version, where) for _ in range(count)]
            if not found or found[0][0] != 0:
                raise ScheduleError(
                    f"{where}: the rules of {operation} for {ranks} ranks begin with size 0",
                    code="malformed-line",
                )
            _require_rising([size for size, _ in found], f"sizes of {operation} for {ranks} ranks", where)
            ends = [*(float(size) for size, _ in found[1:]), inf]
            steps = [SizeBand(low, high, name) for (low, name), high in zip(found, ends, strict=True)]
            starts.append((ranks, steps))
        _require_rising([ranks for ranks, _ in starts], f"numbers of ranks of {operation}", where)
        highs = [*(float(ranks) for ranks, _ in starts[1:]), inf]
        # below the first number of ranks Open MPI takes the first one's rules
        lows = [0, *(ranks for ranks, _ in starts[1:])]
        bands = [Band(low, high, steps) for low, high, (_, steps) in zip(lows, highs, starts, strict=False)]
        rows += rows_of(operation, bands, _amount(operation))
    if (rest := next(numbers, None)) is not None:
        raise ScheduleError(
            f"{where}: unexpected numbers after the last rule, from {rest} on", code="malformed-line"
        )
    return Rules(rows, where)


def _numbers(text: str, where: str) -> Iterator[int]:
    """Yield the file's version, then its numbers."""
    words = [word for line in text.splitlines() for word in line.partition("#")[0].split()]
    version = "1"
    if words and words[0].startswith(_VERSION):
        version = words.pop(0).removeprefix(_VERSION)
    for word in (version, *words):
        if not (word.isascii() and word.isdecimal() and len(word) < 19):
            raise ScheduleError(
                f"{where}: Open MPI's rules are whole numbers, with comments behind '#'; got {word[:40]!r}",
                code="malformed-value",
            )
        yield int(word)


def _next(numbers: Iterator[int], what: str, where: str) -> int:
    found = next(numbers, None)
    if found is None:
        raise ScheduleError(f"{where}: Open MPI's rules end where {what} should stand", code="malformed-line")
    return found


def _size(numbers: Iterator[int], operation: str, version: int, where: str) -> tuple[int, str | None]:
    size, number, chains, length = (
        _next(numbers, word, where) for word in ("a size", "an algorithm", "a fan-out", "a segment's length")
    )
    if version >= 2:
        _next(numbers, "a limit on requests", where)  # labkit's algorithms post what they post
    return size, _name(operation, number, chains, length, where)


def _require_rising(values: list[int], what: str, where: str) -> None:
    if any(later <= earlier for earlier, later in pairwise(values)):
        raise ScheduleError(f"{where}: {what} rise; got {', '.join(map(str, values))}", code="not-sorted")


def write_json(operation: str, bands: Sequence[Band], title: str) -> str:
    """Write JSON; as `write_classic`."""
    groups = []
    for band in bands:
        factor = _factor(operation, band)
        rules = []
        for step in band.steps:
            number, chains, length = _code(operation, step.name)
            rule = {"msg_size_min": int(step.low) * factor, "msg_size_max": _last(step.high * factor)}
            rule |= {"alg": number}  # the names change from version to version
            rule |= {key: n for key, n in (("faninout", chains), ("seg_size", length)) if n}
            rules.append(rule)
        groups.append({"comm_size_min": int(band.low), "comm_size_max": _last(band.high), "rules": rules})
    name = names_table("ompi")[operation].get("json", operation)
    table = {"rule_file_version": 3, "module": "tuned", "collectives": {name: groups}}
    return json.dumps(table, indent=1) + "\n"


def _last(below: float) -> int | str:
    return "inf" if below == inf else int(below) - 1


def read_json(table: dict[str, object], where: str) -> Rules:
    """Read JSON that is parsed already."""
    _refuse_unknown(table, _KEYS["file"], "a file of rules", where)
    version = table.get("rule_file_version", 3)
    if version not in (1, 2, 3):
        raise ScheduleError(
            f"{where}: rule_file_version is 1, 2 or 3, got {version!r}", code="unsupported-version"
        )
    if table.get("module", "tuned") != "tuned":
        raise ScheduleError(
            f"{where}: these are rules of Open MPI's module {table['module']!r}; labkit reads 'tuned'",
            code="no-counterpart",
        )
    by_name = {entry.get("json", name): name for name, entry in names_table("ompi").items()}
    collectives = table.get("collectives")
    if not isinstance(collectives, dict):
        raise ScheduleError(
            f"{where}: 'collectives' is a table of collectives, got {collectives!r}", code="wrong-type"
        )
    rows: list[dict[str, object]] = []
    for name, groups in collectives.items():
        if name not in by_name:
            raise ScheduleError(
                f"{where}: {name!r} is not known to labkit; of Open MPI it knows {', '.join(by_name)}",
                code="unknown-name",
            )
        operation = by_name[name]
        ranges = [
            (*_bounds(_checked(group, where), "comm_size", where), _steps(operation, group, where))
            for group in _tables(groups, f"{name}: numbers of ranks", where)
        ]
        rows += rows_of(operation, first_matches(ranges, Band), _amount(operation))
    return Rules(rows, where)


def _tables(value: object, what: str, where: str) -> list[dict[str, object]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise ScheduleError(f"{where}: {what} are a list of tables, got {value!r}", code="wrong-type")
    return value


#: the keys of the schema that Open MPI's manual has
_KEYS = {
    "file": ("rule_file_version", "module", "collectives", "$schema"),
    "group": ("comm_size_min", "comm_size_max", "comm_rank_distribution", "rules"),
    "rule": ("msg_size_min", "msg_size_max", "alg", "faninout", "seg_size", "reqs", "bine_imp"),
}


def _refuse_unknown(table: Mapping[str, object], known: Sequence[str], what: str, where: str) -> None:
    for key in table:
        if key not in known:
            raise ScheduleError(
                f"{where}: {what} has no key {key[:80]!r}{nearest(key, known)}; it has {', '.join(known)}",
                code="unknown-name",
            )


def _checked(group: dict[str, Any], where: str) -> dict[str, object]:
    """Refuse unknown keys, and rules for one distribution of the ranks over nodes."""
    _refuse_unknown(group, _KEYS["group"], "a number of ranks", where)
    found = group.get("comm_rank_distribution", "any")
    if found != "any":
        raise ScheduleError(
            f"{where}: rules for comm_rank_distribution {found!r} cannot be read: labkit's calls do not pass "
            "how their ranks are spread; leave the rule out, or say 'any'",
            code="no-counterpart",
        )
    return group


def _bounds(table: dict[str, object], key: str, where: str) -> tuple[float, float]:
    """Return a range: from, and below."""
    ends = []
    for suffix, default in (("min", 0), ("max", "inf")):
        value = table.get(f"{key}_{suffix}", default)
        if isinstance(value, str) and value.lower() == "inf":
            value = inf
        if isinstance(value, bool) or not (isinstance(value, int) or value == inf) or value < 0:
            raise ScheduleError(
                f"{where}: {key}_{suffix} must be an integer or 'inf', got {value!r}", code="wrong-type"
            )
        ends.append(value)
    if ends[1] < ends[0]:
        raise ScheduleError(
            f"{where}: {key}_min = {ends[0]} is above {key}_max = {ends[1]}: no call has such a size",
            code="malformed-line",
        )
    return ends[0], ends[1] + 1


def _steps(operation: str, group: Mapping[str, object], where: str) -> list[SizeBand]:
    ranges = []
    for rule in _tables(group.get("rules"), f"{operation}: the rules of numbers of ranks", where):
        _refuse_unknown(rule, _KEYS["rule"], "a rule", where)
        low, high = _bounds(rule, "msg_size", where)
        number = _number(operation, rule.get("alg"), where)
        chains, length = (_whole(rule.get(key, 0), key, where) for key in ("faninout", "seg_size"))
        ranges.append((low, high, (_name(operation, number, chains, length, where),)))
    return first_matches(ranges, lambda low, high, name: SizeBand(low, high, name[0]))


def _number(operation: str, value: object, where: str) -> int:
    names = names_table("ompi")[operation]["names"]
    if isinstance(value, str) and value in names:
        return int(names.index(value))
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ScheduleError(
        f"{where}: alg of {operation} is a number or one of {', '.join(names)}; got {value!r}",
        code="wrong-type",
    )


def _whole(value: object, key: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ScheduleError(f"{where}: {key} must be an integer, got {value!r}", code="wrong-type")
    return value
