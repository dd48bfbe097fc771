"""Imports point one way: notebooks -> algorithms -> labkit -> _kernels; nobody imports plot."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for top in ("labkit", "algorithms", "datasets") for p in (ROOT / top).rglob("*.py"))


def imported_modules(path: Path) -> set[str]:
    """Absolute names of every module that a file imports, at any depth."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            found |= {node.module or ""} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def area(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[0] if parts[0] != "labkit" else ".".join(parts[:2])


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_direction(path: Path) -> None:
    here, names = area(path), imported_modules(path)
    offending = {n for n in names if n.split(".")[0] in ("algorithms", "datasets", "notebooks", "tests")}
    if here.startswith("labkit") and here not in ("labkit.cli", "labkit.cli.demo"):
        offending |= {n for n in names if n.startswith("labkit.algorithms")}
    if here not in ("labkit.plot", "labkit.cli", "labkit.cli.demo", "labkit.jupyter"):
        offending |= {n for n in names if n == "labkit.plot" or n.startswith("labkit.plot.")}
    if here == "datasets":
        offending |= {n for n in names if n.startswith(("labkit.run", "labkit.study", "labkit.comm"))}
    assert not offending, f"{path.relative_to(ROOT)} imports {sorted(offending)}"


def test_no_module_has_the_name_of_a_top_level_folder() -> None:
    tops = {"algorithms", "binder", "course", "datasets", "docker", "kernels", "notebooks", "tests"}
    clashes = [p for p in (ROOT / "labkit").rglob("*") if p.stem in tops and "__pycache__" not in p.parts]
    assert not clashes, clashes


def test_the_engine_knows_no_python() -> None:
    core = [*(ROOT / "kernels/src").glob("*.cpp"), *(ROOT / "kernels/include").rglob("*.hpp")]
    assert core
    for path in core:
        text = path.read_text()
        assert "Python.h" not in text, path
        assert "nanobind" not in text, path
        assert "greenlet" not in text, path


def test_files_stay_short() -> None:
    code = [*SOURCES, *(ROOT / "kernels/src").glob("*"), *(ROOT / "kernels/bindings").glob("*")]
    long = {str(p.relative_to(ROOT)): n for p in code if (n := len(p.read_text().splitlines())) > 400}
    assert not long, long
