"""A working copy follows the course, and loses nobody's work."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from labkit.cli.lab import KEPT, released, update
from labkit.errors import DataError
from tests.support.refusals import raises_code

ROOT = Path(__file__).parents[3]
SOLVED = "def f():\n    ### BEGIN SOLUTION\n    return 42\n    ### END SOLUTION\n\n\nf()"


def _notebook(source):
    cell = {"cell_type": "code", "source": source, "outputs": [{"text": "42"}], "execution_count": 3}
    return json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})


@pytest.fixture
def course(tmp_path):
    notebooks, sources = tmp_path / "notebooks", tmp_path / "course" / "source"
    (sources / "sum").mkdir(parents=True)
    notebooks.mkdir()
    (notebooks / "00_a.ipynb").write_text("a1")
    (notebooks / "01_b.ipynb").write_text("b1")
    (sources / "sum" / "sum.ipynb").write_text(_notebook(SOLVED))
    (sources / "sum" / "notes.ipynb").write_text(_notebook("for teachers"))
    return tmp_path


def _update(course, **options):
    return update(course / "work", course / "notebooks", course / "course" / "source", **options)


def test_a_copy_has_course_assignments_and_algorithms(course):
    done = _update(course)
    assert done.added == ["00_a.ipynb", "01_b.ipynb", "assignments/sum.ipynb"]
    work = course / "work"
    copied = work / "algorithms" / "sorting" / "sample_sort.py"
    assert copied.is_file()
    assert copied.stat().st_mode & 0o222 == 0
    assert "my_algorithms/" in (work / "my_algorithms" / "README.md").read_text()
    text = (work / "assignments" / "sum.ipynb").read_text()
    assert "42" not in text
    assert "SOLUTION" not in text
    (cell,) = json.loads(text)["cells"]
    stub = "def f():\n    # YOUR CODE HERE\n    raise NotImplementedError()\n\n\nf()"
    assert "".join(cell["source"]) == stub
    assert _update(course).lines() == [f"your working copy: {work} (the course itself is not changed)"]


def test_the_copies_of_the_algorithms_follow_the_library_and_own_ones_stay(course):
    _update(course)
    work = course / "work"
    copied, edited = (work / "algorithms" / "bcast" / f"{name}.py" for name in ("linear", "chain"))
    installed = copied.read_text()
    copied.chmod(0o644)
    copied.write_text("old")
    copied.chmod(0o444)  # as an older version of the library had it
    edited.chmod(0o644)
    edited.write_text("mine")
    (work / "my_algorithms" / "README.md").write_text("notes")
    _update(course)
    assert copied.read_text() == installed
    assert edited.read_text() == "mine"
    assert (work / "my_algorithms" / "README.md").read_text() == "notes"


def test_a_notebook_is_what_jupyterlab_makes_of_it_when_it_opens_it(course):
    if importlib.util.find_spec("ipykernel") is None:
        pytest.skip("no ipykernel")
    # in a process of its own: where it is imported, widgets that are there already lose their connections
    code = "import json, ipykernel.ipkernel as i; print(json.dumps(i.IPythonKernel.language_info))"
    asked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    book = json.loads(_notebook("1"))
    for name, kernelspec in (("00_a", {"language": "python"}), ("01_b", {"language": "R"})):
        book["metadata"] = {"kernelspec": kernelspec, "language_info": {"name": kernelspec["language"]}}
        (course / "notebooks" / f"{name}.ipynb").write_text(json.dumps(book))
    _update(course)
    opened = json.loads((course / "work" / "00_a.ipynb").read_text())
    assert opened["metadata"]["language_info"] == json.loads(asked.stdout)
    assert opened["cells"] == book["cells"]
    assert json.loads((course / "work" / "01_b.ipynb").read_text()) == book
    assert _update(course).renewed == []


def test_what_nobody_touched_follows_the_course_and_work_stays(course):
    _update(course)
    work = course / "work"
    (work / "01_b.ipynb").write_text("mine")
    (work / "notes.txt").write_text("own")
    for name in ("00_a.ipynb", "01_b.ipynb"):
        (course / "notebooks" / name).write_text("newer")
    for _ in range(2):  # told at every start until it is refreshed
        done = _update(course)
        assert done.left == ["01_b.ipynb"]
        assert (work / "01_b.ipynb").read_text() == "mine"
    assert (work / "00_a.ipynb").read_text() == "newer"
    (work / "00_a.ipynb").unlink()
    done = _update(course, is_fresh=True)
    assert done.added == ["00_a.ipynb"]
    assert done.set_aside == ["01_b.ipynb"]
    assert (work / "01_b.ipynb").read_text() == "newer"
    (aside,) = (work / KEPT).glob("*/01_b.ipynb")
    assert aside.read_text() == "mine"
    assert (work / "notes.txt").read_text() == "own"
    assert "set-aside/" in "\n".join(done.lines())


def test_a_copy_whose_memory_is_lost_is_not_overwritten(course):
    _update(course)
    work = course / "work"
    (work / ".labkit" / "course.json").write_text("{broken")
    (course / "notebooks" / "00_a.ipynb").write_text("newer")
    assert _update(course).left == ["00_a.ipynb"]
    assert (work / "00_a.ipynb").read_text() == "a1"


def test_a_place_that_cannot_be_written_is_told(course):
    (course / "work").write_text("a file")
    with raises_code(DataError, "unwritable-file", "--work"):
        _update(course)


@pytest.mark.parametrize("path", sorted((ROOT / "course" / "source").glob("*/*.ipynb")), ids=lambda p: p.stem)
def test_no_solution_of_the_course_is_released(path):
    text = released(path).decode()
    assert "SOLUTION" not in text
    assert "HIDDEN" not in text
    assert not any(cell.get("outputs") for cell in json.loads(text)["cells"])


def test_git_does_not_see_a_working_copy():
    if not (ROOT / ".git").exists():
        pytest.skip("no checkout")
    found = subprocess.run(["git", "check-ignore", "-q", "work/00_start_here.ipynb"], cwd=ROOT, check=False)
    assert found.returncode == 0
