"""Every line of promises.txt is kept: public names, parameters, options, imports."""

from __future__ import annotations

import importlib
import inspect
import pickle
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from tests.packaging import promises

STORED = Path(__file__).with_name("promises.txt").read_text().splitlines()
OF_KIND: dict[str, list[str]] = defaultdict(list)
for _line in STORED:
    OF_KIND[_line.split()[0]].append(_line.partition(" ")[2])


@cache
def find(name: str) -> Any:
    """Return the object of a dotted name; modules are imported where no attribute has the name."""
    words = name.split(".")
    value: Any = lk
    for number, word in enumerate(words[1:], 2):
        if hasattr(value, word):
            value = getattr(value, word)
        else:
            value = importlib.import_module(".".join(words[:number]))
    return value


def accepts(function: Any, parameter: str) -> bool:
    known = inspect.signature(function).parameters
    return parameter in known or any(p.kind is p.VAR_KEYWORD for p in known.values())


def broken(line: str, found: Any) -> list[str]:
    """The parameters of a promised function that the one found does not take."""
    wanted = line.partition("(")[2].rstrip(")")
    return [f"{line}: {name}" for name in wanted.split(", ") if wanted and not accepts(found, name)]


def lost(line: str) -> list[str]:
    name = line.partition("(")[0]
    owner, _, last = name.rpartition(".")
    if last in getattr(find(owner), "__dataclass_fields__", {}):
        return []
    try:
        return broken(line, find(name))
    except ImportError as error:
        return [f"{line}: {error}"]


@pytest.mark.parametrize("start", sorted({re.split(r"[.(]", line)[1] for line in OF_KIND["name"]}))
def test_public_names_are_there_and_take_what_they_took(start: str) -> None:
    lines = [line for line in OF_KIND["name"] if re.split(r"[.(]", line)[1] == start]
    assert [words for line in lines for words in lost(line)] == []


def test_a_ranks_communicator_has_every_method() -> None:
    def missing(comm: Any, lines: list[str]) -> list[str]:
        made = {"comm": comm, "cart": comm.Create_cart([1])}
        made["graph"] = comm.Create_dist_graph_adjacent([0], [0])
        bad = []
        for line in lines:
            kind, name = line.partition("(")[0].split(".")
            found = getattr(type(made[kind]), name, None)
            bad += [line] if not hasattr(made[kind], name) else broken(line, found)
        return bad

    assert lk.run(missing, 1, args=(OF_KIND["rank"],), isolate=False).results == [[]]


@pytest.mark.parametrize(
    ("kind", "today"),
    [
        ("algorithm", promises.algorithms),
        ("model", promises.algorithms),
        ("machine", promises.algorithms),
        ("option", promises.commands),
    ],
)
def test_nothing_of_a_kind_is_lost(kind: str, today: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    assert len(OF_KIND[kind]) > 5
    assert set(OF_KIND[kind]) <= {line.partition(" ")[2] for line in today()}


@pytest.mark.parametrize("line", OF_KIND["import"])
def test_a_documented_import_still_works(line: str) -> None:
    module, *names = line.split()
    find(".".join([module, *names]))


@pytest.mark.parametrize("name", OF_KIND["said"])
def test_a_name_in_prose_is_still_found(name: str) -> None:
    find(name)


TODAY = promises.documents()
#: their examples come with files, and tests/docs runs them with these
TODAY |= {
    name: re.sub(r"```python.*?```", "", text, flags=re.DOTALL)
    for name, text in TODAY.items()
    if name.startswith("docs/developing")
}


@pytest.mark.parametrize("document", [name for name in TODAY if list(promises.imports(TODAY[name]))])
def test_a_document_of_today_names_what_is_there(document: str) -> None:
    for line in promises.imports(TODAY[document]):
        find(".".join(line.split()[1:]))


@pytest.mark.parametrize("name", OF_KIND["program"])
def test_a_modules_program_starts(name: str) -> None:
    command = [sys.executable, "-P", "-m", name, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


def test_run_is_a_function_whatever_was_imported() -> None:
    code = """
import importlib, inspect, sys
import labkit as lk
import labkit.launch.run
from labkit.launch.run import run
assert inspect.isfunction(lk.run) and lk.run is run is labkit.run
importlib.reload(sys.modules["labkit.launch.run"])
assert inspect.isfunction(lk.run)
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_run_pickles_by_the_name_of_today() -> None:
    run = lk.run(lambda comm: comm.rank, 2)
    assert b"labkit.result" in pickle.dumps(run)
    assert pickle.loads(pickle.dumps(run)).results == [0, 1]
