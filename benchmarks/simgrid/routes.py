"""Asks SimGrid for its routes, link by link, and writes ``tests/golden/simgrid_routes.json``.

Needs g++ and SimGrid 3.32 (Debian: libsimgrid-dev). Regenerating needs a reason in the commit.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

import driver
import golden_files
from topology_cases import SMALL

from labkit.machines.platform import platform
from labkit.machines.xml.writer import platform_xml

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_routes.json"
SPECS = [
    *(spec for spec, _ in SMALL),
    "torus:1",
    "torus:2",
    "torus:3",
    "torus:8",
    "torus:5x4",
    "torus:1x5",
    "torus:2x3x2x2",
    "torus:4x4,limiter=1GBps,sharing=shared",
    "fattree:1:1:1",
    "fattree:1x3x1:2x1x2:1x2x2",
    "fattree:4x4:2x2:2x1,limiter=1GBps",
    "fattree:3x3x2:2x2x1:2x1x3",
    "fattree:3x2:1x3:2x2,sharing=shared",
    "fattree",
    "torus",
    "dragonfly:1x1:1x1:1x1:3",
    "dragonfly:1x2:1x3:5x4:2",
    "dragonfly:2x1:4x1:3x1:1",
    "dragonfly:3x2:2x3:3x1:1,limiter=1GBps,loopback_bw=6GBps,loopback_lat=100ns",
    "dragonfly:3x2:3x1:3x2:1,sharing=shared",
    "dragonfly:2x3:2x1:2x1:2,limiter=1GBps,sharing=shared",
    "dragonfly:4x4:1x1:5x1:1",
    "dragonfly",
]


def ask(folder: Path, spec: str) -> dict[str, object]:
    """Every route of one platform, as SimGrid prints them."""
    machine = platform(spec)
    ranks = machine.capacity or 12
    (folder / "platform.xml").write_text(platform_xml(machine, ranks))
    said = subprocess.run(
        [str(folder / "routes"), str(folder / "platform.xml")], capture_output=True, text=True, check=True
    ).stdout
    return {"spec": spec, "ranks": ranks, **golden_files.pack_routes(said.splitlines())}


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = str(Path(__file__).with_name("routes.cpp"))
        subprocess.run(["g++", "-std=c++17", source, "-o", str(folder / "routes"), "-lsimgrid"], check=True)
        platforms = [ask(folder, spec) for spec in SPECS]
    command = "g++ -std=c++17 routes.cpp -o routes -lsimgrid && ./routes platform.xml"
    head = {"simgrid": driver.version(), "command": command, "platforms": platforms}
    GOLDEN.write_text(json.dumps(head, indent=0) + "\n")
    print(f"{sum(len(p['routes']) for p in platforms)} routes of {len(platforms)} platforms")  # type: ignore[arg-type, misc]


if __name__ == "__main__":
    main()
