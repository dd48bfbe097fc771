"""Asks SimGrid for its routes and times on platforms of zones; writes ``tests/golden/simgrid_zones.json``.

Needs g++ and SimGrid 3.32 (Debian: libsimgrid-dev). Regenerating needs a reason in the commit.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import driver
from zone_platforms import PLATFORMS

import labkit as lk
from labkit.machines import models

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "simgrid_zones.json"
#: for all hosts: collectives; and two messages across
PROGRAMS = {
    "allreduce": ("*: allreduce 100000; mark\n", "smpi"),
    "alltoall_linear": ("*: alltoall_linear 20000; mark\n", "lab"),
    "bcast": ("*: bcast 1000 0; mark\n", "lv08"),
}
#: with weights that are sums of latencies, on numbers without rounding
EXACT_PROGRAMS = {
    f"alltoall_linear-{model}": ("*: alltoall_linear 20000; mark\n", model) for model in ("raw", "cm02")
}
#: of a pipe that two pairs of hosts share
PIPE_PROGRAMS = {
    f"pairs-{model}": (
        "0: send 1 0 1048560; mark\n1: recv 0 0 1048560; mark\n"
        "2: send 3 0 1048560; mark\n3: recv 2 0 1048560; mark\n",
        model,
    )
    for model in ("raw", "cm02")
}
#: while speeds, bandwidths and latencies change
CHANGING_PROGRAMS = {
    f"exchanges-{model}": (
        "*: compute 7000000; alltoall_linear 300000; mark; compute 20000000; alltoall_linear 1000; mark; "
        "alltoall_linear 2000000; mark; compute 90000000; allreduce 500000; mark\n",
        model,
    )
    for model in ("raw", "cm02", "lv08", "smpi", "lab")
}
SLOW_PROGRAMS = {
    f"exchanges-{model}": (
        "*: "
        + "".join(
            f"compute {300_000_000 + 70_000_000 * i}; alltoall_linear {200_000 + 300_000 * i}; mark; "
            for i in range(9)
        )
        + "\n",
        model,
    )
    for model in ("raw", "cm02", "lv08", "smpi", "lab")
}


def programs(name: str) -> dict[str, tuple[str, str]]:
    """What runs on a platform."""
    if name == "pipe-exact":
        return PIPE_PROGRAMS
    if name == "changing-one-way":
        return SLOW_PROGRAMS
    if name == "changing":
        return CHANGING_PROGRAMS
    return EXACT_PROGRAMS if name.endswith("exact") else PROGRAMS


def with_files(xml: str, folder: Path) -> str:
    """Write each trace into a file: SimGrid 3.32 has traces of hosts, and ends where one is of a link."""
    root = ElementTree.fromstring(xml.encode())
    traces = {one.get("id"): one for one in root.findall("trace")}
    elements = {one.get("id"): one for one in root.iter() if one.tag in ("host", "link")}
    for number, one in enumerate(root.findall("trace_connect")):
        trace = traces[one.get("trace")]
        period = float(trace.get("periodicity", "-1"))
        head = f"PERIODICITY {period}\n" if period > 0 else ""
        (folder / f"profile{number}").write_text(head + (trace.text or "").lstrip())
        name = one.get("element", "").removesuffix("_UP").removesuffix("_DOWN")
        elements[name].set(f"{one.get('kind', '').lower()}_file", f"profile{number}")
        root.remove(one)
    for trace in traces.values():
        root.remove(trace)
    return (
        "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
        + ElementTree.tostring(root, encoding="unicode")
    )


def ask(folder: Path, name: str, xml: str) -> dict[str, Any]:
    """Every route and the end of every program of one platform."""
    path = folder / f"{name}.xml"
    path.write_text(xml)
    machine = lk.platform(path)
    ranks = machine.hosts or 0
    hosts = [machine.description.host_name(host) for host in range(ranks)]
    theirs = with_files(xml, folder) if "<trace " in xml else xml
    path.write_text(theirs)
    said = subprocess.run(
        [str(folder / "zone_routes"), str(path), *hosts],
        capture_output=True, text=True, check=True, cwd=folder,
    ).stdout  # fmt: skip
    runs = {}
    for program, (text, model) in programs(name).items():
        # Its clock's grain of 1 ns, its lazy updates and its sharing's precision show in loads that are not
        # synchronized (README.md).
        fine = ("surf/precision:1e-13", "network/optim:Full", "maxmin/precision:1e-9")
        measured = driver.run(text, ranks, machine, models.get(model), folder, fine, xml=theirs)
        runs[program] = {
            "program": text,
            "model": model,
            "marks": measured.marks,
            "command": measured.command,
        }
    return {"name": name, "xml": xml, "hosts": hosts, "routes": said.splitlines(), "runs": runs}


def main() -> None:
    if not driver.is_there():
        print("SimGrid is not installed here: nothing is measured")
        return
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        source = str(Path(__file__).with_name("zone_routes.cpp"))
        target = str(folder / "zone_routes")
        subprocess.run(["g++", "-std=c++17", source, "-o", target, "-lsimgrid"], check=True)
        platforms = [ask(folder, name, xml) for name, xml in PLATFORMS.items()]
    GOLDEN.write_text(json.dumps({"simgrid": driver.version(), "platforms": platforms}, indent=0) + "\n")
    print(f"{sum(len(p['routes']) for p in platforms)} routes of {len(platforms)} platforms")


if __name__ == "__main__":
    main()
