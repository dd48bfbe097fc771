"""The recipe of a study as a document: machines, models, seeds and calls, each written down once."""

from __future__ import annotations

import ast
import functools
import importlib.metadata
import inspect
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.checks import program_name
from labkit.errors import DataError, ProgramError
from labkit.local.costs import find_calibration
from labkit.real.slurm.options import is_slurm
from labkit.sim.isolation.code import is_installed
from labkit.study.bundle.plain import encode
from labkit.study.bundle.source import SourceText, difference, home_of, same_code, source_of
from labkit.study.points import Point, is_real
from labkit.study.rows import HOST_METRICS

if TYPE_CHECKING:
    from labkit.study.recipe import Recipe

__all__ = ["RecipeWriter", "numbers", "spans"]

_LEFT_OUT = ("trace", "trace_ti", "calibration")  # what a run keeps beside its figures; what is a machine's


# Functions and other values as a bundle holds them: as source wherever that is the same, else pickled.


class Carrier:
    """Collects the files of a bundle that functions and values need.

    Attributes
    ----------
    files : dict
        Content by path in the bundle.
    remarks : list of str
        What a reader must know of how they travel.
    """

    def __init__(self, sources: Mapping[int, SourceText | None]) -> None:
        self.sources = sources  # kept when the sweep ran, by the function's id
        self.files: dict[str, bytes] = {}
        self.remarks: list[str] = []
        self._known: dict[int, Any] = {}
        self._modules: set[str] = set()

    def carry(self, value: Any) -> Any:
        """Return a value's plain form, and keep the files it needs."""
        return encode(value, self._special)

    def carry_program(self, program: Any) -> Any:
        """Return a program's plain form: of a function, or of a script's path."""
        if not isinstance(program, str | Path):
            return self.carry(program)
        path = Path(program)
        self.files |= {f"program/scripts/{name}": content for name, content in script_files(path).items()}
        return {"$script": f"program/scripts/{path.name}"}

    def finish(self) -> None:
        """Collect the user's modules that the functions import."""
        found = local_files(self._modules)
        self.files |= {f"program/modules/{name}": content for name, content in found.items()}

    def _special(self, value: Any) -> Any:
        if id(value) not in self._known:
            self._known[id(value)] = self._form(value)
        return self._known[id(value)]

    def _form(self, value: Any) -> Any:
        if isinstance(value, functools.partial):
            parts = {"func": value.func, "args": list(value.args), "keywords": dict(value.keywords)}
            return {"$partial": self.carry(parts)}
        if isinstance(value, np.ufunc):
            return {"$import": {"module": "numpy", "name": value.__name__}}
        return self._imported(value) or self._written(value) or self._pickled(value)

    def _imported(self, value: Any) -> dict[str, Any] | None:
        """What another Python can import by name: installed, or from files that travel along."""
        home = home_of(value)
        if home is None and getattr(value, "__module__", "") == "builtins":
            home = ("builtins", value.__name__)
        if home is None:
            return None
        module, name = home
        if not is_local(module):
            file = Path(getattr(sys.modules[module], "__file__", None) or "")
            if file.suffix == ".py" and file.is_file():  # for readers: it is imported, not run from here
                self.files[f"program/installed/{module}.py"] = file.read_bytes()
            return {"$import": {"module": module, "name": name, "version": _version(module)}}
        if not has_own_name(module):
            return None
        if not _is_as_on_disk(value, module):
            self.remarks.append(f"{name}: {module} was changed on disk after it was imported")
            return None
        self._modules.add(module)
        return {"$import": {"module": module, "name": name, "local": True}}

    def _written(self, value: Any) -> dict[str, Any] | None:
        """Return a notebook's function with all that it uses as a module; None where it is not the same."""
        if not isinstance(value, FunctionType):
            return None
        text = self.sources.get(id(value)) or source_of(value)
        if text is None:
            self.remarks.append(f"{value.__name__}: its source is not to be found")
            return None
        path, number = f"program/{text.name}.py", 1
        while path in self.files:
            path, number = f"program/{text.name}_{number + 1}.py", number + 1
        self.files[path] = text.text.encode()  # for readers at least
        wrong = text.missing[0] if text.missing else difference(text.text, text.values, text.originals)
        if wrong is not None:
            self.remarks.append(f"{path} is for readers only; {wrong}")
            return None
        self._modules |= {name for name in text.modules if is_local(name)}
        values = {name: self.carry(one) for name, one in text.values.items()}
        return {"$source": {"file": path, "name": text.name, "values": values}}

    def _pickled(self, value: Any) -> dict[str, Any]:
        from labkit.real.travel import pack_program

        what = getattr(value, "__name__", None) or type(value).__name__
        try:
            content = pack_program(value, (), {})
        except ProgramError as error:
            raise ProgramError(f"{what} cannot go into a bundle: {error}") from error
        path = f"program/{len(self.files)}_{what.strip('<>')}.pkl"
        self.files[path] = content
        # Data can be read by any Python; code that travels by value only by the one that wrote it.
        is_bound = b"cloudpickle" in content
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        if is_bound:
            self.remarks.append(f"{what} travels as a pickle, which only Python {version} can run")
        return {"$pickle": {"file": path, "what": what, "python": version if is_bound else None}}


def _version(module: str) -> str:
    """Return the version of the package that a module belongs to; of Python for its own modules."""
    top = module.partition(".")[0]
    names = _distributions().get(top)
    try:
        return f"{names[0]} {importlib.metadata.version(names[0])}" if names else "Python"
    except importlib.metadata.PackageNotFoundError:
        return top


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return importlib.metadata.packages_distributions()


def _is_as_on_disk(value: Any, module: str) -> bool:
    """Whether a function's code is still what its module's file says."""
    plain = inspect.unwrap(value)
    if not isinstance(plain, FunctionType):
        return True
    try:
        path = str(sys.modules[module].__file__)
        todo = [compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)]
    except (OSError, SyntaxError, ValueError):
        return False
    while todo:
        code = todo.pop()
        if same_code(code, plain.__code__):
            return True
        todo += [const for const in code.co_consts if isinstance(const, CodeType)]
    return False


_MOST_BYTES = 20_000_000


def is_local(name: str) -> bool:
    """Whether a loaded module is neither Python's, nor labkit's, nor an installed package's."""
    file = getattr(sys.modules.get(name), "__file__", None) or ""
    return file.endswith(".py") and name != "__main__" and not is_installed(name, file)


def has_own_name(name: str) -> bool:
    """Whether a module's file can be found by the module's name: one loaded by path may not."""
    path = Path(str(getattr(sys.modules.get(name), "__file__", None))).with_suffix("")
    parts = [*name.split("."), *(["__init__"] if path.name == "__init__" else [])]
    folders = {str(Path(folder or ".").resolve()) for folder in sys.path}
    return path.parts[-len(parts) :] == tuple(parts) and str(path.parents[len(parts) - 1]) in folders


def local_files(names: Iterable[str]) -> dict[str, bytes]:
    """Read the local modules among some, and those that they import: content by path below one folder."""
    files: dict[str, bytes] = {}
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        parts = name.split(".")
        todo += [".".join(parts[:depth]) for depth in range(1, len(parts))]
        if name in seen or not is_local(name):
            continue
        seen.add(name)
        path = Path(str(sys.modules[name].__file__))
        is_package = path.name == "__init__.py"
        inside = "/".join(parts) + ("/__init__.py" if is_package else ".py")
        files[inside] = _read(path)
        package = name if is_package else name.rpartition(".")[0]
        todo += [one for one in _imported_names(files[inside], package) if one in sys.modules]
        if sum(map(len, files.values())) > _MOST_BYTES:
            raise DataError(f"the modules that the program imports are more than {_MOST_BYTES} bytes")
    return dict(sorted(files.items()))


def script_files(path: Path) -> dict[str, bytes]:
    """Read a script, and the modules in its folder that it imports."""
    files: dict[str, bytes] = {}
    todo = [path.name]
    while todo:
        name = todo.pop()
        if name in files:
            continue
        files[name] = _read(path.parent / name)
        for module in _imported_names(files[name], name.rpartition("/")[0].replace("/", ".")):
            inside = module.replace(".", "/")
            nearby = (f"{inside}.py", f"{inside}/__init__.py")
            todo += [one for one in nearby if (path.parent / one).is_file()]
    return dict(sorted(files.items()))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"the program's file {path.name!r} cannot be read: {error}") from error


def _imported_names(source: bytes, package: str) -> Iterator[str]:
    """Name the modules that a file imports (and names in them, which may be modules)."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")
                base = ".".join([*above[: len(above) - node.level + 1], *([base] if base else [])])
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


class RecipeWriter:
    """Writes a recipe down; `data` are the study's rows, with the labels that the recipe knows.

    Attributes
    ----------
    carrier : Carrier
        Holds the files of the functions.
    machines : dict
        Platforms, models, calibration and noise.
    """

    def __init__(self, recipe: Recipe, data: pd.DataFrame, notes: dict[str, Any]) -> None:
        self.recipe = recipe
        self.positions = {label: at for at, label in enumerate(data.index)}
        self.notes = notes
        self.carrier = Carrier(recipe.sources)
        options = recipe.job.options
        self.mapping = options["mapping"] if _is_file(options.get("mapping")) else None
        self.machines: dict[str, Any] = {
            "platforms": [],
            "models": [],
            "calibration": encode(find_calibration(options.get("calibration"))),
            "noise": str(options.get("noise") or "none"),
            "mapping": str(options.get("mapping") or "block"),
        }

    def document(self, host_metrics: Iterable[str]) -> dict[str, Any]:
        """Return the recipe as plain data.

        Raises
        ------
        ProgramError
            A function or value that can neither be written nor pickled.
        """
        job, carry = self.recipe.job, self.carrier.carry
        left_out = _LEFT_OUT if self.mapping is None else (*_LEFT_OUT, "mapping")
        document = {
            "program": self.carrier.carry_program(job.program),
            "program_name": program_name(job.program),
            "args": carry(list(job.args)),
            "measure": carry(job.measure),
            "host_metrics": sorted({*host_metrics, *HOST_METRICS}),
            "seed": job.seed,
            "repeats": job.repeats,
            "seed_of_repetition": "seed + repetition",
            "timeout_s": job.timeout_s,
            "points": [self._point(point, rows) for point, rows in self.recipe.points],
            "options": carry({name: one for name, one in job.options.items() if name not in left_out}),
        }
        self.carrier.finish()
        return document

    def _point(self, point: Point, labels: range) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "ranks": int(point.ranks),
            "parameters": self.carrier.carry(point.parameters),
            "rows": spans(self.positions[label] for label in labels if label in self.positions),
            "rows_of_the_sweep": len(labels),
        }
        if point.options:
            entry["options"] = self.carrier.carry(point.options)
            entry["cells"] = {name: one for name, one in point.cells.items() if name not in point.parameters}
        if is_real(point.on):
            named = str(point.on) if isinstance(point.on, str) else "cluster"
            return {**entry, "real": "slurm" if is_slurm(point.on) else named}
        from labkit.platform import platform

        machine = platform(point.on)
        if self.mapping is not None:
            machine = machine.mapped(self.mapping)
        model = machine.network(point.model)
        about = self.notes.get("machines", {}).get(machine.name, {})
        return {
            **entry,
            "platform": self._kept("platforms", {"name": machine.name, "spec": machine.spec}, machine),
            "model": self._kept("models", {"name": model.name}, model),
            "deterministic": bool(about.get("deterministic", True) or about.get("is_recorded")),
        }

    def _kept(self, kind: str, head: dict[str, Any], thing: Any) -> int:
        """Return the number of a machine or model in its list, where it is added once."""
        entry = {**head, "object": encode(thing)}
        known: list[str] = [json.dumps(other, sort_keys=True) for other in self.machines[kind]]
        key = json.dumps(entry, sort_keys=True)
        if key not in known:
            self.machines[kind].append(entry)
        return [*known, key].index(key)


def spans(numbers: Iterable[int]) -> list[list[int]]:
    """Write ascending numbers as spans, each with its first number and the one behind its last.

    Examples
    --------
    >>> spans([0, 1, 2, 7])
    [[0, 3], [7, 8]]
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, number + 1])
    return found


def numbers(written: Iterable[Any], below: int) -> list[int]:
    """Return the numbers of `spans`."""
    found: list[int] = []
    for first, stop in written:
        if not 0 <= first < stop <= below:
            raise ValueError(f"there are no rows {first} to {stop} in a table of {below}")
        found += range(first, stop)
    return found


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and Path(value).is_file()
