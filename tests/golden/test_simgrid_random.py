"""Random programs on random machines: windows of messages, wildcards, probes, collectives of groups.

The figures are SimGrid 3.32's own: ``benchmarks/simgrid/goldens.py --random`` asked for them, and
``benchmarks/simgrid/compare.py --fuzz`` runs others live. The machines come from the files that SimGrid read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import communicator
import numpy as np
import pytest

import labkit as lk
from labkit.machines import models
from labkit.machines.mapping import mapping_of
from labkit.machines.platform import Platform
from tests.support.message_program import run_program

GOLDEN = json.loads((Path(__file__).parent / "simgrid_random.json").read_text())
RUNS = {run["name"]: run for run in GOLDEN["runs"]}


def machine_of(run: dict[str, Any], folder: Path) -> Platform:
    path = folder / "p.xml"
    path.write_text(run["platform_xml"])
    return Platform(lk.platform(path).description, mapping=mapping_of(run["hosts"]))


def check(ours: np.ndarray, run: dict[str, Any]) -> None:
    """Within 1e-9 of the time since the program's begin, at every mark of every rank."""
    start = GOLDEN["start_s"] if "until" in run["program"] else 0.0
    np.testing.assert_allclose(ours - start, np.concatenate(run["marks_s"]) - start, rtol=1e-9)


def test_there_are_programs_of_every_kind() -> None:
    assert GOLDEN["simgrid"] == "3.32"
    assert {name.split("-")[1] for name in RUNS} == {"windows", "wildcards", "collectives", "mix"}
    words = " ".join(run["program"] for run in GOLDEN["runs"])
    for word in ("iprobe", "waitany", "sendrecv", "issend", "comm ", "@0", "recv -1", "gatherv"):
        assert word in words


@pytest.mark.parametrize("name", RUNS)
def test_the_communicators_calls_take_simgrids_time(name: str, tmp_path: Path) -> None:
    run = RUNS[name]
    model = models.get(run["model"], **run["options"])
    machine = machine_of(run, tmp_path)
    ours, _ = communicator.marks_of(run["program"], len(run["hosts"]), machine, model, run["algorithms"])
    check(ours, run)


@pytest.mark.parametrize("name", [n for n in RUNS if not communicator.needs_communicator(RUNS[n]["program"])])
def test_message_programs_take_simgrids_time(name: str, tmp_path: Path) -> None:
    run = RUNS[name]
    model = models.get(run["model"], **run["options"])
    got = run_program(run["program"], len(run["hosts"]), machine_of(run, tmp_path), model)
    check(np.concatenate(got.marks), run)
