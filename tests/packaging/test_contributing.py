"""CONTRIBUTING.md and docs/developing agree with packages, kinds of tests, paths and targets."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.packaging.test_import_direction import ROOMS

ROOT = Path(__file__).parents[2]
FIRST_PAGE = (ROOT / "CONTRIBUTING.md").read_text()
OTHERS = [path.read_text() for path in sorted((ROOT / "docs/developing").glob("*.md"))]
TEXT = "\n".join([FIRST_PAGE, *OTHERS])


def first_column(head: str) -> list[str]:
    """The names in the first column of the table with this head."""
    rows = TEXT.partition(f"| {head} |")[2].split("\n\n")[0].splitlines()
    return [name for row in rows[2:] for name in re.findall(r"`([\w./]+)`", row.split("|")[1])]


def test_the_first_page_is_short() -> None:
    assert len(FIRST_PAGE.splitlines()) <= 120


def test_the_rooms_stand_in_their_order() -> None:
    there = [r for r in ROOMS if (ROOT / "labkit" / r).is_dir() or (ROOT / "labkit" / f"{r}.py").exists()]
    assert first_column("package") == there


def test_every_kind_of_tests_is_said() -> None:
    found = {
        path.name for path in (ROOT / "tests").iterdir() if any(path.glob("*.*")) or any(path.rglob("*.py"))
    }
    assert set(first_column("tests")) == {name for name in found if not name.startswith("__")}


def test_unit_tests_mirror_the_rooms() -> None:
    beside = {"algorithms", "datasets", "support"}
    folders = {path.name for path in (ROOT / "tests" / "unit").iterdir() if any(path.rglob("test_*.py"))}
    files = {path.stem.removeprefix("test_") for path in (ROOT / "tests" / "unit").glob("test_*.py")}
    assert {name for name in folders if not name.endswith(".py")} - beside <= set(ROOMS) | {"__pycache__"}
    assert files <= set(ROOMS)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)", TEXT)) - {"help"}))
def test_a_target_is_in_the_makefile(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:labkit|tests|algorithms|kernels|datasets|docs)/[\w./]+)`", TEXT)))
)
def test_a_path_is_there(path: str) -> None:
    assert (ROOT / path).exists()
