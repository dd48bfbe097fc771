"""The modules that a program imports: all of the user's own, whenever they are imported, and no others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from labkit.process.fingerprint import fingerprint
from labkit.process.imports import imported_files, program_digests

CASES = {
    "import a": {"a"},
    "import a.b": {"a", "a.b"},
    "from a import b": {"a", "a.b"},
    "from a import nothing": {"a"},
    "def f():\n    class K:\n        from a.b import x": {"a", "a.b"},
    "import json, numpy, labkit": set(),
    "import missing": set(),
    "__import__('a')": {"a"},
    "import importlib\nimportlib.import_module('a.b')": {"a", "a.b"},
    "print('a')": set(),
    "import sys\nsys.path.append('more')\nimport deep": {"deep"},
    "import runpy\nrunpy.run_path('plain.py')": {"plain.py"},
    "try:\n    import fast\nexcept ImportError:\n    import plain": {"plain"},
    "import chain": {"chain", "plain"},
    "from a.b.c import *": {"a", "a.b", "a.b.c"},
    "import round1": {"round1", "round2"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {
        "a/__init__.py": "", "a/b/__init__.py": "", "a/b/c.py": "", "more/deep.py": "", "plain.py": "",
        "chain.py": "import plain", "round1.py": "import round2", "round2.py": "import round1",
    }  # fmt: skip
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(("text", "names"), CASES.items())
def test_imports_are_found_wherever_they_stand(folder, text, names):
    (folder / "program.py").write_text(text)
    assert set(imported_files(folder / "program.py")) == names


def test_relative_imports_climb(folder):
    (folder / "a" / "b" / "c.py").write_text("from .. import d\nfrom ..e import x\nfrom . import c")
    (folder / "a" / "d.py").write_text("")
    (folder / "a" / "e.py").write_text("import plain")
    (folder / "program.py").write_text("import a.b.c")
    assert set(imported_files(folder / "program.py")) == {"a", "a.b", "a.b.c", "a.d", "a.e", "plain"}


def test_what_python_imports_is_found(folder):
    (folder / "program.py").write_text("import chain, a.b.c, round1\nimport sys, json\nprint(*sys.modules)")
    done = subprocess.run(
        [sys.executable, "program.py"], cwd=folder, capture_output=True, text=True, check=True
    )
    own = {"a", "a.b", "a.b.c", "chain", "plain", "round1", "round2"}
    assert own <= set(done.stdout.split())
    assert set(program_digests(folder / "program.py")) == {
        "program.py", "a/__init__.py", "a/b/__init__.py", "a/b/c.py", "chain.py", "plain.py", "round1.py",
        "round2.py",
    }  # fmt: skip


def test_broken_files_are_files(folder):
    (folder / "plain.py").write_text("not python (")
    (folder / "program.py").write_text("import plain")
    assert set(imported_files(folder / "program.py")) == {"plain"}
    (folder / "program.py").write_bytes(b"\xff\0")
    assert imported_files(folder / "program.py") == {}


def test_a_fingerprint_has_what_is_imported_later(folder, monkeypatch):
    monkeypatch.syspath_prepend(folder)
    names: dict[str, object] = {}
    exec("def program(comm):\n    import chain\n    return chain", names)
    first = fingerprint(names["program"])
    assert fingerprint(names["program"]) == first
    (folder / "plain.py").write_text("x = 1")
    assert fingerprint(names["program"]) != first
