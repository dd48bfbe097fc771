"""Proves what fat pipes that unlike flows share depend on; writes ``tests/golden/simgrid_ties.json``.

    python benchmarks/simgrid/ties.py SOURCE [PROGRAMS]

SOURCE is the source tree of SimGrid 3.32 (Debian: ``apt-get source simgrid``). Its solver is compiled with
one comparison changed, and put in front of the installed library's (LD_PRELOAD); README.md says why, under
"Fat pipes stop unlike flows". Every machine runs under both, with cross-traffic and without. With a number of
PROGRAMS nothing is written: so many random ones run on random graphs under random models.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import driver
import numpy as np
from random_cases import EDGES, KINDS
from zone_platforms import graph

from labkit.machines import models
from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform, platform
from labkit.machines.zones.spec import zones_xml
from tests.support.message_program import run_program

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_ties.json"
FINE = ("surf/precision:1e-13", "network/optim:Full", "maxmin/precision:1e-9")
#: "does the flow reach its bound below the level?" as it is, and with a margin above the rounding
COMPARISON = "var.bound_ * var.sharing_penalty_ < min_usage)"
DECIDED = "var.bound_ * var.sharing_penalty_ < min_usage * (1 - 1e-12))"
PROGRAM = "*: alltoall_linear 20000; mark\n"
SEEDS = (2, 4, 5, 6, 7)


def changed_solver(source: Path, folder: Path) -> Path:
    """Compile the solver with the ties decided."""
    text = (source / "src/kernel/lmm/maxmin.cpp").read_text()
    if text.count(COMPARISON) != 1:
        raise SystemExit(f"{source} is not SimGrid 3.32: its solver has no {COMPARISON!r}")
    (folder / "maxmin.cpp").write_text(text.replace(COMPARISON, DECIDED))
    (folder / "src").mkdir()
    (folder / "src" / "internal_config.h").touch()
    library = folder / "decided.so"
    include = [f"-I{path}" for path in (folder, source, source / "include")]
    command = ["g++", "-std=c++17", "-O2", "-fPIC", "-shared", *include, str(folder / "maxmin.cpp")]
    subprocess.run([*command, "-o", str(library), "-lsimgrid"], check=True)
    return library


def measure(
    program: str, machine: Platform, model: NetworkModel, folder: Path, solver: Path
) -> dict[str, Any]:
    """Run it under SimGrid as it is and with its ties decided; how far labkit is from each."""
    ranks = machine.hosts or 0
    ours = np.concatenate(run_program(program, ranks, machine, model).marks)
    found: dict[str, Any] = {}
    for name, before in (("plain", ()), ("decided", ("-wrapper", f"env LD_PRELOAD={solver}"))):
        measured = driver.run(program, ranks, machine, model, folder, FINE, limit_s=60.0, before=before)
        theirs = np.concatenate(measured.marks)
        found[name] = theirs.tolist()
        found[f"{name}_difference"] = float((np.abs(ours - theirs) / theirs).max())
    return found


def ask(xml: str, has_cross: bool, folder: Path, solver: Path) -> dict[str, Any]:
    """A linear alltoall on a machine."""
    path = folder / "p.xml"
    path.write_text(xml)
    found = measure(PROGRAM, platform(path), models.get("lab", cross_traffic=has_cross), folder, solver)
    return {"cross_traffic": has_cross, "xml": xml, **found}


def try_random(count: int, folder: Path, solver: Path) -> None:
    """Random mixes and windows of messages on random graphs, and how many of them differ."""
    worst = {"plain": 0.0, "decided": 0.0}
    differ = {"plain": 0, "decided": 0}
    for seed in range(count):
        draw = Random(seed)
        hosts = draw.randrange(4, 11)
        routing = draw.choice(["dijkstra", "floyd"])
        machine = platform(graph(routing, seed, hosts, draw.randrange(6, 15), draw.randrange(1, 9)))
        program = KINDS[draw.choice(["mix", "windows", "windows"])](draw, hosts, EDGES)
        model = draw.choice(["cm02", "lv08", "smpi", "lab", "raw"])
        options = {"cross_traffic": draw.random() < 0.5} if model != "raw" else {}
        found = measure(program, machine, models.get(model, **options), folder, solver)
        for name in worst:
            worst[name] = max(worst[name], found[f"{name}_difference"])
            differ[name] += found[f"{name}_difference"] > 1e-12
    print(f"{count} random programs: as it is {differ['plain']} differ by up to {worst['plain']:.1e}, "
          f"with ties decided {differ['decided']}, largest difference {worst['decided']:.1e}")  # fmt: skip


def main(source: Path, programs: int) -> None:
    if not driver.is_there():
        print("SimGrid is not installed here: nothing is measured")
        return
    rows = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        solver = changed_solver(source, folder)
        if programs:
            try_random(programs, folder, solver)
            return
        for seed in SEEDS:
            for routing in ("dijkstra", "floyd"):
                xml = zones_xml(graph(routing, seed, 10, 14, 16))
                for has_cross in (True, False):
                    row = {"name": f"{routing}-{seed}", **ask(xml, has_cross, folder, solver)}
                    rows.append(row)
                    differences = f"{row['plain_difference']:.1e}, decided {row['decided_difference']:.1e}"
                    print(f"{row['name']:12} cross-traffic {has_cross!s:5}: as it is {differences}")
    kept = [row for row in rows if row["plain_difference"] > 1e-12 or row["name"].endswith("-2")]
    golden = {"simgrid": driver.version(), "changed": [COMPARISON, DECIDED], "program": PROGRAM, "runs": kept}
    GOLDEN.write_text(json.dumps(golden, indent=0) + "\n")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3) or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    main(Path(sys.argv[1]), int(sys.argv[2]) if sys.argv[2:] else 0)
