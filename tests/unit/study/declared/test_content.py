"""A point of a study is what it is made of: whatever was edited is run again and named, and nothing mixes."""

from __future__ import annotations

import json
import os
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from labkit.cli import main
from labkit.study.declared import DeclaredWork, Results, read_declaration

XML = """<?xml version="1.0"?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1"><zone id="z" routing="Full">
<cluster id="c" prefix="n-" suffix="" radical="0-7" speed="1Gf" bw="1GBps" lat="1us"/></zone></platform>
"""
PROGRAM = """
import sys
from first import BYTES
sys.path.insert(0, "lib")

def program(comm, n):
    import importlib
    from own import part
    importlib.import_module("later")
    comm.sendrecv(b"x" * (n * BYTES), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
"""
MODEL = 'title = "mine"\nsource = "made up"\nbase = "raw"\n'
STUDY = """
program = "ring.py:program"
[parameters]
ranks = [2]
n = 10
on = ["m.xml", "t.toml"]
model = ["raw", "mine.toml"]
coll = "rules.toml"
[run]
mapping = "hosts.txt"
calibration = "costs.toml"
compute = "recorded:kept.json"
repeats = 1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    data = files("labkit.datasets")
    texts = {
        "m.xml": XML, "t.toml": 'spec = "star:8,model=inner.toml"\n', "ring.py": PROGRAM, "study.toml": STUDY,
        "inner.toml": MODEL, "mine.toml": MODEL, "hosts.txt": "0\n1\n",
        "first.py": "from second import BYTES\n", "second.py": "BYTES = 1000\n", "later.py": "",
        "lib/own/__init__.py": "", "lib/own/part.py": "from . import other\n", "lib/own/other.py": "",
        "rules.toml": 'rules = [{ operation = "bcast", use = "binomial" }]\n',
        "costs.toml": (data / "calibrations" / "default.toml").read_text("utf-8"),
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


def plan(capsys) -> tuple[int, list[str]]:
    capsys.readouterr()
    assert main(["study", "study.toml", "--dry-run", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found["missing"], found["changed"]


def test_whatever_is_edited_is_run_again_and_named(folder, capsys, monkeypatch):
    assert main(["study", "study.toml"]) == 0
    assert plan(capsys) == (0, [])
    edits = {
        "m.xml": 2, "t.toml": 2, "inner.toml": 2, "mine.toml": 2, "hosts.txt": 4, "costs.toml": 4,
        "rules.toml": 4, "ring.py": 4, "first.py": 4, "second.py": 4, "later.py": 4, "lib/own/part.py": 4,
        "lib/own/other.py": 4,
    }  # fmt: skip
    for name, points in edits.items():
        before = (folder / name).read_text()
        comment = "<!-- -->\n" if name.endswith(".xml") else "# edited\n"
        (folder / name).write_text(before + comment)
        assert (name, *plan(capsys)) == (name, points, [name])
        (folder / name).write_text(before)
    assert plan(capsys) == (0, [])
    kept = json.loads((folder / "kept.json").read_text())
    first = next(iter(kept["runs"]))
    kept["runs"][first] = {**kept["runs"][first], "scale": 0.5}
    (folder / "kept.json").write_text(json.dumps(kept))
    assert plan(capsys) == (4, ["kept.json"])
    (folder / "kept.json").unlink()  # the points hold what they measured themselves
    assert plan(capsys) == (0, [])
    monkeypatch.setattr("labkit.study.declared.work.__version__", "0.2.0")
    assert plan(capsys) == (4, ["labkit"])
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    monkeypatch.setattr("labkit.study.declared.work.engine_digest", lambda: "another")
    assert plan(capsys) == (4, ["engine"])


def test_nothing_mixes_and_nothing_is_lost(folder, capsys):
    study = STUDY.partition("coll =")[0].replace('"t.toml"', '"star"') + "[run]\nrepeats = 1\n"
    (folder / "study.toml").write_text(study)
    log = folder / "study.results" / "points.jsonl"

    def values():
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        return [line["rows"][0]["value"] for line in lines if "rows" in line and line["on"] == "m"]

    assert main(["study", "study.toml"]) == 0
    first = values()
    (folder / "m.xml").write_text(XML.replace("1GBps", "1MBps"))
    capsys.readouterr()
    assert main(["study", "study.toml"]) == 0
    said = capsys.readouterr().err
    assert "2 of 4 points to run; changed since 2 points were measured: m.xml;" in said
    assert len(values()) == len(first) == 2
    assert min(values()) > 5 * max(first)
    (folder / "m.xml").write_text(XML)  # the old file again: its points are still known
    assert main(["study", "study.toml"]) == 0
    assert "all 4 points are there" in capsys.readouterr().err
    assert sorted(values()) == sorted(first)


def test_a_data_file_that_a_parameter_names_belongs_to_its_points(folder, capsys):
    (folder / "ring.py").write_text(
        "from pathlib import Path\n\ndef program(comm, data):\n    comm.bcast(Path(data).read_text())\n",
    )
    (folder / "study.toml").write_text(
        'program = "ring.py:program"\n[parameters]\nranks = [2]\ndata = ["a.csv", "b.csv"]\n'
        "[run]\nrepeats = 1\n"
    )
    (folder / "a.csv").write_text("1\n")
    (folder / "b.csv").write_text("1\n")
    assert main(["study", "study.toml"]) == 0
    assert plan(capsys) == (0, [])
    (folder / "b.csv").write_text("2\n")
    assert plan(capsys) == (1, ["b.csv"])


def test_an_edit_within_the_second_is_seen_by_the_program(folder, capsys, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (folder / "study.toml").write_text(STUDY.partition("coll =")[0])
    sent = []
    for text in ("BYTES = 1000\n", "BYTES = 7000\n"):
        (folder / "second.py").write_text(text)
        os.utime(folder / "second.py", (1_700_000_000, 1_700_000_000 + 0.1 * len(sent)))
        assert main(["study", "study.toml"]) == 0
        rows = json.loads((folder / "study.results" / "points.jsonl").read_text().splitlines()[-1])["rows"]
        sent += [row["value"] for row in rows if row["metric"] == "bytes"]
    assert sent[-1] > 6 * sent[0]


def test_files_edited_during_the_run_belong_to_neither_version(folder, capsys, monkeypatch):
    from labkit.study.measure import SweepJob

    find = SweepJob.find

    def edited(self, point):
        found = find(self, point)
        (folder / "m.xml").write_text(XML.replace("1GBps", "1MBps"))
        return found

    (folder / "study.toml").write_text(STUDY.partition("coll =")[0])
    monkeypatch.setattr(SweepJob, "find", edited)
    assert main(["study", "study.toml"]) == 3
    assert "m.xml changed while the study ran" in capsys.readouterr().err
    assert not DeclaredWork(read_declaration("study.toml"), Results(folder / "study.results")).results.points


def test_a_script_and_its_modules(folder, capsys):
    (folder / "script.py").write_text("from mpi4py import MPI\nimport first\nMPI.COMM_WORLD.Barrier()\n")
    (folder / "study.toml").write_text(
        'program = "script.py"\n[parameters]\nranks = [2]\n[run]\nrepeats = 1\n'
    )
    assert main(["study", "study.toml"]) == 0
    assert plan(capsys) == (0, [])
    (folder / "second.py").write_text("BYTES = 2000\n")
    assert plan(capsys) == (1, ["second.py"])


def test_the_table_is_printed_whatever_happens_to_the_files(folder, capsys, monkeypatch):
    study = STUDY.partition("coll =")[0].replace("ranks = [2]", "ranks = [2, 3, 4, 5, 6]")
    (folder / "study.toml").write_text(study + '[[expect]]\ngrowth = "1"\nmetric = "rounds"\n')
    assert main(["study", "study.toml"]) in (0, 1)
    table = (folder / "study.results" / "table.txt").read_text()
    capsys.readouterr()

    def refuse(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("labkit.study.declared.judged.replace_file", refuse)
    assert main(["study", "study.toml"]) == 3
    said = capsys.readouterr()
    assert said.out == table
    assert said.err.count("No space left on device") == 3


def test_environment_variables_that_a_program_names(folder, capsys, monkeypatch):
    (folder / "second.py").write_text(
        "import os\nBYTES = int(os.environ.get('FACTOR', '1')) * int(os.getenv('SCALE') or 10)\n"
    )
    monkeypatch.setenv("UNRELATED", "1")
    for name, value in ((None, ""), ("FACTOR", "3"), ("SCALE", "20"), ("FACTOR", "4")):
        if name is not None:
            monkeypatch.setenv(name, value)
        assert main(["study", "study.toml"]) == 0
        assert name is None or f"environment variable {name}" in "".join(capsys.readouterr())
    monkeypatch.setenv("UNRELATED", "2")
    assert main(["study", "study.toml"]) == 0
    assert "all 4 points are there" in "".join(capsys.readouterr())
