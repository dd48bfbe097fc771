"""What `make test` reads: a suite leaves out files by their text, so that is where marks must stand."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import pytest_ignore_collect

TESTS = Path(__file__).parents[1]
SHORT, MPI, LONG = "not slow and not mpi", "mpi and not slow", "slow and not browser"


def is_left_out(file: Path, suite: str, *asked: str) -> bool:
    place = SimpleNamespace(dir=TESTS.parent)
    config: Any = SimpleNamespace(args=asked, invocation_params=place, getoption=lambda *_: suite)
    return bool(pytest_ignore_collect(file, config))


def test_no_mark_of_a_suite_comes_from_elsewhere() -> None:
    shared = [*TESTS.glob("support/*.py"), *TESTS.rglob("conftest.py")]
    found = {
        (str(path.relative_to(TESTS)), before)
        for path in shared
        for before in re.findall(r"(\S*)pytest\.mark\.(?:slow|mpi|browser)\b", path.read_text())
    }
    assert found == {("browser/conftest.py", "item.add_marker("), ("slurm/conftest.py", "item.add_marker(")}


@pytest.mark.parametrize(
    ("text", "left_out"),
    [
        ("def test_a(): ...", {MPI, LONG}),
        ("pytestmark = pytest.mark.mpi", {SHORT, LONG}),
        ("pytestmark = [pytest.mark.mpi, pytest.mark.slow]", {SHORT, MPI}),
        ("@pytest.mark.slow\ndef test_a(): ...", {MPI}),
        ("on = [1, pytest.param(2, marks=pytest.mark.mpi)]", {LONG}),
    ],
)
def test_a_file_is_left_out_where_none_of_its_tests_belongs(
    text: str, left_out: set[str], tmp_path: Path
) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(text)
    assert {suite for suite in (SHORT, MPI, LONG) if is_left_out(file, suite)} == left_out
    assert not is_left_out(file, MPI, f"{file}::test_a"), "asked for by name"
    for other in ("", "slow or mpi", "not (slow or mpi)"):
        assert not is_left_out(file, other)
