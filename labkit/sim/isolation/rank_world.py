"""The private modules of a simulated rank of a script: its `__main__` and the user's own.

On real MPI every rank is a process, so module globals (`rank = comm.rank` at the top of a helper file) are
private. Here all ranks share one process, so every rank imports the modules beside the script once for
itself, by an `__import__` of its own. Installed packages stay shared.
"""

from __future__ import annotations

import builtins
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import CodeType, ModuleType
from typing import Any

__all__ = ["OwnModules", "RankWorld"]


class OwnModules:
    """Which modules belong to the user, with their code compiled once for all ranks.

    Parameters
    ----------
    directory : str
        The script's folder: what can be imported from there is the user's own.
    current : callable
        Returns the running rank's world, or None.
    """

    def __init__(self, directory: str, current: Callable[[], RankWorld | None]) -> None:
        self.directory = directory
        self.current = current
        self._is_own: dict[str, bool] = {}
        self._codes: dict[str, CodeType] = {}
        self._shared = frozenset(name.partition(".")[0] for name in sys.modules)

    def is_own(self, top: str) -> bool:
        """Whether the top-level module of this name is Python source beside the script."""
        if top not in self._is_own:
            self._is_own[top] = top not in self._shared and self._is_source(self.find(top, [self.directory]))
        return self._is_own[top]

    def find(self, name: str, path: Sequence[str]) -> ModuleSpec | None:
        """Find a module in these folders."""
        return PathFinder.find_spec(name, list(path))

    @staticmethod
    def _is_source(spec: ModuleSpec | None) -> bool:
        if spec is None:
            return False
        return spec.loader is None or (hasattr(spec.loader, "get_code") and bool(spec.has_location))

    def code(self, spec: ModuleSpec) -> CodeType | None:
        """Return the module's code; None for a namespace package or a compiled extension."""
        if spec.name not in self._codes:
            get_code = getattr(spec.loader, "get_code", None)
            code = get_code(spec.name) if get_code is not None else None
            if code is None:
                return None
            self._codes[spec.name] = code
        return self._codes[spec.name]

    def publish(self, name: str) -> None:
        """Stand in for the module in `sys.modules`, where pickle and dataclasses look names up."""
        if not isinstance(sys.modules.get(name), _Stand):
            sys.modules[name] = _Stand(name, self)

    def install(self) -> None:
        """Let installed code that imports by name (unittest, importlib) find the running rank's modules."""
        shared_import, shared_import_module = builtins.__import__, importlib.import_module

        def import_(
            name: str,
            globals: Mapping[str, Any] | None = None,
            locals: Mapping[str, Any] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            world = self.current() if level == 0 else None
            if world is not None and self.is_own(name.partition(".")[0]):
                return world.import_module(name, globals, locals, fromlist)
            return shared_import(name, globals, locals, fromlist or (), level)

        def import_module(name: str, package: str | None = None) -> ModuleType:
            full = importlib.util.resolve_name(name, package) if name.startswith(".") else name
            world = self.current()
            if world is not None and self.is_own(full.partition(".")[0]):
                return world.load(full)
            return shared_import_module(name, package)

        builtins.__import__ = import_
        importlib.import_module = import_module


class _Stand(ModuleType):
    """A module whose every attribute is that of the running rank's own module of the same name."""

    def __init__(self, name: str, own: OwnModules) -> None:
        super().__init__(name)
        object.__setattr__(self, "_own", own)

    def __getattribute__(self, attribute: str) -> Any:
        world = object.__getattribute__(self, "_own").current()
        if world is None:
            return object.__getattribute__(self, attribute)
        return getattr(world.load(object.__getattribute__(self, "__name__")), attribute)


class RankWorld:
    """The modules of one rank.

    Parameters
    ----------
    own : OwnModules
        Shared by all ranks of a run.
    script : str
        Path of the script, its `__file__`.
    """

    def __init__(self, own: OwnModules, script: str) -> None:
        self._own = own
        self._builtins = {**vars(builtins), "__import__": self.import_module}
        self.main = self._new(ModuleType("__main__"))
        vars(self.main).update(__file__=script, __cached__=None)
        self._modules = {"__main__": self.main}
        own.publish("__main__")

    def _new(self, module: ModuleType) -> ModuleType:
        vars(module)["__builtins__"] = self._builtins
        return module

    def import_module(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what `builtins.__import__` does, with this rank's own modules."""
        if level:
            package = (globals or {}).get("__package__") or ""
            name = importlib.util.resolve_name("." * level + name, package)
        top = name.partition(".")[0]
        if top != "__main__" and not self._own.is_own(top):
            return builtins.__import__(name, globals, locals, fromlist or (), 0)
        module = self.load(name)
        if not fromlist:
            return self.load(top)
        for item in self._listed(module, fromlist):
            if not hasattr(module, item) and self._own.find(f"{name}.{item}", module.__path__):
                self.load(f"{name}.{item}")
        return module

    @staticmethod
    def _listed(module: ModuleType, fromlist: Sequence[str]) -> Sequence[str]:
        """Return the names that may be submodules: only a package has any."""
        if not hasattr(module, "__path__"):
            return ()
        return getattr(module, "__all__", ()) if "*" in fromlist else fromlist

    def load(self, name: str) -> ModuleType:
        """Return this rank's module, executing it the first time.

        Raises
        ------
        ModuleNotFoundError
            There is none.
        """
        if name in self._modules:
            return self._modules[name]
        parent, _, child = name.rpartition(".")
        folders = getattr(self.load(parent), "__path__", ()) if parent else [self._own.directory]
        spec = self._own.find(name, folders)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        code = self._own.code(spec)
        if code is None and spec.loader is not None:  # a compiled extension cannot be loaded twice
            return importlib.import_module(name)
        module = self._modules[name] = self._new(importlib.util.module_from_spec(spec))
        self._own.publish(name)
        try:
            if code is not None:
                exec(code, vars(module))
        except BaseException:
            del self._modules[name]
            raise
        if parent:
            setattr(self.load(parent), child, module)
        return module
