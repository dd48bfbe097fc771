"""Functions and other values as a bundle holds them: as source wherever that is the same, else pickled."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import sys
from collections.abc import Mapping
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np

from labkit.errors import ProgramError
from labkit.study.bundle.modules import has_own_name, is_local, local_files, script_files
from labkit.study.bundle.plain import encode
from labkit.study.bundle.source import SourceText, home_of, source_of
from labkit.study.bundle.whole import difference, same_code

__all__ = ["Carrier"]


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
        """Collect the modules of one's own that the functions import."""
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
