"""Predictions equal SimGrid 3.32's: every message program here, within 1e-6 relative at every mark.

The figures are SimGrid's own (benchmarks/simgrid/goldens.py measured them); each file holds the platform, the
command and the program. The programs of collectives are the messages of SimGrid's named algorithms.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import canonicalize

import numpy as np
import pytest

import labkit as lk
from labkit.platform import models
from labkit.platform.xml.writer import platform_xml
from tests.support.message_program import run_program

EVERY = sorted((Path(__file__).parent / "simgrid").glob("*.json"))
#: Collectives that message programs do not know are tested as schedules.
SCHEDULES_ONLY = re.compile(
    r"(allreduce|allgather|bcast|gather|reduce|reduce_scatter_block|scatter|barrier)_\w+-"
)
#: Of the communicator only: test_simgrid_communicator.py has them.
FILES = [
    path for path in EVERY if not SCHEDULES_ONLY.match(path.name) and path.stem.split("-")[0] != "iprobe"
]
TOLERANCE = 1e-6


def load(path: Path) -> dict[str, Any]:
    golden: dict[str, Any] = json.loads(path.read_text())
    return golden


def test_there_are_goldens_of_every_kind() -> None:
    names = {path.stem.split("-")[0] for path in FILES}
    assert names >= {
        "pingpong",
        "pairs",
        "exchange",
        "blocking",
        "posted",
        "any",
        "alltoall",
        "allreduce",
        "bcast",
    }
    assert all(load(path)["simgrid"] == "3.32" for path in EVERY)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_mark_agrees(path: Path) -> None:
    golden = load(path)
    machine = lk.platform(golden["spec"])
    model = models.get(golden["model"], **golden["options"])
    got = run_program(golden["program"], golden["ranks"], machine, model)
    assert [len(marks) for marks in got.marks] == [len(marks) for marks in golden["marks_s"]]
    ours, theirs = np.concatenate(got.marks), np.concatenate(golden["marks_s"])
    assert theirs.size
    excess = np.abs(ours - theirs) - TOLERANCE * theirs
    worst = int(excess.argmax())
    assert excess[worst] <= 0, f"mark {worst}: labkit {ours[worst]!r} s, SimGrid {theirs[worst]!r} s"


@pytest.mark.parametrize(
    "path", [p for p in FILES if p.stem.startswith("pingpong")], ids=lambda path: path.stem
)
def test_every_single_round_trip_agrees(path: Path) -> None:
    """Sums could hide an error of a small message behind the large ones: compare the differences too."""
    golden = load(path)
    got = run_program(
        golden["program"], 2, lk.platform(golden["spec"]), models.get(golden["model"], **golden["options"])
    )
    ours, theirs = np.diff(got.marks[0], prepend=0.0), np.diff(golden["marks_s"][0], prepend=0.0)
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE)


def elements(xml: str) -> str:
    """The elements of a platform file, whatever the spaces between them; host 0 alone may be called 0-0."""
    return canonicalize(xml.partition("?>")[2].replace('radical="0-0"', 'radical="0"'), strip_text=True)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: path.stem)
def test_the_platform_written_today_is_the_one_that_was_measured(path: Path) -> None:
    golden = load(path)
    today = platform_xml(lk.platform(golden["spec"]), golden["ranks"])
    assert elements(today) == elements(golden["platform_xml"])


def test_the_list_names_every_golden_and_nothing_else() -> None:
    rows = (Path(__file__).parent / "simgrid_cases.md").read_text().splitlines()
    listed = [row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")][1:]
    assert sorted(listed) == sorted(path.stem for path in EVERY)
