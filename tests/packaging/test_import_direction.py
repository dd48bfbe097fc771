"""Imports point down one list of packages, and no files import each other in a circle."""

from __future__ import annotations

import ast
import importlib
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import labkit

ROOT = Path(__file__).parents[2]
SOURCES = sorted(p for top in ("labkit", "algorithms", "datasets") for p in (ROOT / top).rglob("*.py"))

#: each room of labkit imports from those before it only, inside functions and for types, too; a room is a
#: file or a folder
ROOMS = (
    "errors", "plot_backend", "text", "checks", "program", "timing", "process",
    "schedule", "registry", "selector", "scaling", "local", "machines",
    "comm", "trace", "result", "request", "sim", "synthesis", "models", "real",
    "launch", "calibration", "study", "tuning", "plot", "jupyter", "grading", "testing", "cli",
)  # fmt: skip
#: rooms that may import algorithms: the registry lists their folder; others meet them by name, through it
KNOW_ALGORITHMS = ("registry", "cli", "grading")
#: the package itself: names that are loaded when they are used
ENTRANCES = ("labkit", "labkit.__main__", "labkit.MPI")


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    name = ".".join(parts if parts[0] == "labkit" else ("labkit", *parts))
    return name.removesuffix(".__init__")


MODULES = {name_of(path): path for path in SOURCES}


def module_of(name: str) -> str:
    while name and name not in MODULES:
        name = name.rpartition(".")[0]
    return name


def is_type_check(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"


def nodes(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether only a type checker reads it."""
    waiting = [(tree, False)]
    while waiting:
        node, is_typed = waiting.pop()
        yield node, is_typed
        is_typed |= is_type_check(node)
        waiting += [(below, is_typed) for below in ast.iter_child_nodes(node)]


@cache
def handed_on(name: str) -> dict[str, tuple[str, str]]:
    """What a package's face hands on: name -> module and name there."""
    path = MODULES.get(name)
    if path is None or path.name != "__init__.py":
        return {}
    found = [node for node, _ in nodes(tree_of(path)) if isinstance(node, ast.ImportFrom)]
    return {a.asname or a.name: (str(node.module), a.name) for node in found for a in node.names}


def home_of(module: str, name: str) -> str:
    """The module that defines a name, whichever face it is taken from."""
    while f"{module}.{name}" not in MODULES and name in handed_on(module):
        module, name = handed_on(module)[name]
    return module_of(f"{module}.{name}")


def called(node: ast.Call) -> str:
    """The last part of what is called."""
    return str(getattr(node.func, "attr", getattr(node.func, "id", "")))


@cache
def imports(name: str) -> frozenset[str]:
    """Modules that a module imports, at any depth, for types or as attributes of ``import labkit``."""
    found: set[str] = set()
    bound: set[str] = set()
    path = MODULES[name]
    for node, is_typed in nodes(tree_of(path)):
        if isinstance(node, ast.Import):
            found |= {module_of(alias.name) for alias in node.names}
            bound |= {alias.asname or "labkit" for alias in node.names if alias.name == "labkit"}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the direction"
            for alias in node.names:
                found.add(home_of(str(node.module), alias.name))
                if not is_typed:  # the face itself runs, too
                    found.add(module_of(f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Call) and node.args and "import_module" in called(node):
            argument = node.args[0]
            if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                found.add(module_of(argument.value))
    for node in ast.walk(tree_of(path)) if bound else ():
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in bound:
            found.add(module_of({**labkit._PUBLIC, **labkit._MODULES}.get(node.attr, f"labkit.{node.attr}")))
    return frozenset(found - {"", "labkit", name})


def room(name: str) -> str:
    return name.split(".")[1] if "." in name else name


def misplaced(name: str) -> str:
    """Say which imports of a module point up, or nothing."""
    here = room(name)
    if here in ("algorithms", "datasets"):
        outside = {"launch", "study", "plot", "jupyter", "cli", "grading"}
        bad = [n for n in imports(name) if room(n) in outside or (here, room(n)) == ("datasets", "comm")]
        return f"{name} imports {sorted(bad)}" if bad else ""
    if here not in ROOMS:
        return f"{name}: labkit.{here} is in no place of the list of rooms"
    above = set(ROOMS[: ROOMS.index(here) + 1]) | {"datasets", "MPI"}
    above |= {"algorithms"} if here in KNOW_ALGORITHMS else set()
    bad = [n for n in imports(name) if room(n) not in above]
    return f"{name} imports {sorted(bad)}: not above {here!r} in the list of rooms" if bad else ""


def test_direction() -> None:
    assert len(MODULES) > 300
    assert not [text for name in MODULES if name not in ENTRANCES and (text := misplaced(name))]


def circles() -> list[list[str]]:
    """Strongly connected groups of modules (Tarjan, without recursion limits in reach)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for other in sorted(imports(name)):
            if other not in index:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], index[other])
        if low[name] == index[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in sorted(MODULES):
        if name not in index and name not in ENTRANCES:
            visit(name)
    return found


def test_no_circle_of_files() -> None:
    assert not circles()


def test_no_circle_of_rooms() -> None:
    between = defaultdict(set)
    for name in MODULES:
        if name not in ENTRANCES:
            between[room(name)] |= {room(n) for n in imports(name)} - {room(name)}
    both = {
        (a, b) for a in between for b in between[a] if a in between.get(b, ()) and "datasets" not in (a, b)
    }
    assert not {pair for pair in both if "algorithms" not in pair}, both


def test_no_module_has_the_name_of_a_top_level_folder() -> None:
    tops = {"algorithms", "binder", "course", "datasets", "docker", "kernels", "notebooks", "tests"}
    clashes = [p for p in (ROOT / "labkit").rglob("*") if p.stem in tops and "__pycache__" not in p.parts]
    assert not clashes, clashes


def test_the_engine_knows_no_python() -> None:
    core = [*(ROOT / "kernels/src").rglob("*.cpp"), *(ROOT / "kernels/include").rglob("*.hpp")]
    assert core
    for path in core:
        text = path.read_text()
        assert "Python.h" not in text, path
        assert "nanobind" not in text, path
        assert "greenlet" not in text, path


@pytest.mark.parametrize("package", ["labkit", "labkit.plot", "labkit.jupyter.explorers", "labkit.trace"])
def test_names_that_are_loaded_when_first_used_are_there(package: str) -> None:
    module = importlib.import_module(package)
    for name in module.__all__:
        assert getattr(module, name) is not None
