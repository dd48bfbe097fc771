"""Published tables computed again: the registry, the comparison, and the recorded results."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from labkit.cli.main import main
from labkit.errors import DataError
from labkit.study.declared import DeclaredWork, Results, judge_all
from labkit.study.reproduction import Reproduction, find_reproductions, read_reproduction, recorded_values
from tests.support.refusals import raises_code

STUDIES = Path(__file__).parents[3] / "studies"
NAMES = sorted(find_reproductions(STUDIES))

PROGRAM = """
import labkit as lk


def program(comm, work="log"):
    p = comm.size
    lk.compute(seconds=1e-6 * (p.bit_length() - 1 if work == "log" else p))
"""
DECLARED = """
title = "two works"
program = "program.py:program"

[parameters]
ranks = [2, 4, 8, 16, 32]
work = ["log", "linear"]

[run]
repeats = 1

[[expect]]
growth = "log p"
where = { work = "log" }

[[expect]]
growth = "log p"
where = { work = "linear" }
"""
STUDY = """
title = "two works"
tables = [4]

[cells]
log = "Barrier"
linear = "Bcast"

[[machines]]
name = "here"
printed = "Juropa"
files = ["works.toml"]

[[causes]]
machine = "here"
cells = ["Bcast"]
change = "works again"
file = "works.toml"
"""


@pytest.fixture
def studies(tmp_path: Path) -> Path:
    folder = tmp_path / "studies" / "small"
    folder.mkdir(parents=True)
    (folder / "program.py").write_text(PROGRAM)
    (folder / "works.toml").write_text(DECLARED)
    (folder / "study.toml").write_text(STUDY)
    return tmp_path / "studies"


def reproduce(studies: Path, *more: str) -> int:
    results = str(studies.parent / "results")
    return main(["reproduce", "small", "--studies", str(studies), "--results", results, *more])


def test_cells_are_compared_by_their_symbols(studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(studies, "--json") == 0
    record = json.loads(capsys.readouterr().out)
    cells = {cell["function"]: cell for cell in record["cells"]}
    # Juropa in table 4: Barrier none, Bcast approximate; here log p is exact, and p against log p none
    assert (cells["Barrier"]["match"], cells["Barrier"]["agreement"]) == ("exact", "different")
    assert (cells["Bcast"]["match"], cells["Bcast"]["agreement"]) == ("none", "close")
    assert cells["Bcast"]["why"] == "with works again: p, none, not as printed"
    assert cells["Reduce"]["agreement"] == "not run"
    assert cells["Barrier"]["points"] == "p = 2..32"
    effort = record["effort"]["works.toml"]
    assert effort["points"] == 10
    assert effort["cpu_s"] > 0
    assert effort["peak_bytes"] > 1 << 20


def test_the_effort_of_other_processes_counts(studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    work = "    sum(range(2_000_000))\n"
    (studies / "small" / "program.py").write_text(PROGRAM + work)
    began = time.process_time()
    sum(range(2_000_000))
    own_s = time.process_time() - began
    assert reproduce(studies, "--json", "--jobs", "2") == 0
    effort = json.loads(capsys.readouterr().out)["effort"]["works.toml"]
    assert effort["cpu_s"] > 2 * 62 * own_s / 4  # 62 ranks of either work


def test_it_goes_on_where_it_stopped_and_records(studies: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce(studies, "--record") == 0
    first = capsys.readouterr()
    assert "10 of 10 points to run" in first.err
    assert reproduce(studies) == 0
    second = capsys.readouterr()
    assert "0 of 10 points to run" in second.err
    assert second.out == first.out
    assert reproduce(studies, "--recorded") == 0
    assert capsys.readouterr().out == first.out
    about = json.loads((studies / "small" / "recorded" / "provenance.json").read_text())
    assert about["studies"]["works.toml"]["points"] == 10
    assert about["environments"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["reproduce", "smal"], "no study is called 'smal'; did you mean 'small'?"),
        (["reproduce", "small", "--on", "hare"], "small has no machine 'hare'"),
        (["reproduce", "small", "--record", "--quick"], "--record needs all values"),
    ],
)
def test_what_is_not_there_is_refused(
    studies: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert main([*arguments, "--studies", str(studies)]) == 3
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "code", "run"),
    [([], 2, ["one", "two"]), (["--quick"], 0, ["one"]), (["--on", "here"], 3, []), (["--record"], 3, [])],
)
def test_papers_of_commands_run_them_and_say_what_they_take(
    studies: Path, capfd: pytest.CaptureFixture[str], more: list[str], code: int, run: list[str]
) -> None:
    (studies / "papers.toml").write_text(
        '[figures]\ntitle = "two figures"\ncommands = ["say.py one"]\nslow = ["say.py two"]\n'
    )
    say = "import pathlib, sys\npathlib.Path(sys.argv[1]).touch()\nsys.exit(sys.argv[1] == 'two')\n"
    (studies.parent / "say.py").write_text(say)
    assert main(["reproduce", "figures", "--studies", str(studies), *more]) == code
    assert sorted(path.name for path in studies.parent.glob("???")) == run
    assert capfd.readouterr().out.count("CPU s") == len(run)
    assert main(["reproduce", "--studies", str(studies)]) == 0
    assert "two figures" in capfd.readouterr().out
    for damaged in ("[figures", "[figures]\ntitle = 'no commands'\n"):
        (studies / "papers.toml").write_text(damaged)
        assert main(["reproduce", "figures", "--studies", str(studies)]) == 3


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("tables = [4]", "table = 4", ("unknown-name", "'table'")),
        ('printed = "Juropa"\n', "", ("missing-key", "'printed'")),
        ("title =", "title", ("unreadable-file",)),
    ],
)
def test_a_damaged_declaration_is_refused(studies: Path, old: str, new: str, wanted: tuple[str, ...]) -> None:
    path = studies / "small" / "study.toml"
    path.write_text(path.read_text().replace(old, new))
    with raises_code(DataError, *wanted):
        read_reproduction(path.parent)


@pytest.mark.slow
def test_a_kill_loses_no_point_and_changes_no_table(
    studies: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert reproduce(studies) == 0
    right = capsys.readouterr().out
    command = [
        sys.executable,
        "-m",
        "labkit",
        "reproduce",
        "small",
        "--studies",
        str(studies),
        "--results",
        str(studies.parent / "killed"),
    ]
    points = studies.parent / "killed" / "works" / "points.jsonl"
    for after in (1, 3, 6):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (points.is_file() and points.read_bytes().count(b"\n") > after):
            time.sleep(0.002)
        process.kill()
        process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == right


def recorded(name: str) -> tuple[Reproduction, dict[str, pd.DataFrame]]:
    reproduction = read_reproduction(STUDIES / name)
    return reproduction, {file: study.data for file, study in reproduction.recorded().items()}


def test_the_three_studies_are_found_and_complete() -> None:
    assert NAMES == ["mafia", "mpi", "sorting"]
    for name in NAMES:
        assert (STUDIES / name / "README.md").is_file()
        reproduction, values = recorded(name)
        assert set(values) == set(reproduction.files(reproduction.machines))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_recorded_tables_follow_from_the_recorded_values(name: str) -> None:
    reproduction = read_reproduction(STUDIES / name)
    cells = reproduction.compare(reproduction.machines, reproduction.recorded())
    table = pd.read_csv(STUDIES / name / "recorded" / "table.csv", keep_default_na=False, dtype=str)
    assert [dataclasses.asdict(cell) for cell in cells] == table.to_dict("records")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "file", "changes"),
    [
        ("mafia", "juropa.toml", {"k": [3, 4, 5, 6, 7]}),
        ("mpi", "juqueen.toml", {"operation": ["Allreduce"]}),
        ("sorting", "lichtenberg.toml", {"sort": ["sample"]}),
    ],
)
def test_a_recorded_cell_is_computed_again_to_the_bit(
    name: str, file: str, changes: dict[str, list[object]], tmp_path: Path
) -> None:
    reproduction, values = recorded(name)
    declaration = reproduction.declaration(file)
    declaration.parameters |= changes
    work = DeclaredWork(declaration, Results(tmp_path))
    work.run(False)
    ((column, chosen),) = changes.items()
    old = values[file][values[file][column].isin(chosen)]
    new = recorded_values(work.study())
    key = ["ranks", "repetition", "metric", "phase"] + (["k"] if column == "k" else [])
    assert len(new) == len(old) > 5
    merged = old.astype({"phase": str}).merge(new, on=key, suffixes=("_old", "_new"))
    assert len(merged) == len(old)
    assert (merged["value_old"] == merged["value_new"]).all()


@pytest.mark.slow
def test_a_planted_3_to_the_k_is_an_alarm_within_a_limit_of_k_and_hidden_by_the_default_one(
    tmp_path: Path,
) -> None:
    declaration = read_reproduction(STUDIES / "mafia").declaration("planted.toml")
    work = DeclaredWork(declaration, Results(tmp_path))
    work.run(False)
    judged = judge_all(work.study(), declaration.expected)
    by_limit = {one.expected.deviation: one.match for one in judged if one.expected is not None}
    assert by_limit == {None: "approximate", "k": "none"}
