"""Predictions equal SimGrid 3.32's: every message program here, within 1e-6 relative at every mark.

The figures are SimGrid's own (benchmarks/simgrid/goldens.py measured them); each holds the platform, the
command and the program. The programs of collectives are the messages of SimGrid's named algorithms.
"""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree.ElementTree import canonicalize

import golden_files
import numpy as np
import pytest

import labkit as lk
from labkit.machines import models
from labkit.machines.xml.writer import platform_xml
from tests.support.message_program import run_program

EVERY = golden_files.every_golden()
#: Collectives that message programs do not know are tested as schedules.
SCHEDULES_ONLY = re.compile(
    r"(allreduce|allgather|bcast|gather|reduce|reduce_scatter_block|scatter|barrier)_\w+-"
)
#: Of the communicator only: test_simgrid_communicator.py has them.
CHOSEN = [name for name in EVERY if not SCHEDULES_ONLY.match(name) and not name.startswith("iprobe-")]
TOLERANCE = 1e-6


def test_there_are_goldens_of_every_kind() -> None:
    names = {name.split("-")[0] for name in CHOSEN}
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
    assert all(golden["simgrid"] == "3.32" for golden in EVERY.values())


@pytest.mark.parametrize("name", CHOSEN)
def test_every_mark_agrees(name: str) -> None:
    golden = EVERY[name]
    machine = lk.platform(golden["spec"])
    model = models.get(golden["model"], **golden["options"])
    got = run_program(golden["program"], golden["ranks"], machine, model)
    assert [len(marks) for marks in got.marks] == [len(marks) for marks in golden["marks_s"]]
    ours, theirs = np.concatenate(got.marks), np.concatenate(golden["marks_s"])
    assert theirs.size
    excess = np.abs(ours - theirs) - TOLERANCE * theirs
    worst = int(excess.argmax())
    assert excess[worst] <= 0, f"mark {worst}: labkit {ours[worst]!r} s, SimGrid {theirs[worst]!r} s"


@pytest.mark.parametrize("name", [name for name in CHOSEN if name.startswith("pingpong")])
def test_every_single_round_trip_agrees(name: str) -> None:
    """Sums could hide an error of a small message behind the large ones: compare the differences too."""
    golden = EVERY[name]
    got = run_program(
        golden["program"], 2, lk.platform(golden["spec"]), models.get(golden["model"], **golden["options"])
    )
    ours, theirs = np.diff(got.marks[0], prepend=0.0), np.diff(golden["marks_s"][0], prepend=0.0)
    np.testing.assert_allclose(ours, theirs, rtol=TOLERANCE)


def elements(xml: str) -> str:
    """The elements of a platform file, whatever the spaces between them; host 0 alone may be called 0-0."""
    return canonicalize(xml.partition("?>")[2].replace('radical="0-0"', 'radical="0"'), strip_text=True)


@pytest.mark.parametrize("name", EVERY)
def test_the_platform_written_today_is_the_one_that_was_measured(name: str) -> None:
    golden = EVERY[name]
    today = platform_xml(lk.platform(golden["spec"]), golden["ranks"])
    assert elements(today) == elements(golden["platform_xml"])


def test_the_list_names_every_golden_and_nothing_else() -> None:
    rows = (Path(__file__).parent / "simgrid_cases.md").read_text().splitlines()
    listed = [row.split(" | ")[0].removeprefix("| ") for row in rows if row.startswith("| ")][1:]
    assert sorted(listed) == sorted(EVERY)


@pytest.mark.parametrize("path", sorted(golden_files.FOLDER.glob("*.json")), ids=lambda path: path.stem)
def test_what_writes_the_goldens_would_write_them_so(path: Path) -> None:
    cases = golden_files.read(path)
    assert path.read_text() == golden_files.text_of(cases)
    assert {golden_files.kind_of(name) for name in cases} == {path.stem}
    assert all(case["name"] == name for name, case in cases.items())
    assert path.stat().st_size < 2**20


def test_a_case_measured_again_takes_its_own_place(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(golden_files, "FOLDER", tmp_path)
    few = [EVERY[name] for name in EVERY if name.startswith(("pairs-", "fan-", "any-"))]
    for case in [*few[::-1], few[0] | {"ranks": -1}, few[0]]:
        golden_files.write(case)
    written = {
        name: case for path in tmp_path.glob("*.json") for name, case in golden_files.read(path).items()
    }
    assert written == {case["name"]: case for case in few}
    assert {path.stem for path in tmp_path.glob("*.json")} == {"pairs", "mixes"}
