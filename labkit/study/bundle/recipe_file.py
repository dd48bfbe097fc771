"""The recipe of a study, and its document: machines, models, seeds and calls, each written down once."""

from __future__ import annotations

import ast
import base64
import contextlib
import functools
import importlib
import importlib.metadata
import inspect
import io
import json
import math
import os
import pkgutil
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from labkit.checks import program_name
from labkit.errors import DataError, ProgramError
from labkit.local.costs import find_calibration
from labkit.machines import platform
from labkit.real.slurm.options import is_slurm
from labkit.result import ByRank
from labkit.sim.isolation.code import is_installed
from labkit.study.bundle.source import SourceText, difference, home_of, same_code, source_of
from labkit.study.points import Point, is_real
from labkit.study.rows import HOST_METRICS

if TYPE_CHECKING:
    from labkit.study.measure import SweepJob

__all__ = ["ANSWER", "REQUEST", "Recipe", "RecipeWriter", "decode", "numbers", "recipe_of", "spans"]


_LEFT_OUT = (
    "trace",
    "trace_ti",
    "calibration",
)  # what a run keeps beyond its figures; the machine's part


# What a sweep knew when it ran: enough to run the simulated points again.


@dataclass(frozen=True)
class Recipe:
    """A sweep as it was called.

    `job`: What all points have in common; repetition k of a simulated point ran with ``seed + k``.
    `points`: Those that gave rows, with these rows of the study's table, by the labels that they had then.
    `sources`: Texts of the functions, by their ids.
    """

    job: SweepJob
    points: list[tuple[Point, range]]
    sources: dict[int, SourceText | None]


def recipe_of(job: SweepJob, plan: Iterable[Point], numbers: Iterable[int]) -> Recipe:
    """Write down what a sweep knows; `numbers` are the rows' points.

    Sources and files are read now: cells may be changed before the study is bundled.
    """
    counts, points, begin = Counter(numbers), [], 0
    for point in sorted(plan, key=lambda one: one.number):
        end = begin + counts[point.number]
        if end > begin:
            points.append((_resolved(point), range(begin, end)))
        begin = end
    return Recipe(job, points, _sources(job, points))


def _sources(job: SweepJob, points: list[tuple[Point, range]]) -> dict[int, SourceText | None]:
    values = [job.program, job.measure, *job.args]
    values += [value for point, _ in points for value in point.parameters.values()]
    found: dict[int, SourceText | None] = {}
    for value in values:
        function = getattr(value, "func", value)  # functools.partial
        if isinstance(function, FunctionType) and id(function) not in found:
            found[id(function)] = None
            with contextlib.suppress(Exception):  # a sweep must not fail for what nobody may ever bundle
                found[id(function)] = source_of(function)
    return found


def _resolved(point: Point) -> Point:
    """Return a point with the platform's file that it names read."""
    with contextlib.suppress(Exception):  # as above
        if isinstance(point.on, str | os.PathLike) and os.path.isfile(point.on):
            return replace(point, on=platform(point.on))
    return point


# Functions and other values as a bundle holds them: as source wherever that is the same, else pickled.


class Carrier:
    """Collects the files of a bundle that functions and values need.

    `files`: Content by path in the bundle.
    `remarks`: Caveats on how they travel.
    """

    def __init__(self, sources: Mapping[int, SourceText | None]) -> None:
        self.sources = sources  # kept when the sweep ran, by the function's id
        self.files: dict[str, bytes] = {}
        self.remarks: list[str] = []
        self._known: dict[int, object] = {}
        self._modules: set[str] = set()

    def carry(self, value: object) -> Any:
        """Return a value's plain form, and keep the files it needs."""
        return encode(value, self._special)

    def carry_program(self, program: object) -> Any:
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

    def _special(self, value: object) -> object:
        if id(value) not in self._known:
            self._known[id(value)] = self._form(value)
        return self._known[id(value)]

    def _form(self, value: object) -> object:
        if isinstance(value, functools.partial):
            parts = {"func": value.func, "args": list(value.args), "keywords": dict(value.keywords)}
            return {"$partial": self.carry(parts)}
        if isinstance(value, np.ufunc):
            return {"$import": {"module": "numpy", "name": value.__name__}}
        return self._imported(value) or self._written(value) or self._pickled(value)

    def _imported(self, value: Any) -> dict[str, object] | None:
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

    def _written(self, value: object) -> dict[str, object] | None:
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

    def _pickled(self, value: Any) -> dict[str, object]:
        from labkit.real.travel import pack_program

        what = getattr(value, "__name__", None) or type(value).__name__
        try:
            content = pack_program(value, (), {})
        except ProgramError as error:
            raise ProgramError(f"{what} cannot go into a bundle: {error}", code="not-picklable") from error
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
            raise DataError(
                f"the modules that the program imports are more than {_MOST_BYTES} bytes", code="too-large"
            )
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
        raise DataError(
            f"the program's file {path.name!r} cannot be read: {error}", code="unreadable-file"
        ) from error


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

    `carrier`: Holds the files of the functions.
    `machines`: Platforms, models, calibration and noise.
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

    def document(self, host_metrics: Iterable[str]) -> dict[str, object]:
        """Return the recipe as plain data.

        Raises ProgramError: A function or value that can neither be written nor pickled.
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

    def _point(self, point: Point, labels: range) -> dict[str, object]:
        entry: dict[str, object] = {
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

    def _kept(self, kind: str, head: dict[str, object], thing: object) -> int:
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


def _is_file(value: object) -> bool:
    return isinstance(value, str | os.PathLike) and os.path.isfile(value)


# Objects of labkit as plain JSON and back, without pickle: what a reader can read, no reader has to run.
#
# Numbers, texts, lists and dicts stay themselves. A labkit object (a platform, a model, a mapping) becomes
# its class and its state; only classes of labkit are made again, and making one calls none of its code.


#: files with the input and the output of a program that runs again
REQUEST, ANSWER = "request.json", "answer.jsonl"

#: where the classes live whose objects may be written
_HOMES = ("labkit.machines.", "labkit.sim.", "labkit.local.", "labkit.checks", "labkit.result")
_DEEPEST = 60

Fallback = Callable[[Any], Any]


class NotPlain(TypeError):
    """A value that has no plain form."""


def encode(value: Any, fallback: Fallback | None = None, depth: int = 0) -> Any:
    """Return a value as JSON can hold it.

    `value`: Numbers, texts, None, NumPy's numbers and arrays, lists, tuples, sets, dicts, objects of labkit.
    `fallback`: Gets what has no plain form and returns one; without it such a value is refused.
    Raises NotPlain: There is no plain form.
    """
    if depth > _DEEPEST:
        raise NotPlain("it is nested too deeply, or contains itself")
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}

    def inner(part: object) -> Any:
        return encode(part, fallback, depth + 1)

    if type(value) in (list, ByRank):
        return [inner(part) for part in value]
    if type(value) in (tuple, set, frozenset):
        parts = value if isinstance(value, tuple) else sorted(value, key=repr)
        return {f"${type(value).__name__}": [inner(part) for part in parts]}
    if type(value) is range:
        return {"$range": [value.start, value.stop, value.step]}
    if type(value) is dict:
        if all(type(key) is str and not key.startswith("$") for key in value):
            return {key: inner(part) for key, part in value.items()}
        return {"$items": [[inner(key), inner(part)] for key, part in value.items()]}
    if isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
        return {"$array" if isinstance(value, np.ndarray) else "$scalar": _packed(value)}
    if _is_own(type(value)):
        name = f"{type(value).__module__}:{type(value).__qualname__}"
        return {"$object": name, "state": {key: inner(part) for key, part in _state(value).items()}}
    if fallback is None:
        raise NotPlain(f"a {type(value).__name__} has no plain form")
    return fallback(value)


def decode(value: object, special: Callable[[dict[str, object]], object] | None = None) -> Any:
    """Return the value that `encode` wrote."""
    if isinstance(value, list):
        return [decode(part, special) for part in value]
    if not isinstance(value, dict):
        return value
    word = next((key for key in value if key.startswith("$")), None)
    if word is None:
        return {key: decode(part, special) for key, part in value.items()}
    if word in _READERS:
        try:
            return _READERS[word](decode(value[word], special))
        except (TypeError, ValueError, KeyError) as error:
            raise DataError(
                f"a value of the recipe cannot be read ({word}: {error})", code="malformed-file"
            ) from error
    if word == "$object":
        return _made(str(value[word]), decode(value["state"], special))
    if special is None:
        raise DataError(f"a value of the recipe is of an unknown kind, {word}", code="malformed-value")
    return special(value)


def _is_own(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return kind.__module__.startswith(_HOMES) and getattr(module, kind.__qualname__, None) is kind


def _state(thing: Any) -> dict[str, object]:
    """Return an object's attributes without what it only remembers of computations."""
    own = next(vars(kind)["__getstate__"] for kind in type(thing).__mro__ if "__getstate__" in vars(kind))
    if own is not vars(object)["__getstate__"]:
        state: Any = thing.__getstate__()
    else:
        slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
        state = {name: getattr(thing, name) for name in slots if hasattr(thing, name)}
        state |= getattr(thing, "__dict__", {})
    if isinstance(state, list | tuple):  # dataclasses with slots give the values of their fields
        state = dict(zip(type(thing).__dataclass_fields__, state, strict=True))
    cached = {
        name
        for kind in type(thing).__mro__
        for name, what in vars(kind).items()
        if isinstance(what, cached_property)
    }
    return {name: part for name, part in state.items() if name not in cached}


#: classes by the names that older recipes have for them
_RENAMED = {"Cluster": "ClusterZone"}


def _class(module: str, kind: str) -> object:
    """Return a class by its module and name; where the module is gone, by its package and name."""
    kind = _RENAMED.get(kind, kind)
    try:
        return getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError):
        package = importlib.import_module(".".join(module.split(".")[:2]))
        parts = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        modules = [importlib.import_module(part.name) for part in parts]
        found = {getattr(one, kind) for one in modules if isinstance(getattr(one, kind, None), type)}
        if len(found) != 1:
            raise
        return found.pop()


def _made(name: str, state: object) -> object:
    module, _, kind = name.partition(":")
    try:
        if not module.startswith(_HOMES):
            raise DataError(
                f"the recipe asks for {name!r}, which is no description of a machine", code="malformed-file"
            )
        found = _class(module, kind)
        if not isinstance(found, type) or not _is_own(found) or not isinstance(state, dict):
            raise DataError(
                f"the recipe asks for {name!r}, which is no class of labkit", code="malformed-file"
            )
        thing: object = object.__new__(found)
        kept = fields(found) if is_dataclass(found) else ()  # the recipe may be older than a field
        later = {one.name: one.default for one in kept if one.default is not MISSING}
        for attribute, part in {**later, **state}.items():
            object.__setattr__(thing, str(attribute), part)
    except (ImportError, AttributeError, TypeError) as error:
        raise DataError(
            f"this labkit has no {name!r} as the recipe knows it: {error}", code="version-mismatch"
        ) from error
    return thing


def _packed(value: Any) -> str:
    buffer = io.BytesIO()
    np.save(buffer, np.ascontiguousarray(value) if getattr(value, "ndim", 0) else value, allow_pickle=False)
    return base64.b64encode(buffer.getvalue()).decode("ascii")


def _unpacked(text: str) -> Any:
    return np.load(io.BytesIO(base64.b64decode(text, validate=True)), allow_pickle=False)


_READERS: dict[str, Callable[[Any], Any]] = {
    "$float": float,
    "$tuple": tuple,
    "$set": set,
    "$frozenset": frozenset,
    "$range": lambda parts: range(*parts),
    "$items": dict,
    "$array": _unpacked,
    "$scalar": lambda text: _unpacked(text)[()],
}
