"""Every public name says in numpydoc's form what it takes and gives: arrays with shapes, times with units."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

validate = pytest.importorskip("numpydoc.validate").validate
docscrape = pytest.importorskip("numpydoc.docscrape")

ROOMS = ("labkit", "algorithms", "datasets", "benchmarks", "docs", "docker", "tests/support")
ASKS = re.compile(r"(What|How|Where|When|Why|Which|Who|Whether)\b")
MODULES = ("labkit", "labkit.plot", "labkit.jupyter.explorers", "labkit.errors")
#: numpydoc's names of faults: no docstring; parameters missing, unknown, in another order, without a
#: description; no Returns, no Yields
FAULTS = {"GL08", "PR01", "PR02", "PR03", "PR07", "RT01", "YD01"}


def targets():
    """Yield every public name with its own methods: the dotted name, and what it is."""
    seen = set()
    for place in MODULES:
        module = importlib.import_module(place)
        for name in module.__all__:
            thing = getattr(module, name)
            if not (inspect.isclass(thing) or inspect.isfunction(thing)) or id(thing) in seen:
                continue
            seen.add(id(thing))
            path = f"{thing.__module__}.{thing.__qualname__}"
            yield path, thing
            for key, member in vars(thing).items() if inspect.isclass(thing) else ():
                if not key.startswith("_"):
                    member = getattr(member, "__func__", member)
                    if inspect.isfunction(member) or isinstance(member, property):
                        yield f"{path}.{key}", member


def faults(path, thing):
    """Return what numpydoc finds; fields of a class may be its attributes."""
    if inspect.isclass(thing) and issubclass(thing, Exception):
        return [] if inspect.getdoc(thing) else [f"{path}: no docstring"]
    found = []
    said = docscrape.NumpyDocString(inspect.getdoc(thing) or "")
    named = {name.strip() for entry in said["Attributes"] for name in entry.name.split(",")}
    for code, text in validate(path)["errors"]:
        if code not in FAULTS or (isinstance(thing, property) and code == "RT01"):
            continue
        if _has_keywords(thing) and (code == "PR02" or re.fullmatch(r"Parameters \{'\*\*\w+'\} .*", text)):
            continue  # they are documented by their own names
        if inspect.isclass(thing) and code in ("PR01", "PR02", "PR03"):
            missing = set(re.findall(r"'(\w+)'", text)) - named
            if code != "PR01" or not {one for one in missing if not one.startswith("_")}:
                continue
        found.append(f"{path}: {code} {text}")
    return found


def _has_keywords(thing):
    kinds = [one.kind for one in inspect.signature(thing).parameters.values()] if callable(thing) else []
    return inspect.Parameter.VAR_KEYWORD in kinds


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # a base class's own, asked for its members
def test_public_names_are_documented_as_numpydoc_wants_it():
    found = [fault for path, thing in targets() for fault in faults(path, thing)]
    assert not found, "\n".join(found)


def test_arrays_have_shapes_and_seconds_are_said():
    found = []
    for path, thing in targets():
        said = docscrape.NumpyDocString(inspect.getdoc(thing) or "")
        for section in ("Parameters", "Attributes", "Returns"):
            for entry in said[section]:
                words = f"{entry.type} {' '.join(entry.desc)}"
                if re.search(r"\b(ndarray|array_like)\b", entry.type) and "shape" not in words:
                    found.append(f"{path}: {section}: {entry.name}: an array without a shape")
                names = [name.strip() for name in entry.name.split(",")]
                if any(name.endswith("_s") for name in names) and not re.search(
                    r"\bs\b|second|time", words + entry.name, re.IGNORECASE
                ):
                    found.append(f"{path}: {section}: {entry.name}: no unit")
    assert not found, "\n".join(found)


def test_there_are_many_of_them():
    assert len(list(targets())) > 150


def test_a_module_says_what_it_is():
    """Its first line names the thing; "What it does" and "How it works" are questions."""
    root = Path(__file__).resolve().parents[2]
    files = [file for room in ROOMS for file in (root / room).rglob("*.py")]
    first = {file: (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "") for file in files}
    assert len(files) > 800
    assert [str(file) for file, text in first.items() if not text or ASKS.match(text)] == []
