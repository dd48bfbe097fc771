"""The reference manual (part of ``make site``): public names, strings and options, file formats.

Nothing is written here twice: pages are made of docstrings, of the tables that labkit itself reads, and of
the help of its commands.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import io
import os
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from numpydoc.docscrape import NumpyDocString

from labkit import registry
from labkit.cli.main import COMMANDS, main
from labkit.errors import CODES
from labkit.machines import named
from labkit.machines.spec import kinds
from labkit.trace.exchange import FORMATS as EXPORTS

sys.path.insert(0, str(Path(__file__).parent))
from metrics_page import metrics  # noqa: F401  # found by its name, as the other pages are
from prose import as_typed, as_written, table, title

ROOT = Path(__file__).parents[2]
#: pages of strings and files, each made by the function of its name
WORDS = ("algorithms", "platforms", "models", "options", "metrics", "formats", "commands", "codes")
#: modules whose public names have a page each, and what they are about
MODULES = {
    "labkit": "What a program and a notebook begin with: ``import labkit as lk``.",
    "labkit.plot": "Figures: of a run, a study, a verdict, a machine.",
    "labkit.explore": "Explorers to play with in a notebook.",
    "labkit.errors": "What labkit raises; all of it is a `LabkitError`.",
    "labkit.study": "Sweeps, and the rows that they leave.",
    "labkit.scaling": "Models of growth, expectations, verdicts.",
    "labkit.schedule": "Collective algorithms as data: built, proved, costed, carried out.",
    "labkit.machines": "Simulated machines.",
    "labkit.models": "Formulas of times, before anything runs.",
    "labkit.trace": "What was recorded, and why a run took so long.",
    "labkit.timing": "Repetition until an interval is narrow.",
    "labkit.calibration": "A machine's parameters from measurements.",
    "labkit.registry": "Problems and their algorithms, by name.",
    "labkit.selector": "Who chooses the algorithm of a collective.",
    "labkit.local": "Node-local kernels, and what they cost.",
    "labkit.grading": "Assignments and their checks.",
    "labkit.datasets.inputs": "Keys to sort.",
    "labkit.datasets.flights": "336,776 flights.",
}
#: what files are like: the module that says it
FORMATS = {
    "Studies": "labkit.study.store",
    "Tables and measurements of other programs": "labkit.study.formats.reader",
    "Extra-P's experiments": "labkit.study.formats.writer",
    "Bundles": "labkit.study.bundle.writer",
    "Declared studies": "labkit.study.declared.declaration",
    "Network models": "labkit.machines.models",
    "Named machines": "labkit.machines.named",
    "SimGrid's platform files": "labkit.machines.xml.reader",
    "Calibrations": "labkit.calibration.result",
    "Rules of selectors": "labkit.selector.rules",
    "Rules of MPI libraries": "labkit.selector.formats",
    "Time-independent traces": "labkit.trace.formats.ti_writer",
    "GOAL": "labkit.trace.formats.ti_writer",
    "MSCCL": "labkit.synthesis.synthesized",
}


def write_sources(folder: Path) -> None:
    """Write the manual's pages as Sphinx reads them.

    Parameters
    ----------
    folder : Path
        Made.
    """
    (folder / "api").mkdir(parents=True)
    for name, lines in api(folder / "api"):
        _write(folder / "api" / f"{name}.rst", lines)
    for name in WORDS:
        _write(folder / f"{name}.rst", globals()[name]())


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def contents() -> dict[str, tuple[str, ...]]:
    """Return the pages of the manual by caption of the table of contents."""
    return {"Names": tuple(f"api/{name}" for name in MODULES), "Strings and files": WORDS}


def public_names(module: ModuleType) -> list[str]:
    """Return what a module offers: its ``__all__``, without constants."""
    found = [name for name in module.__all__ if not name.startswith("__")]
    return [name for name in found if callable(getattr(module, name))]


def api(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """Yield a page for each module and for each of its names, by file name."""
    known: dict[int, str] = {}
    for place, about in MODULES.items():
        module = importlib.import_module("labkit.jupyter.explorers" if place == "labkit.explore" else place)
        rows, pages = [], []
        for name in public_names(module):
            thing = getattr(module, name)
            if id(thing) not in known:
                known[id(thing)] = f"{place}.{name}"
                pages.append(f"{place}.{name}")
                yield f"{place}.{name}", _page(module, place, name, thing)
            rows.append((f":doc:`{name} <{known[id(thing)]}>`", _first(thing)))
        lines = [*title(place), about, "", *table(("name", "what it is"), rows)]
        yield place, [*lines, *_hidden(pages)]


def _hidden(pages: list[str]) -> list[str]:
    return [".. toctree::", "   :hidden:", "", *(f"   {page}" for page in pages), ""] if pages else []


def _page(module: ModuleType, place: str, name: str, thing: Any) -> list[str]:
    kind = "autoclass" if inspect.isclass(thing) else "autofunction"
    lines = [*title(f"{place}.{name}"), f".. {kind}:: {module.__name__}::{name}"]
    if kind == "autoclass":
        lines += ["   :members:", "   :inherited-members: " + ", ".join(_FOREIGN)]
    return [*lines, ""]


#: bases whose members are no names of labkit's
_FOREIGN = (
    "object",
    "Exception",
    "BaseException",
    "NotImplementedError",
    "AttributeError",
    "tuple",
    "VBox",
    "Box",
    "DOMWidget",
    "CoreWidget",
    "Widget",
    "LoggingHasTraits",
    "HasTraits",
    "HasDescriptors",
    "int",
    "ndarray",
    "ABC",
)


def _first(thing: Any) -> str:
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split()).replace("`", "``").replace("````", "``")


def algorithms() -> Iterator[str]:
    """Yield the page of the algorithms: the docstring of each file."""
    yield from title("Algorithms")
    yield "One file, one algorithm: ``labkit.algorithms.PROBLEM.NAME``."
    yield "``coll={'PROBLEM': 'NAME'}`` of a run,"
    yield "or ``--coll PROBLEM=NAME``, chooses the algorithm of a collective."
    yield ""
    for problem in registry.problems():
        yield from title(problem, "-")
        for name in registry.names(problem):
            doc = inspect.getdoc(importlib.import_module(f"labkit.algorithms.{problem}.{name}")) or ""
            yield from title(f"{problem}: {name}", "~")
            yield from as_written(doc)


def platforms() -> Iterator[str]:
    """Yield the page of the platforms: topologies with their options, and named machines."""
    yield from title("Platforms")
    yield 'A machine is a string, ``on="torus:4x4"``, with options after commas: ``on="star:64,bw=10GBps"``.'
    yield 'Also a SimGrid file (``on="platform.xml"``), a named machine, and what ``labkit.graph`` makes.'
    yield ""
    known: dict[str, str] = {}
    for kind, spec in kinds().items():
        yield from title(kind, "-")
        yield f"{_first(spec)} ``{spec.FORM}``. Example: ``{kind}:{spec.EXAMPLE[0]}``, {spec.EXAMPLE[1]}."
        yield ""
        for base in reversed(spec.__mro__):
            known |= dict(_attributes(base))
        rows = [(f"``{name}``", known.get(name, "")) for name in spec.options() if name in known]
        yield from table(("option", "what it is"), rows)
    yield from title("Named machines", "-")
    for name in named.names():
        machine = named.load_machine(name)
        yield from title(name, "~")
        yield from [machine.title + ".", ""]
        yield from table(("figure", "value, and where it is from"), machine.facts)


def _attributes(thing: Any) -> Iterator[tuple[str, str]]:
    """Yield what a docstring says of each attribute."""
    if thing.__doc__ and thing.__module__.startswith("labkit"):
        for entry in NumpyDocString(inspect.cleandoc(thing.__doc__))["Attributes"]:
            for name in entry.name.split(","):
                yield name.strip(), " ".join([*entry.desc]).replace("`", "``")


def models() -> Iterator[str]:
    """Yield the page of the network models: title and source of each."""
    yield from title("Network models")
    yield 'What a message costs: ``model="smpi"`` of a run, or ``--model smpi``.'
    yield "How a file is written: :doc:`formats`."
    yield ""
    for path in sorted((ROOT / "datasets" / "models").glob("*.toml")):
        model = tomllib.loads(path.read_text("utf-8"))
        yield from title(path.stem, "-")
        yield from [f"{model['title']}.", ""]
        yield from as_typed(model["source"].strip())


def options() -> Iterator[str]:
    """Yield the page of a run's options."""
    from labkit.launch.options import _OPTIONS

    yield from title("Options of a run")
    yield "``labkit run`` and ``%%spmd`` read the same list; :doc:`api/labkit.run` has them as keywords."
    yield ""
    rows = []
    for flags, default, more in _OPTIONS:
        text = str(more.get("help", "")).replace("%%", "%").replace("`", "``")
        shown = "" if default in (None, False, ()) else f"``{default}``"
        rows.append((", ".join(f"``{flag}``" for flag in flags), text, shown))
    yield from table(("option", "what it does", "default"), rows)


def formats() -> Iterator[str]:
    """Yield the page of the formats of files: what the modules that read them say."""
    yield from title("Formats of files")
    for name, module in FORMATS.items():
        yield from title(name, "-")
        yield from as_written(inspect.getdoc(importlib.import_module(module)) or "")
    yield from title("Recorded runs, for other tools", "-")
    yield "Written by ``run.export(file)``, of a run with ``trace=True``; ``labkit.read_trace`` reads OTF2."
    yield ""
    rows = [
        (form.opens, f"``{name}``", ", ".join(f"``{ending}``" for ending in form.endings),
         "a profile: metrics by call path and rank" if form.is_profile else "events: calls, phases, messages")
        for name, form in EXPORTS.items()
    ]  # fmt: skip
    yield from table(("what opens it", "format", "ending", "what it holds"), rows)


def codes() -> Iterator[str]:
    """Yield the page of the codes of errors: what each means, and what to do."""
    yield from title("Codes of errors")
    yield "Every error of labkit has a ``code``, the kind of its fault: messages may change, codes do not."
    yield "``error.values`` has what was wrong, by name, where a check has noted it."
    yield ""
    rows = [(f"``{code}``", *(text.replace("`", "``") for text in texts)) for code, texts in CODES.items()]
    yield from table(("code", "what it means", "what to do"), rows)


def commands() -> Iterator[str]:
    """Yield the page of the command line: the help of each command."""
    yield from title("Commands")
    for name, about in COMMANDS.items():
        yield from title(f"labkit {name}", "-")
        yield from [f"{about[:1].upper()}{about[1:]}.".replace("`", "``"), ""]
        said = io.StringIO()
        os.environ["COLUMNS"] = "96"
        with contextlib.redirect_stdout(said):
            main([name, "--help"])
        yield from as_typed(said.getvalue())
