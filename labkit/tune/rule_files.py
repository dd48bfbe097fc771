"""Files of rules: labkit's own, and Open MPI's dynamic rules."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.tune.tree import Leaf

__all__ = ["library_names", "write_rules"]

_CODES = {"ompi": "Open MPI"}


def write_rules(
    path: Path, operation: str, tree: Sequence[Leaf], rows: Sequence[Mapping[str, Any]], title: str,
    ranks: Sequence[int],
) -> Path:  # fmt: skip
    """Write a tree in the form that the file's ending says; see `labkit.tune.Tuned.save`.

    Raises
    ------
    DataError
        Another ending; an algorithm that Open MPI has not; a file that cannot be written.
    """
    if path.suffix == ".json":
        text = json.dumps({"title": title, "rules": list(rows)}, indent=1) + "\n"
    elif path.suffix == ".toml":
        body = "".join(
            f"  {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in row.items())} }},\n" for row in rows
        )
        text = f"title = {json.dumps(title)}\n\nrules = [\n{body}]\n"
    elif path.suffix == ".conf":
        text = _open_mpi(operation, tree, title, ranks)
    else:
        raise DataError(
            f"{path.name}: rules are written as .toml or .json (labkit's own), or .conf (Open MPI's)"
        )
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    return path


@cache
def _table(library: str) -> Any:
    return tomllib.loads(
        (files("labkit.datasets") / "selectors" / f"{library}_names.toml").read_text("utf-8")
    )


def library_names(library: str, operation: str) -> list[str]:
    """Return those of labkit's algorithms of an operation that an MPI library has.

    Raises
    ------
    DataError
        For a library or an operation without a table.
    """
    if library not in _CODES:
        raise DataError(f"library is one of {', '.join(_CODES)}; got {library!r}")
    table = _table(library)
    if operation not in table:
        raise DataError(
            f"{_CODES[library]}'s {operation} cannot be tuned; it has rules for {', '.join(table)}"
        )
    return list(table[operation]["algorithms"])


def _open_mpi(operation: str, tree: Sequence[Leaf], title: str, ranks: Sequence[int]) -> str:
    """Write the classic form: for numbers of ranks and more, for sizes and more, the algorithm's number.

    Open MPI takes the rule of the largest number of ranks that is not above the communicator's, and in it the
    largest size that is not above the message's; of some operations it counts the bytes of all blocks.
    """
    known = library_names("ompi", operation)
    entry = _table("ompi")[operation]
    unknown = sorted({leaf.algorithm for leaf in tree if leaf.algorithm.partition(":")[0] not in known})
    if unknown:
        raise DataError(
            f"Open MPI has no {operation}/{', '.join(unknown)}: tune with library='ompi', which tries "
            "its own only"
        )
    starts = sorted({1, *(int(leaf.ranks[0]) for leaf in tree if leaf.ranks[0] > 0)})
    if entry.get("counts_all"):  # sizes depend on p: a rule for every number of ranks that was tried
        starts = sorted({*starts, *ranks})
    lines = [f"# {title}", "1  # one operation", f"{entry['collective']}  # {operation}"]
    lines.append(f"{len(starts)}  # numbers of ranks")
    for start in starts:
        here = sorted(
            (leaf for leaf in tree if leaf.ranks[0] <= start < leaf.ranks[1]), key=lambda leaf: leaf.bytes
        )
        lines += [f"{start}  # ranks and more", f"{len(here)}  # sizes"]
        factor = start if entry.get("counts_all") else 1
        for leaf in here:
            name, *settings = leaf.algorithm.split(":")
            lengths = [int(word.partition("=")[2]) for word in settings if word.startswith("segment_bytes=")]
            low = int(leaf.bytes[0]) * factor
            end = "" if leaf.bytes[1] == inf else f", below {int(leaf.bytes[1]) * factor}"
            lines.append(
                f"{low} {entry['algorithms'][name]} 0 {lengths[0] if lengths else 0}  # {leaf.algorithm}{end}"
            )
    return "\n".join(lines) + "\n"
