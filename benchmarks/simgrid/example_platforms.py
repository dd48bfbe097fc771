"""SimGrid's own example platforms: which of them labkit reads, and whether both predict the same on them.

Every XML file below the given folders (``examples/platforms`` and ``teshsuite/platforms`` of SimGrid's
sources) is read; on those that can be, three collectives run on up to 16 hosts, under smpirun with the file
as it is.

    cd simgrid-3.32; python .../example_platforms.py examples/platforms teshsuite/platforms
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import driver
import numpy as np

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines.platform import Platform
from tests.support.message_program import run_program

PROGRAM = "*: allreduce 10000; mark; alltoall_linear 20000; mark; bcast 100000 0; mark"
MOST_RANKS, LOOKED_AT = 16, 64
TOLERANCE = 1e-6


def joined(machine: Platform) -> list[int]:
    """Choose hosts that all have ways to each other, spread over the machine."""
    count = machine.hosts or 0
    some = range(0, count, -(-count // LOOKED_AT))
    chosen: list[int] = []
    for host in some:
        try:
            machine.description.build([*chosen, host])
        except PlatformError:
            continue
        chosen.append(host)
    step = -(-len(chosen) // MOST_RANKS)
    return chosen[::step]


def compare(path: Path, folder: Path) -> str:
    """One line about a file."""
    try:
        machine = lk.platform(path)
    except PlatformError as error:
        return f"refused  {str(error).removeprefix(str(path))[:150]}"
    hosts = joined(machine)
    if len(hosts) < 2:
        return "read     one host"
    placed = machine.mapped(hosts)
    ours = run_program(PROGRAM, len(hosts), placed, machine.model).marks
    off = []
    for update in ("Lazy", "Full"):  # what the default, the first, does wrong: README.md
        extra = ("surf/precision:1e-13", f"network/optim:{update}")
        try:
            theirs = driver.run(
                PROGRAM, len(hosts), placed, machine.model, folder, extra, 120, path.read_text()
            ).marks
        except RuntimeError as error:
            reason = [line for line in str(error).splitlines() if "rror" in line or "CRITICAL" in line]
            return f"SimGrid fails: {(reason or [''])[0][-120:]}"
        off.append(float(np.max(np.abs(np.array(ours) / np.array(theirs) - 1))))
        if off[-1] < TOLERANCE:
            break
    said = "DIFFERENT" if off[-1] >= TOLERANCE else "equal" if len(off) == 1 else "equal-by-full-update"
    return f"{said:<10} {len(hosts)} ranks, {', '.join(f'{one:.1e}' for one in off)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=Path)
    arguments = parser.parse_args()
    if not driver.is_there():
        print("smpirun and smpicc are not installed (Debian: libsimgrid-dev)")
        return 0
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for path in sorted(file for folder in arguments.folders for file in folder.rglob("*.xml")):
            line = compare(path, Path(temporary))
            counts[line.split()[0]] = counts.get(line.split()[0], 0) + 1
            print(f"{path.name:<55} {line}", flush=True)
    print(", ".join(f"{name}: {number}" for name, number in sorted(counts.items())))
    return int(counts.get("DIFFERENT", 0) > 0)


if __name__ == "__main__":
    sys.exit(main())
