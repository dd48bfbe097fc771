"""The wheel that a user gets holds the three folders as one package, and works outside the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "build" / "wheel"


@pytest.fixture(scope="module")
def wheel() -> Path:
    found = sorted(FOLDER.glob("labkit-*.whl"))
    if not found:
        pytest.skip("no wheel in build/wheel: make wheel")
    return found[-1]


def test_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    inside_of = {"labkit": "labkit"} | {
        f: f"labkit/{f}" for f in ("algorithms", "datasets", "course/assignments", "course/exercises")
    }
    for folder, inside in inside_of.items():
        for path in (ROOT / folder).rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".pyc":
                assert f"{inside}/{path.relative_to(ROOT / folder).as_posix()}" in names
    assert any(n.startswith("labkit/_kernels.") and n.endswith(".so") for n in names)
    assert "labkit/py.typed" in names
    assert not [
        n for n in names if n.startswith(("algorithms/", "datasets/", "tests/", "notebooks/", "kernels/"))
    ]
    assert not [n for n in names if n.endswith(".ipynb")], "the solutions stay in the checkout"


def test_works_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = (
        "import sys; sys.meta_path = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]\n"
        "import labkit as lk, labkit._kernels as k\n"
        "assert k.__file__.startswith(sys.argv[1]), k.__file__\n"
        "from labkit.grading.assignment import find_assignment, assignment_names\n"
        "assert [find_assignment(name).name for name in assignment_names()] == assignment_names()\n"
        "assert sorted(assignment_names()) == sys.argv[2:] and lk.check('order', 'B')\n"
        "print(lk.run(lambda comm: comm.allreduce(comm.rank), ranks=5, on='star:8').results)\n"
    )
    env = {**os.environ, "PYTHONPATH": str(site)}
    shipped = sorted(path.stem for path in (ROOT / "course" / "assignments").glob("[a-z]*.py"))
    done = subprocess.run(
        [sys.executable, "-c", program, str(site), *shipped],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[10, 10, 10, 10, 10]"


def test_unbuilt_checkout_says_what_to_do(tmp_path: Path) -> None:
    """`python` started beside an unbuilt labkit/ must not fail with a bare ImportError."""
    (tmp_path / "labkit").symlink_to(ROOT / "labkit")
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import labkit; labkit.platform"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert "pip install" in done.stderr
