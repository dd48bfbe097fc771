"""Every rank of a script has modules of its own; installed ones are shared."""

from __future__ import annotations

import builtins
import importlib
import json
import sys
from pathlib import Path

import pytest

from labkit.sim.isolation.rank_world import OwnModules, RankWorld


@pytest.fixture
def worlds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "helper.py").write_text("import json\ncounter = []\nclass Key:\n    pass\n")
    package = tmp_path / "tools"
    package.mkdir()
    (package / "__init__.py").write_text("from .inner import state\n")
    (package / "inner.py").write_text("from helper import counter\nstate = {'n': 0}\n")
    (package / "other.py").write_text("from . import inner\nvalue = 7\n")
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    for name in ("helper", "tools", "tools.inner", "tools.other"):
        monkeypatch.setitem(sys.modules, name, sys)  # restored, that is removed, afterwards
        del sys.modules[name]
    running: list[RankWorld] = []
    monkeypatch.syspath_prepend(tmp_path)
    own = OwnModules(lambda: running[-1] if running else None)
    made = [RankWorld(own, str(tmp_path / "script.py")) for _ in range(2)]
    return made, running


def execute(world: RankWorld, text: str) -> dict:
    exec(compile(text, "script.py", "exec"), vars(world.main))
    return vars(world.main)


def test_module_globals_are_private(worlds) -> None:
    first, second = worlds[0]
    text = "import helper, tools.other\nfrom tools import other, inner\nhelper.counter.append(1)\n"
    ours, theirs = execute(first, text), execute(second, text)
    assert ours["helper"].counter == theirs["helper"].counter == [1]
    assert ours["inner"].counter is ours["helper"].counter
    assert ours["helper"] is not theirs["helper"]
    assert ours["tools"].other is ours["other"]
    assert ours["other"].value == 7


def test_installed_modules_are_shared(worlds) -> None:
    first, second = worlds[0]
    assert execute(first, "import json, helper")["json"] is execute(second, "import json")["json"] is json
    assert execute(first, "import helper")["helper"].json is json


def test_a_module_runs_once_in_a_rank(worlds) -> None:
    first, _ = worlds[0]
    values = execute(first, "import helper\nfrom helper import counter\nimport helper as again\n")
    assert values["again"] is values["helper"]
    assert values["counter"] is values["helper"].counter


def test_names_are_looked_up_in_the_running_rank(worlds) -> None:
    """What pickle does: `sys.modules[class.__module__]` must hold the running rank's own class."""
    made, running = worlds
    keys = [execute(world, "from helper import Key\nclass Mine: pass\n") for world in made]
    for world, values in zip(made, keys, strict=True):
        running.append(world)
        assert sys.modules["helper"].Key is values["Key"]
        assert sys.modules["__main__"].Mine is values["Mine"]
        running.pop()
    assert keys[0]["Key"] is not keys[1]["Key"]


def test_missing_and_failing_modules(worlds) -> None:
    first, _ = worlds[0]
    with pytest.raises(ModuleNotFoundError, match=r"tools\.nothing"):
        execute(first, "import tools.nothing")
    with pytest.raises(ImportError, match="absent"):
        execute(first, "from tools import absent")
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        execute(first, "import no_such_module")


def test_installed_code_that_imports_by_name_finds_the_ranks_own(worlds, monkeypatch) -> None:
    """As unittest's loader and plugin systems do."""
    made, running = worlds
    monkeypatch.setattr(builtins, "__import__", builtins.__import__)
    monkeypatch.setattr(importlib, "import_module", importlib.import_module)
    made[0]._own.install()
    found = []
    for world in made:
        running.append(world)
        found.append(importlib.import_module("helper"))
        assert __import__("tools.other") is world.load("tools")
        assert importlib.import_module(".inner", "tools") is world.load("tools.inner")
        assert importlib.import_module("json") is json
        running.pop()
    assert found[0] is not found[1]
    assert found == [world.load("helper") for world in made]
