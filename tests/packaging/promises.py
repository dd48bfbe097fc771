"""What a user may rely on, a line each: ``python tests/packaging/promises.py`` lists it for this version.

`promises.txt` has what README, notebooks, ``--help`` and docs have said, listed by this file. A line is
struck only in a commit that says why.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import inspect
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
#: modules whose public names are promised, by the names that documents use
MODULES = ("", ".MPI", ".errors", ".explore", ".grading", ".local", ".plot", ".registry", ".schedule")
#: commands of modules, as documents start them
PROGRAMS = ("labkit.local.calibrate", "labkit.grading.nbgrader_course")


def module_of(name: str) -> Any:
    import labkit

    return getattr(labkit, name[1:]) if name in (".errors", ".explore", ".plot", ".MPI") else _import(name)


def _import(name: str) -> Any:
    return importlib.import_module(f"labkit{name}")


def members(prefix: str, value: Any) -> Iterator[str]:
    """The name with its parameters if it is a function's; of a class, every attribute."""
    if not inspect.isclass(value):
        yield prefix + parameters(value)
        return
    yield prefix
    above = {name for base in value.__mro__ if not base.__module__.startswith("labkit") for name in dir(base)}
    for name in sorted(set(dir(value)) | set(getattr(value, "__dataclass_fields__", {}))):
        if not name.startswith("_") and name not in above:
            yield f"{prefix}.{name}{parameters(inspect.getattr_static(value, name, None))}"


def parameters(value: Any) -> str:
    function = getattr(value, "__func__", value)
    if not inspect.isfunction(function):
        return ""
    known = inspect.signature(function).parameters.values()
    words = [p.name for p in known if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return f"({', '.join(word for word in words if word not in ('self', 'cls'))})"


def names() -> Iterator[str]:
    """Public names."""
    for path in MODULES:
        module, prefix = module_of(path), f"labkit{path}"
        for name in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
            value = getattr(module, name)
            has_own = not inspect.ismodule(value) and not name.lower().endswith("comm")  # a rank's: see below
            found = members(f"{prefix}.{name}", value) if has_own else [f"{prefix}.{name}"]
            yield from (f"name {line}" for line in found)


def described(comm: Any) -> list[str]:
    """Methods and attributes of communicators, with the methods' parameters."""
    cart, graph = comm.Create_cart([1]), comm.Create_dist_graph_adjacent([0], [0])
    lines = []
    for prefix, value in (("comm", comm), ("cart", cart), ("graph", graph)):
        for name in sorted(n for n in dir(value) if not n.startswith("_")):
            lines.append(f"{prefix}.{name}{parameters(getattr(type(value), name, None))}")
    seen = {line.partition(".")[2] for line in lines if line.startswith("comm.")}
    return [line for line in lines if line.startswith("comm.") or line.partition(".")[2] not in seen]


def communicators() -> Iterator[str]:
    """A rank's communicators on simulated machines."""
    import labkit

    yield from (f"rank {line}" for line in labkit.run(described, 1).results[0])


def algorithms() -> Iterator[str]:
    """Names that `--coll`, `--model` and `--on` know."""
    from labkit import registry

    for problem in registry.problems():
        yield from (f"algorithm {problem} {name}" for name in registry.names(problem))
    for folder in ("models", "machines"):
        for path in sorted((ROOT / "datasets" / folder).glob("*.toml")):
            yield f"{folder.removesuffix('s')} {path.stem}"


def help_of(words: list[str]) -> str:
    from labkit.cli.main import main

    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main([*words, "--help"])
    assert code == 0, (words, code)
    return out.getvalue()


def options(text: str) -> list[str]:
    """Options that a help text defines."""
    rows = re.findall(r"^ {2,4}(-.*?)(?: {2}|$)", text, re.MULTILINE)
    return sorted({word for row in rows for word in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", row)})


def commands() -> Iterator[str]:
    """The command line and the magic."""
    from labkit.cli.main import COMMANDS
    from labkit.jupyter.options import help_text

    heads = [[], *([name] for name in COMMANDS)]
    for words in heads:
        text = help_of(words)
        yield from (f"option labkit {' '.join([*words, option])}" for option in options(text))
        below = re.search(r"usage: labkit \w+.*?\{([\w,-]+)\}", text, re.DOTALL)
        positional = re.search(r"^positional arguments:\n\s+\{", text, re.MULTILINE)
        if len(words) == 1 and below and positional:
            heads += [[*words, name] for name in below[1].split(",")]
    yield from (f"option %%spmd {option}" for option in options(help_text()))


def documents() -> dict[str, str]:
    """The text of every document; of notebooks, the cells'."""
    found = {}
    paths = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    for path in [*paths, *(ROOT / "course").glob("*.py"), *(ROOT / "datasets").rglob("README.md")]:
        found[str(path.relative_to(ROOT))] = path.read_text()
    for path in [*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "course").rglob("*.ipynb")]:
        cells = json.loads(path.read_text())["cells"]
        found[str(path.relative_to(ROOT))] = "\n\n".join("".join(cell["source"]) for cell in cells)
    return found


def imports(text: str) -> Iterator[str]:
    """Import statements of the package, names of modules in prose, and chains of attributes."""
    for found in re.finditer(
        r"^ *(from labkit[\w.]* import (?:\([^)]*\)|.*)|import labkit.*)$", text, re.MULTILINE
    ):
        with contextlib.suppress(SyntaxError):
            for node in ast.parse(found[1].strip()).body:
                if isinstance(node, ast.ImportFrom):
                    yield from (f"import {node.module} {alias.name}" for alias in node.names)
                elif isinstance(node, ast.Import):
                    yield from (f"import {a.name}" for a in node.names if a.name.startswith("labkit"))
    yield from (f"program {name}" for name in re.findall(r"python3? -m (labkit[\w.]*\w)", text))
    for name in re.findall(r"(?<![\w/.-])(?:labkit|lk)((?:\.[A-Za-z_]\w*)+)", text):
        if not re.search(r"\.(html?|md|py|toml|json|ipynb|zip)$", name):
            yield f"said labkit{name}"


def promises() -> list[str]:
    """All of it, without repetitions, sorted."""
    from_documents = (line for text in documents().values() for line in imports(text))
    lines = {
        *names(),
        *communicators(),
        *algorithms(),
        *commands(),
        *from_documents,
        *(f"program {name}" for name in PROGRAMS),
    }
    return sorted(lines)


if __name__ == "__main__":
    print("\n".join(promises()))
