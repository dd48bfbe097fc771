"""The solver's hardest load: everybody sends unequal blocks to everybody, from different moments on.

A linear alltoall (all receives, all sends, one wait) of 0 to 128 KiB a block, ranks starting at random within
100 us, model `lab` with cross-traffic: one giant component of messages that all end at different times. CPU
time of the engine alone (the program's text is translated before), a process for each cell; the error is the
makespan's, relative to the exact one. A tolerance promises more than that: see `Run.tolerance`.

SimGrid runs the same program (`simgrid/interpret.c`) under smpirun, by CPU time, its start included; it is
given up after ``--simgrid`` seconds. Its default precision lets its makespan differ in the sixth digit.

    python benchmarks/unsynchronized.py [--ranks 256] [--on star:256 ...] [--tolerance 0 1e-3] [--simgrid 600]

Targets at 256 ranks and 1e-3: 40 us a message on the star, 90 on the fat tree, makespan within 5e-4.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import labkit as lk
from labkit.machines import models

sys.path.append(str(Path(__file__).parents[1]))  # for tests.support, wherever it is started

from tests.support.message_program import encode

LARGEST_BYTES = 131072
STAGGER_NS = 100_000
PLATFORMS = ("star:{p}", "fattree:{half}x{half}:1x{half}:1x1")
#: at 256 ranks, tolerance 1e-3: microseconds of CPU a message
TARGETS_US = {"star:256": 40.0, "fattree:16x16:1x16:1x1": 90.0}
TOLERANCES = (0.0, 1e-3, 1e-2)


def program(p: int, seed: int = 1) -> str:
    """Return the load as a message program."""
    rng = random.Random(seed)
    lines = []
    for rank in range(p):
        parts = [f"sleep {rng.randrange(STAGGER_NS)}"]
        parts += [f"irecv {k - 1} {(rank - k) % p} 7 {LARGEST_BYTES}" for k in range(1, p)]
        parts += [f"isend {p + k - 2} {(rank + k) % p} 7 {rng.randrange(LARGEST_BYTES)}" for k in range(1, p)]
        parts += [f"waitall {' '.join(map(str, range(2 * p - 2)))}", "mark"]
        lines.append(f"{rank}: {'; '.join(parts)}")
    return "\n".join(lines)


def measure(on: str, p: int, tolerance: float, cross_traffic: bool) -> dict[str, float]:
    """Run one cell in this process."""
    from labkit import _kernels

    code, offsets = encode(program(p), p)
    machine = lk.platform(on).build(p)
    model = models.get("lab", cross_traffic=cross_traffic).build()
    begin = time.process_time()
    got: dict[str, Any] = _kernels.run_message_program(machine, model, code, offsets, False, tolerance)
    used = time.process_time() - begin
    return {
        "us": used / got["messages"] * 1e6,
        "makespan_s": max(got["finish_s"]),
        "perturbation": got["perturbation"],
        "repairs": got["repairs"] / got["messages"],
    }


def cell(*words: str) -> dict[str, Any]:
    """Run one cell in a process of its own."""
    command = [sys.executable, __file__, "--cell", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["?"])[-1]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def simgrid(on: str, p: int, limit_s: float, exact_s: float) -> str:
    """Return what SimGrid has to say, or why it says nothing."""
    sys.path.insert(0, str(Path(__file__).parent / "simgrid"))
    import driver

    if not driver.is_there():
        return "smpirun is not here (Debian: apt install libsimgrid-dev); skipped"
    with tempfile.TemporaryDirectory() as folder:
        try:
            theirs = driver.run(
                program(p), p, lk.platform(on), models.get("lab"), Path(folder), limit_s=limit_s
            )
        except subprocess.TimeoutExpired:
            return f"not at an end after {limit_s:g} s"
    makespan_s = max(marks[-1] for marks in theirs.marks)
    each = theirs.cpu_seconds / (p * (p - 1)) * 1e6
    return f"{each:9.1f} {makespan_s:14.9f} {makespan_s / exact_s - 1:+10.1e}"


def table(on: str, p: int, tolerances: list[float], cross_traffic: bool, limit_s: float) -> None:
    """Print one machine's rows."""
    exact_s = float("nan")
    shown = on if cross_traffic else f"{on}, no cross-traffic"
    for tolerance in tolerances:
        got = cell(on, str(p), str(tolerance), str(int(cross_traffic)))
        name = f"tolerance {tolerance:g}" if tolerance else "exact"
        if "error" in got:
            print(f"{shown:38} {name:15} {got['error']}")
            continue
        if tolerance == 0:
            exact_s = got["makespan_s"]
        error = got["makespan_s"] / exact_s - 1
        figures = f"{got['us']:9.1f} {got['makespan_s']:14.9f} {error:+10.1e} {got['repairs']:8.1f}"
        promise = f" {got['perturbation']:9.1e}" if tolerance else ""
        is_target = tolerance == 1e-3 and cross_traffic and on in TARGETS_US
        aim = f"  (target: {TARGETS_US[on]:g})" if is_target else ""
        print(f"{shown:38} {name:15} {figures}{promise}{aim}", flush=True)
    if limit_s > 0 and cross_traffic:
        print(f"{on:38} {'SimGrid':15} {simgrid(on, p, limit_s, exact_s)}", flush=True)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=256, help="a square")
    parser.add_argument("--on", nargs="*", default=list(PLATFORMS))
    parser.add_argument("--tolerance", nargs="*", type=float, default=list(TOLERANCES))
    parser.add_argument("--without", action="store_true", help="without cross-traffic, too")
    parser.add_argument(
        "--simgrid", type=float, default=0.0, metavar="SECONDS", help="limit; 0 (default): not asked"
    )
    parser.add_argument("--cell", nargs=4, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.cell:
        on, p, tolerance, cross_traffic = chosen.cell
        print(json.dumps(measure(on, int(p), float(tolerance), cross_traffic == "1")))
        return 0
    p = chosen.ranks
    print(f"{'machine':38} {'sharing':15} us/message     makespan s      error  repairs certified")
    for on in (text.format(p=p, half=round(p**0.5)) for text in chosen.on):
        for cross_traffic in (True, False) if chosen.without else (True,):
            table(on, p, chosen.tolerance, cross_traffic, chosen.simgrid)
    if chosen.simgrid == 0:
        print("SimGrid was not asked: --simgrid 600 gives it ten minutes for each machine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
