"""The stored figures of SimGrid: one file a kind, one case a line, in the order of their names."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

__all__ = ["FOLDER", "KINDS", "every_golden", "pack_routes", "read", "text_of", "unpack_routes", "write"]

FOLDER = Path(__file__).parents[2] / "tests" / "golden" / "simgrid"
#: first word of a case's name (without the collective's algorithm) -> the file that has it
KINDS = {
    **{name: name for name in ("allgather", "allreduce", "alltoall", "bcast", "cores")},
    **dict.fromkeys(("barrier", "gather", "reduce", "scatter"), "rooted"),
    **dict.fromkeys(("any", "blocking", "posted", "wide"), "mixes"),
    **dict.fromkeys(("exchange", "fan", "iprobe", "linear", "pairs", "pingpong", "ring"), "pairs"),
    **dict.fromkeys(("self", "several", "two", "wtime", "zero"), "pairs"),
}


def kind_of(name: str) -> str:
    """Return the file's name for a case; the exchanges of every pair have one a topology."""
    first, second, *_ = name.split("-")
    return f"every_pair_{second}" if first == "everypair" else KINDS[first.split("_")[0]]


def text_of(cases: dict[str, dict[str, Any]]) -> str:
    """Return the text of a file: sorted, a case a line."""
    rows = [f"{json.dumps(name)}: {json.dumps(cases[name], sort_keys=True)}" for name in sorted(cases)]
    return "{\n" + ",\n".join(rows) + "\n}\n"


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the cases of a file by their names; none where there is no file."""
    cases: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
    return cases


def write(case: dict[str, Any]) -> None:
    """Put a case into the file of its kind, in the place of the one that was there."""
    path = FOLDER / f"{kind_of(case['name'])}.json"
    path.write_text(text_of(read(path) | {case["name"]: case}))


@cache
def every_golden() -> dict[str, dict[str, Any]]:
    """Return all cases by their names."""
    found = [item for path in FOLDER.glob("*.json") for item in read(path).items()]
    return dict(sorted(found))


def pack_routes(lines: list[str]) -> dict[str, list[str]]:
    """Return routes ``source destination latency link ...`` with numbers of links, and the links' names."""
    numbers: dict[str, int] = {}
    packed = []
    for line in lines:
        words = line.split(" ")
        links = [str(numbers.setdefault(name, len(numbers))) for name in words[3:]]
        packed.append(" ".join(words[:3] + links))
    return {"links": list(numbers), "routes": packed}


def unpack_routes(links: list[str], routes: list[str]) -> list[str]:
    """Return the routes as SimGrid printed them."""
    rows = (route.split(" ") for route in routes)
    return [" ".join(words[:3] + [links[int(number)] for number in words[3:]]) for words in rows]
