"""The choices of SMPI's selectors: found by the times of its algorithms, and kept for a test.

``python benchmarks/simgrid/smpi_selectors.py [COLLECTIVE ...]`` runs every collective under each selector of
smpirun (its `default`, `ompi`, `mpich`, `mvapich2`, `impi`) and under every algorithm by name. All calls of
one size begin at the same moment of simulated time, so the selector took an algorithm whose ranks all end at
the same bits. Points that no algorithm of `smpi_names.toml` explains, and those where the selector takes an
algorithm that then aborts on so many ranks, are left out and counted. It writes
`tests/golden/simgrid_selectors.json`; of collectives that are not named its points stay.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from pathlib import Path

import driver
from smpi_names import TABLE, WORDS

from labkit.machines.models import get
from labkit.machines.platform import platform

GOLDENS = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_selectors.json"
RANKS = (3, 6, 8, 12, 17, 33)
SIZES = (16, 250, 700, 6000, 40_000, 200_000, 600_000)
#: labkit's selector -> smpirun's word
SELECTORS = {
    "smpi": "default",
    "ompi": "ompi",
    "mpich": "mpich",
    "mvapich2": "mvapich2",
    "impi": "impi",
}
#: of one call: far more than any takes
SLOT_NS = 60_000_000_000
#: what SMPI's default takes there has no name: another's equal time would say nothing
NAMELESS = {"smpi": ("gather", "reduce", "reduce_scatter")}
ROOTED = ("bcast", "gather", "reduce", "scatter")


def sizes_of(problem: str) -> tuple[int, ...]:
    return SIZES if problem != "barrier" else (0,)


def ends(
    problem: str, theirs: str, ranks: int, folder: Path, sizes: tuple[int, ...]
) -> dict[int, tuple[float, ...]]:
    """Return when each rank ended, by size; a call before may make communicators and is left out.

    A size begins at the same moment with whatever others it is asked for.
    """
    word, every = WORDS[problem], sizes_of(problem)
    driver.ALGORITHMS.clear()
    driver.ALGORITHMS[word] = f"smpi/{problem}:{theirs}"
    steps = []
    for turn, size in [(0, sizes[0]), *((1 + every.index(size), size) for size in sizes)]:
        words = [word, *([str(size)] if size else []), *(["0"] if problem in ROOTED else [])]
        steps.append(f"until {turn * SLOT_NS}; {' '.join(words)}; mark")
    spec = platform(f"star:{ranks},bw=1Gbps,lat=24us")
    marks = driver.run("*: " + "; ".join(steps), ranks, spec, get("smpi"), folder, limit_s=300).marks
    return dict(zip(sizes, list(zip(*marks, strict=True))[1:], strict=True))


def chosen_ends(problem: str, selector: str, ranks: int, folder: Path) -> dict[int, tuple[float, ...]]:
    """Return the same for a selector, without the sizes at which what it takes aborts."""
    sizes = sizes_of(problem)
    try:
        return ends(problem, selector, ranks, folder, sizes)
    except RuntimeError:
        found: dict[int, tuple[float, ...]] = {}
    for size in sizes:
        try:
            found |= ends(problem, selector, ranks, folder, (size,))
        except RuntimeError:
            print(f"{problem} on {ranks} ranks, {size} B: what SMPI's {selector} takes aborts", flush=True)
    return found


def main() -> int:
    """Measure and write; returns 0."""
    table = tomllib.loads(TABLE.read_text())
    chosen = sys.argv[1:] or list(WORDS)
    kept = [point for point in json.loads(GOLDENS.read_text()) if point[1] not in chosen]
    unexplained = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for problem in chosen:
            for ranks in RANKS:
                known = {}
                for theirs in table[problem]:
                    try:
                        known[theirs] = ends(problem, theirs, ranks, folder, sizes_of(problem))
                    except RuntimeError:
                        continue
                for mine, selector in SELECTORS.items():
                    if problem in NAMELESS.get(mine, ()):
                        continue
                    for size, found in chosen_ends(problem, selector, ranks, folder).items():
                        same = [theirs for theirs, times in known.items() if times[size] == found]
                        unexplained += not same
                        if same:
                            kept.append([mine, problem, ranks, size, same])
                print(problem, ranks, len(kept), "kept,", unexplained, "unexplained", flush=True)
    GOLDENS.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
