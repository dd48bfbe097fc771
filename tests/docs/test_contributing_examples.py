"""The examples of CONTRIBUTING.md: each is as small as its commit would be, and each works.

A fenced block whose first line is a comment with a path is a file; any other Python block is run beside them.
Files under ``algorithms/`` are found by the registry, as if they lay in the checkout.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit import registry

TEXT = (Path(__file__).parents[2] / "CONTRIBUTING.md").read_text()
_BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
_FILE = re.compile(r"# ((?:\w+/)+[\w.]+)\n")


def sections() -> dict[str, str]:
    """Every section that has an example, by its title."""
    parts = re.split(r"^## (.*)\n", TEXT, flags=re.MULTILINE)[1:]
    return {title: text for title, text in zip(parts[::2], parts[1::2], strict=True) if "```python" in text}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that takes an example's files, as if it were the checkout."""
    monkeypatch.chdir(tmp_path)
    packages = [importlib.import_module(f"labkit.{name}") for name in ("algorithms", "datasets")]
    for package in packages:
        folder = str(tmp_path / package.__name__.rpartition(".")[2])
        monkeypatch.setattr(package, "__path__", [folder, *package.__path__])
    before = set(sys.modules)
    _forget()
    yield tmp_path
    for name in set(sys.modules) - before:
        if name.startswith(("labkit.algorithms.", "labkit.datasets.")):
            del sys.modules[name]
    _forget()


def _forget() -> None:
    importlib.invalidate_caches()
    for kept in (registry.problems, registry.names, registry.get):
        kept.cache_clear()


def test_the_promised_examples_are_there() -> None:
    assert {"Add a selector"} <= set(sections())


@pytest.mark.parametrize("title", sections())
def test_example(title: str, checkout: Path) -> None:
    programs = []
    for language, text in _BLOCK.findall(sections()[title]):
        named = _FILE.match(text)
        if named:
            path = checkout / named[1]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        elif language == "python":
            programs.append(text)
    assert programs
    space: dict[str, object] = {"__name__": "example"}
    for text in programs:
        exec(compile(text, f"CONTRIBUTING.md, {title}", "exec"), space)
