"""The private modules of a simulated rank of a script: its `__main__` and the user's own.

On real MPI every rank is a process, so module globals (`rank = comm.rank` at the top of a helper file) are
private. Here all ranks share one process, so every rank imports for itself, by its own `__import__`,
each module that is Python source and not installed, from wherever the import system finds it; and each
installed package that imports mpi4py, or one of those, while it is loaded, for its state may depend on the
rank. All other installed modules stay shared.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.comm.environment import note_import, set_settings
from labkit.comm.spawning import Wanted, begin_spawned
from labkit.errors import ProgramError, UnsupportedError
from labkit.sim.isolation import process_state
from labkit.sim.isolation.clocks import NOW, now_as_text, reads_dates, simulated_dates
from labkit.sim.isolation.code import is_installed_file, module_code
from labkit.sim.script_words import (
    COMMAND,
    PythonLine,
    ScriptStart,
    is_python,
    module_file,
    python_line,
    script_start,
    without_runner,
)
from labkit.sim.simulation import Simulation, running

__all__ = ["SPARE_RANKS", "OwnModules", "RankWorld", "SpawnedRanks"]


class _DependsOnRankError(BaseException):
    """Stops the import of an installed package that has turned out to depend on the rank."""


class OwnModules:
    """Which modules belong to the ranks, with their code compiled once for all of them.

    `current`: Returns the running rank's world, or None.
    """

    def __init__(self, current: Callable[[], RankWorld | None]) -> None:
        self.current = current
        self._is_own: dict[str, bool] = {}
        self._codes: dict[tuple[str, str | None], CodeType] = {}
        self._extensions: dict[str, ModuleType] = {}
        self._shared = frozenset(name.partition(".")[0] for name in sys.modules)
        #: installed packages that import mpi4py
        self._dependent: set[str] = set()
        #: whether a module has NumPy read the host's present time
        self.has_host_dates = False
        #: called when a rank has imported a module of the name, the first time
        self.when_imported: dict[str, Callable[[], object]] = {}
        #: called whenever a rank's own code imports a module of the name
        self.at_import: dict[str, Callable[[], object]] = {}
        #: called when a rank's own code has imported an installed module, with its name
        self.after_import: Callable[[str], object] = lambda name: None

    def is_own(self, top: str) -> bool:
        """Whether ranks have the top-level module of this name for themselves."""
        found = self._is_own.get(top)
        if found is None:
            if top in self._shared:
                return False
            spec = self.find(top, None)
            if spec is None:  # maybe later, when a rank has changed sys.path
                return False
            found = self._is_own[top] = self._is_source(spec) and not is_installed_file(_place(spec))
        return found

    def find(self, name: str, path: Sequence[str] | None) -> ModuleSpec | None:
        """Find a module in these folders, or where the import system looks."""
        for finder in sys.meta_path:
            find_spec = getattr(finder, "find_spec", None)
            spec = find_spec(name, path) if find_spec is not None else None
            if spec is not None:
                return spec  # type: ignore[no-any-return]
        return None

    @staticmethod
    def _is_source(spec: ModuleSpec) -> bool:
        return spec.loader is None or bool(spec.has_location)

    def code(self, spec: ModuleSpec) -> CodeType | None:
        """Return the module's code; None for a namespace package, or where its loader has none to give."""
        key = spec.name, spec.origin
        if key not in self._codes:
            code = module_code(spec.loader, spec.name)
            if code is None:
                return None
            loader: Any = spec.loader
            self._codes[key] = self.dated(code, lambda: loader.get_source(spec.name))
        return self._codes[key]

    def dated(self, code: CodeType, source: Callable[[], str | bytes | None]) -> CodeType:
        """Return the code in which NumPy's present time is simulated; what else reads it is reported."""
        if not reads_dates(code):
            return code
        found = source()
        if found is not None:
            code = simulated_dates(found, code.co_filename)
        self.has_host_dates |= reads_dates(code)
        return code

    def extension(self, spec: ModuleSpec) -> ModuleType:
        """Return a compiled module, loaded once: it cannot be loaded again for every rank."""
        if spec.name not in self._extensions:
            module = importlib.util.module_from_spec(spec)
            assert spec.loader is not None
            spec.loader.exec_module(module)
            sys.modules[spec.name] = self._extensions[spec.name] = module
        return self._extensions[spec.name]

    def publish(self, name: str) -> None:
        """Stand in for the module in `sys.modules`, where pickle and dataclasses look names up."""
        if not isinstance(sys.modules.get(name), _Stand):
            sys.modules[name] = _Stand(name, self)

    def shared_import(self, world: RankWorld, name: str, *rest: Any) -> ModuleType:
        """Import a module that ranks share; one that turns out to depend on the rank is its world's own."""
        if (begin := self.at_import.get(name.partition(".")[0])) is not None:
            begin()
        known = len(self._dependent)
        try:
            found: ModuleType = builtins.__import__(name, *rest)
        except _DependsOnRankError:
            found = None  # type: ignore[assignment]
        if len(self._dependent) > known:  # also where the package has caught it
            self._forget()
            return world.import_module(name, *rest)
        if self.when_imported:
            self._tell(name)
        self.after_import(name)
        return found

    def _tell(self, name: str) -> None:
        for key in [key for key in self.when_imported if key in sys.modules]:
            self.when_imported.pop(key)()

    def _forget(self) -> None:
        """Take what was loaded of dependent packages out of `sys.modules`: each rank loads it again."""
        for name, module in list(sys.modules.items()):
            is_dependent = name.partition(".")[0] in self._dependent and name not in self._extensions
            if is_dependent and not isinstance(module, _Stand):
                del sys.modules[name]

    def _claim(self, scope: Mapping[str, object] | None) -> None:
        """Make the installed package a rank's own whose module imports such a thing while it is loaded."""
        top = str((scope or {}).get("__name__", "")).partition(".")[0]
        spec = (scope or {}).get("__spec__")
        if not getattr(spec, "_initializing", False) or top in self._shared | sys.stdlib_module_names:
            return
        if self.is_own(top):
            return
        self._is_own[top] = True
        self._dependent.add(top)
        raise _DependsOnRankError(top)

    def install(self) -> None:
        """Let installed code that imports by name (unittest, importlib) find the running rank's modules."""
        shared_import, shared_import_module = builtins.__import__, importlib.import_module
        shared_reload = importlib.reload

        def import_(
            name: str,
            globals: Mapping[str, object] | None = None,
            locals: Mapping[str, object] | None = None,
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> ModuleType:
            world = self.current() if level == 0 else None
            if world is not None:
                top = name.partition(".")[0]
                if self.is_own(top):
                    self._claim(globals)
                    return world.import_module(name, globals, locals, fromlist)
                if top == "mpi4py":
                    self._claim(globals)
            return shared_import(name, globals, locals, fromlist or (), level)

        def import_module(name: str, package: str | None = None) -> ModuleType:
            full = importlib.util.resolve_name(name, package) if name.startswith(".") else name
            world = self.current()
            if world is not None and self.is_own(full.partition(".")[0]):
                return world.load(full)
            if world is not None and full == "mpi4py.MPI":
                note_import()
            with contextlib.suppress(_DependsOnRankError):
                return shared_import_module(name, package)
            self._forget()  # the module is the running rank's from now on
            return import_module(full)

        def reload(module: ModuleType) -> ModuleType:
            world = self.current()
            own = world and world.reloaded(module)
            return own or shared_reload(module)

        builtins.__import__ = import_
        importlib.import_module = import_module
        importlib.reload = reload


def _place(spec: ModuleSpec) -> str | None:
    """Return a file or folder of a module."""
    return spec.origin if spec.has_location else next(iter(spec.submodule_search_locations or ()), None)


def _is_foreign(spec: ModuleSpec) -> bool:
    """Whether its loader executes the module itself, as pytest's does: pytest then looks into the module."""
    return spec.loader is not None and not hasattr(spec.loader, "get_code")


def _give(name: str, module: ModuleType) -> None:
    """Put the module itself into `sys.modules`, there while its rank runs."""
    own = process_state.swaps()
    if own is not None and f"module {name}" not in own:
        sys.modules.pop(name, None)
        own.add(f"module {name}", lambda: sys.modules.get(name), lambda value: _put_module(name, value))
    sys.modules[name] = module


def _put_module(name: str, value: ModuleType | None) -> None:
    if value is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = value


class _Stand(ModuleType):
    """A module whose every attribute is that of the running rank's own module of the same name."""

    def __init__(self, name: str, own: OwnModules) -> None:
        super().__init__(name)
        object.__setattr__(self, "_own", own)

    def __getattribute__(self, attribute: str) -> object:
        world = object.__getattribute__(self, "_own").current()
        if world is None:
            return object.__getattribute__(self, attribute)
        return getattr(world.load(object.__getattribute__(self, "__name__")), attribute)

    def __setattr__(self, attribute: str, value: object) -> None:
        world = object.__getattribute__(self, "_own").current()
        if world is None:
            object.__setattr__(self, attribute, value)
        else:
            setattr(world.load(object.__getattribute__(self, "__name__")), attribute, value)


class RankWorld:
    """The modules of one rank.

    `own`: Shared by all ranks of a run.
    `script`: Path of the script, its `__file__`; empty for none (``-c``).
    `spec`: What it was found by, where it is a module (``-m``).
    """

    def __init__(self, own: OwnModules, script: str, spec: ModuleSpec | None = None) -> None:
        self._own = own
        self._builtins = {**vars(builtins), "__import__": self.import_module, NOW: now_as_text}
        self.main = self._new(ModuleType("__main__"))
        if script:
            vars(self.main).update({"__file__": os.path.abspath(script), "__cached__": None})
        if spec is not None:
            vars(self.main).update(__spec__=spec, __package__=spec.parent)
        self._modules = {"__main__": self.main, "__worker__": self.main}
        for name in self._modules:
            own.publish(name)

    def _new(self, module: ModuleType) -> ModuleType:
        vars(module)["__builtins__"] = self._builtins
        return module

    def import_module(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what `builtins.__import__` does, with this rank's own modules."""
        if level:
            package = (globals or {}).get("__package__") or ""
            name = importlib.util.resolve_name("." * level + name, package)
        top = name.partition(".")[0]
        if top != "__main__" and not self._own.is_own(top):
            if top == "mpi4py" and (name.startswith("mpi4py.MPI") or "MPI" in (fromlist or ())):
                note_import()
            return self._own.shared_import(self, name, globals, locals, fromlist or (), 0)
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

        Raises ModuleNotFoundError: There is none.
        """
        if name in self._modules and name in sys.modules:
            return self._modules[name]
        parent, _, child = name.rpartition(".")
        folders = getattr(self.load(parent), "__path__", ()) if parent else None
        known = self._modules.get(name)
        if known is not None and name in sys.modules:  # the parent has loaded it
            return known
        spec = self._own.find(name, folders)
        is_foreign = spec is not None and _is_foreign(spec)
        if (
            known is not None
            and not is_foreign
            and (spec is None or spec.origin == getattr(known.__spec__, "origin", None))
        ):
            self._own.publish(name)  # some rank has taken it out of `sys.modules`
            return known
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        code = self._own.code(spec)
        if code is None and hasattr(spec.loader, "get_code"):  # a compiled extension cannot be loaded twice
            module = self._modules[name] = self._own.extension(spec)
            if parent:
                setattr(self.load(parent), child, module)
            return module
        module = self._modules[name] = self._new(importlib.util.module_from_spec(spec))
        if is_foreign:
            _give(name, module)
        else:
            self._own.publish(name)
        try:
            self._execute(module, code)
        except BaseException:
            del self._modules[name]
            raise
        if parent:
            setattr(self.load(parent), child, module)
        return module

    @staticmethod
    def _execute(module: ModuleType, code: CodeType | None) -> None:
        """Execute a module: its code, or as its loader does."""
        spec = module.__spec__
        if code is not None:
            exec(code, vars(module))
        elif spec is not None and spec.loader is not None and _is_foreign(spec):
            spec.loader.exec_module(module)

    def load_for_workers(self, code: CodeType) -> None:
        """Execute the program as a worker does: its functions are needed, its main part is not."""
        if self.main.__name__ == "__main__":
            self.main.__name__ = "__worker__"
            exec(code, vars(self.main))

    def end(self) -> None:
        """Give up what has a `__del__` of the program's own, as Python does then: it may communicate."""
        own = vars(self.main)
        for name in list(own):
            kind = type(own[name])
            if hasattr(kind, "__del__") and kind.__module__ in self._modules:
                own[name] = None

    def reloaded(self, module: ModuleType) -> ModuleType | None:
        """Execute one of this rank's modules again; None for any other module."""
        name = module.__name__
        own = self._modules.get(name)
        if own is None or own is self.main or own.__spec__ is None:
            return None
        self._execute(own, self._own.code(own.__spec__))
        return own


# Ranks of scripts that are spawned while a run goes on: where they are, and what they run.


#: how many ranks a run of a script may spawn
SPARE_RANKS = 4096


class SpawnedRanks:
    """Starts ranks in addition to those that a script was started with.

    A new rank is put on one of the hosts that have the fewest ranks, in the order of the hosts, and has a
    core of its own there: it slows no other rank down. Its working directory is its parent's.

    `worlds`: By rank; those of spawned ranks are put here, and taken away at their ends.
    `first`: Of the ranks that the run began with.
    `folder`: Of this run: for the texts of ``-c`` programs.
    """

    def __init__(
        self, own: OwnModules, worlds: dict[int, RankWorld], first: ScriptStart, folder: Path
    ) -> None:
        self._own, self._worlds, self._first, self._folder = own, worlds, first, folder
        self._starts: dict[int, ScriptStart] = {}
        self._programs: dict[int, Callable[[], None]] = {}
        self._codes: dict[str, CodeType] = {}

    def spawn(self, name: str, wanted: list[Wanted]) -> list[int]:
        """Start ranks; their numbers in the run.

        Raises UnsupportedError: A command that is no Python program, or more ranks than there is room for.
        """
        simulation = running()
        assert simulation is not None
        starts = [(one, self._start_of(name, one)) for one in wanted]
        count = sum(one.count for one in wanted)
        if count > simulation.hub.room:
            raise UnsupportedError(
                f"{name}: a simulated run has room for {SPARE_RANKS} spawned ranks, and {count} more are "
                f"asked for where {simulation.hub.room} are left; a machine with a collective network has "
                "room for none"
            )
        cwd = os.getcwd()
        first = rank = int(simulation.hub.spawn(_hosts(simulation, count)))
        simulation.output.grow(count)
        for one, start in starts:
            for _ in range(one.count):
                world = self._worlds[rank] = RankWorld(self._own, start.file, start.spec())
                self._starts[rank] = start
                self._programs[rank] = self._program(world, start, one, cwd)
                rank += 1
        return list(range(first, rank))

    def run(self, rank: int) -> None:
        """Run what a spawned rank was started for."""
        begin_spawned()
        self._programs.pop(rank)()

    def end(self, rank: int) -> None:
        """Forget a spawned rank's modules."""
        self._worlds.pop(rank, None)
        self._starts.pop(rank, None)

    def _program(self, world: RankWorld, start: ScriptStart, one: Wanted, cwd: str) -> Callable[[], None]:
        argv, path, job = [start.argv0, *map(str, start.args)], [start.folder, *sys.path[1:]], one.job
        if job is not None:  # with what its parent has changed there
            argv, path = list(sys.argv), list(sys.path)

        def program() -> None:
            sys.argv, sys.path = argv, path
            if os.getcwd() != cwd:
                os.chdir(cwd)
            if start.rc:
                set_settings(start.rc)
            if job is not None:
                job(lambda: world.load_for_workers(self._code(start)))
            else:
                exec(self._code(start), vars(world.main))

        return program

    def _code(self, start: ScriptStart) -> CodeType:
        if start.path not in self._codes:
            self._codes[start.path] = compile(start.source(), start.shown, "exec", dont_inherit=True)
        return self._codes[start.path]

    def _start_of(self, name: str, one: Wanted) -> ScriptStart:
        """Read a command line as Python does; a worker's program is its parent's."""
        if one.job is not None:
            return self._starts.get(_kernels.current_rank(), self._first)
        if not is_python(one.words):
            raise UnsupportedError(
                f"{name} of {one.words[0]!r}: ranks of a simulated run are Python programs; give "
                "sys.executable and a script, or run on real MPI (--on mpi)"
            )
        try:
            line = without_runner(python_line(one.words))
            path, start = self._file_of(line)
        except ProgramError as error:
            raise UnsupportedError(f"{name} of {' '.join(one.words)!r}: {error}") from error
        if not os.path.isfile(path):
            raise FileNotFoundError(f"{name}: there is no file {path!r} in {os.getcwd()}")
        return script_start(path, line.args, start)

    def _file_of(self, line: PythonLine) -> tuple[str, Mapping[str, object]]:
        if line.is_pool:
            raise ProgramError(
                "-m mpi4py.futures is a pool of a whole job; use MPIPoolExecutor in the program",
                code="unsupported",
            )
        if line.module == COMMAND:
            path = self._folder / f"command-{_kernels.current_rank()}-{abs(hash(line.program))}.py"
            path.write_text(line.program, encoding="utf-8")
            return str(path), {"module": COMMAND, "rc": line.rc}
        if line.module:
            return str(module_file(line.module, sys.path)), {"module": line.module, "rc": line.rc}
        return line.program, {"rc": line.rc}


def _hosts(simulation: Simulation, count: int) -> list[int]:
    """Return where new ranks are put: on the hosts that have the fewest ranks that have not ended."""
    hub = simulation.hub
    used = np.zeros(hub.hosts, np.int64)
    for rank in range(hub.ranks):
        if hub.state(rank) != "finished":
            used[hub.host(rank)] += 1
    hosts = []
    for _ in range(count):
        hosts.append(int(used.argmin()))
        used[hosts[-1]] += 1
    return hosts
