"""What SMPI's selectors choose: found by the times of its algorithms, and kept for a test.

``python benchmarks/simgrid/smpi_selectors.py`` runs every collective under each selector of smpirun (its
`default`, `ompi`, `mpich`) and under every algorithm by name. All calls of one size begin at the same moment
of simulated time, so the selector took an algorithm whose ranks all end at the same bits. Points that no
algorithm of `smpi_names.toml` explains are left out and counted. It writes
`tests/golden/simgrid_selectors.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
import tomllib
from pathlib import Path

import driver
from smpi_names import TABLE, WORDS

from labkit.platform.models import get
from labkit.platform.platform import platform

GOLDENS = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_selectors.json"
RANKS = (3, 6, 8, 12, 17, 33)
SIZES = (16, 700, 6000, 40_000, 200_000)
#: labkit's selector -> smpirun's word
SELECTORS = {"smpi": "default", "ompi": "ompi", "mpich": "mpich"}
#: of one call: far more than any takes
SLOT_NS = 60_000_000_000
#: what SMPI's default takes there has no name: another's equal time would say nothing
NAMELESS = {"smpi": ("gather", "reduce", "reduce_scatter")}
ROOTED = ("bcast", "gather", "reduce", "scatter")


def ends(problem: str, theirs: str, ranks: int, folder: Path) -> list[tuple[float, ...]]:
    """Return when each rank ended, for every size; the first call may make communicators and is left out."""
    word = WORDS[problem]
    driver.ALGORITHMS.clear()
    driver.ALGORITHMS[word] = f"smpi/{problem}:{theirs}"
    sizes = SIZES if problem != "barrier" else (0,)
    steps = []
    for turn, size in enumerate((sizes[0], *sizes)):
        words = [word, *([str(size)] if size else []), *(["0"] if problem in ROOTED else [])]
        steps.append(f"until {turn * SLOT_NS}; {' '.join(words)}; mark")
    spec = platform(f"star:{ranks},bw=1Gbps,lat=24us")
    marks = driver.run("*: " + "; ".join(steps), ranks, spec, get("smpi"), folder, limit_s=300).marks
    return list(zip(*marks, strict=True))[1:]


def main() -> int:
    """Measure and write; returns 0."""
    table = tomllib.loads(TABLE.read_text())
    kept, unexplained = [], 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for problem in WORDS:
            for ranks in RANKS:
                known = {}
                for theirs in table[problem]:
                    try:
                        known[theirs] = ends(problem, theirs, ranks, folder)
                    except RuntimeError:
                        continue
                for mine, selector in SELECTORS.items():
                    if problem in NAMELESS.get(mine, ()):
                        continue
                    try:
                        chosen = ends(problem, selector, ranks, folder)
                    except RuntimeError:  # it aborts on an algorithm of its own choice
                        print(f"{problem} on {ranks} ranks: SMPI's {selector} fails", flush=True)
                        continue
                    for turn, found in enumerate(chosen):
                        size = SIZES[turn] if problem != "barrier" else 0
                        same = [theirs for theirs, times in known.items() if times[turn] == found]
                        unexplained += not same
                        if same:
                            kept.append([mine, problem, ranks, size, same])
                print(problem, ranks, len(kept), "kept,", unexplained, "unexplained", flush=True)
    GOLDENS.write_text("[\n" + ",\n".join(map(json.dumps, kept)) + "\n]\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
