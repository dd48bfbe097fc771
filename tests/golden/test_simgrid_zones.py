"""Zones in zones are routed and timed as SimGrid 3.32 does: every link of every route, every rank's clock.

The figures are SimGrid's own: ``benchmarks/simgrid/zone_routes.py`` asked for them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit.machines import models
from tests.support.message_program import run_program

GOLDEN = json.loads((Path(__file__).parent / "simgrid_zones.json").read_text())
PLATFORMS = {platform["name"]: platform for platform in GOLDEN["platforms"]}


@pytest.fixture
def machine(request: pytest.FixtureRequest, tmp_path: Path) -> lk.Platform:
    path = tmp_path / "p.xml"
    path.write_text(PLATFORMS[request.param]["xml"])
    return lk.platform(path)


def simgrids_name(name: str, machine: lk.Platform) -> str:
    """How SimGrid calls a link that a route of zones names; links of clusters by kind and host only."""
    if name == "common loopback":
        return "__loopback__"
    if found := re.fullmatch(r"(\w+): (.*)", name):
        cluster = next(c for c, _ in machine.description.assembly.clusters if c.name == found[1])  # type: ignore[attr-defined]
        numbers = list(cluster.numbers())
        if inner := re.fullmatch(r"(up|down|limiter|loopback) (\d+)", found[2]):
            kind = inner[1].upper() if inner[1] in ("up", "down") else inner[1]
            return f"{found[1]}_link_{numbers[int(inner[2])]}_{kind}"
        prefix = {"fattree": "link_from_", "dragonfly": "local_"}.get(
            cluster.spec.KIND, f"{found[1]}_link_from_"
        )
        return f"{found[1]}_backbone" if found[2] == "backbone" else prefix
    return re.sub(r" (up|down)$", lambda way: "_" + way[1].upper(), name)


def test_they_are_of_the_version_promised_and_many() -> None:
    assert GOLDEN["simgrid"] == "3.32"
    assert sum(len(platform["routes"]) for platform in GOLDEN["platforms"]) > 1100


@pytest.mark.parametrize(
    ("machine", "name"), [(n, n) for n in PLATFORMS], ids=list(PLATFORMS), indirect=["machine"]
)
def test_every_route_is_simgrids(machine: lk.Platform, name: str) -> None:
    golden = PLATFORMS[name]
    built = machine.build(machine.hosts or 0)
    number = {host: i for i, host in enumerate(golden["hosts"])}
    assert [machine.description.host_name(i) for i in range(machine.hosts or 0)] == golden["hosts"]
    others: dict[str, str] = {}
    seen = set()
    for line in golden["routes"]:
        src, dst, latency, *theirs = line.split()
        ours, own_latency = built.route(number[src], number[dst])
        seen.add((src, dst))
        assert len(ours) == len(theirs), line
        if name.startswith("dijkstra") or name == "nested":
            # In Dijkstra zones SimGrid 3.32 puts links in front of others; their order changes no time.
            ours.sort(key=lambda link: simgrids_name(link, machine))
            theirs.sort()
        for own, other in zip(ours, theirs, strict=True):
            expected = simgrids_name(own, machine)
            assert other == expected or (expected.endswith("_") and other.startswith(expected)), line
            assert others.setdefault(own, other) == other
        assert own_latency == pytest.approx(float(latency), rel=1e-12)
    assert len(seen) >= len(number) ** 2 - len(number)
    assert len(set(others.values())) == len(others)


#: Whom its fat pipes stop depends on rounding in SimGrid: see test_simgrid_ties.py.
ROUNDED = {("dijkstra-14", "alltoall_linear")}
CASES = [
    pytest.param(n, n, p, id=f"{n}-{p}")
    for n, platform in PLATFORMS.items()
    for p in platform["runs"]
    if (n, p) not in ROUNDED
]


@pytest.mark.parametrize(("machine", "name", "program"), CASES, indirect=["machine"])
def test_every_clock_is_simgrids(machine: lk.Platform, name: str, program: str) -> None:
    run = PLATFORMS[name]["runs"][program]
    got = run_program(run["program"], machine.hosts or 0, machine, models.get(run["model"]))
    ours, theirs = np.concatenate(got.marks), np.concatenate(run["marks"])
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)


EXACT = [(n, program) for n in PLATFORMS if n.endswith("-exact") for program in PLATFORMS[n]["runs"]]


@pytest.mark.parametrize(("machine", "name", "program"), [(n, n, p) for n, p in EXACT], indirect=["machine"])
def test_fat_pipes_stop_whom_simgrids_stop_where_nothing_is_rounded(
    machine: lk.Platform, name: str, program: str
) -> None:
    """Bandwidths and latencies are powers of two: no tie is left to rounding."""
    run = PLATFORMS[name]["runs"][program]
    got = run_program(run["program"], machine.hosts or 0, machine, run["model"])
    np.testing.assert_allclose(np.concatenate(got.marks), np.concatenate(run["marks"]), rtol=1e-12)


CHANGING = [(n, program) for n in PLATFORMS if n.startswith("changing") for program in PLATFORMS[n]["runs"]]


@pytest.mark.parametrize(
    ("machine", "name", "program"), [(n, n, p) for n, p in CHANGING], indirect=["machine"]
)
def test_what_changes_with_time_changes_as_in_simgrid(machine: lk.Platform, name: str, program: str) -> None:
    """Speeds, bandwidths and latencies, while messages are under way and while none is."""
    run = PLATFORMS[name]["runs"][program]
    got = run_program(run["program"], machine.hosts or 0, machine, models.get(run["model"]))
    np.testing.assert_allclose(np.concatenate(got.marks), np.concatenate(run["marks"]), rtol=1e-12)


def test_a_pipe_stops_the_flow_of_larger_weight_until_the_other_has_ended() -> None:
    """1 MiB at 16 MiB/s takes 1/16 s; meanwhile the pair eight times as far apart gets an eighth."""
    marks = PLATFORMS["pipe-exact"]["runs"]["pairs-cm02"]["marks"]
    near_s, far_s = 2 * 2.0**-20, 16 * 2.0**-20
    first = near_s + 1 / 16
    assert marks[0] == marks[1] == [pytest.approx(first, rel=1e-12)]
    assert marks[2] == marks[3] == [pytest.approx(first + (1 - (first - far_s) * 16 / 8) / 16, rel=1e-12)]
