"""A rank of a recorded run: when its recorder begins and ends, its clock, what is left of a failed run."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import pickle
import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from labkit.timing.clocks import ClockMeter, ClockSample
from labkit.trace.recorder.recorder import Recorder

__all__ = ["SALVAGE", "Staged", "when_imported"]

#: the file in the run's directory that asks all ranks for what they have noted so far
SALVAGE = "salvage"
#: how many times a rank looks for it, and how long a rank that fails waits for the others
_LOOK_S, _GRACE_S = 0.1, 1.0


class Staged:
    """The recording of one rank.

    `settings`: ``computation``, ``scale``, ``has_lines`` and ``has_times``, as for `Recorder`.
    `directory`: The run's private directory.
    """

    def __init__(self, settings: dict[str, Any], directory: str, rank: int, ranks: int) -> None:
        self._settings, self._directory = settings, directory
        self._rank, self._ranks = rank, ranks
        self._recorder: Recorder | None = None
        self._clocks: ClockMeter | None = None
        self._samples: list[ClockSample] = []
        self._lock = threading.Lock()
        self._is_written = False
        self._is_begun = False

    @property
    def is_measured(self) -> bool:
        """Whether node-local kernels must not charge their cost."""
        return bool(self._settings["has_lines"] and self._settings["computation"] != "charged")

    def install(self, mpi: ModuleType | None, dumps: Callable[..., bytes] | None) -> None:
        """Stand between the program and mpi4py, now or once the program imports it."""
        if mpi is None:
            when_imported(lambda module: self.install(module, dumps))
            return
        if not mpi.Is_initialized():  # the script will do it; before that no rank has a number
            for name in ("Init", "Init_thread"):
                setattr(mpi, name, self._initializing(mpi, getattr(mpi, name), dumps))
            return
        if self._settings["has_times"]:
            self._clocks = ClockMeter(mpi.COMM_WORLD.Dup())
            self._compare_clocks()
        self._recorder = Recorder(mpi, **self._settings)
        self._recorder.install(dumps, None if dumps is None else pickle.loads)
        if self._settings["has_lines"]:
            threading.Thread(target=self._watch, daemon=True).start()
        if self._clocks is not None:
            self._end_with(mpi)

    def _end_with(self, mpi: Any) -> None:
        """Compare the clocks before a script ends MPI by itself."""
        finalize = mpi.Finalize

        def end() -> None:
            self._compare_clocks()
            self._clocks = None
            finalize()

        mpi.Finalize = end

    def _compare_clocks(self) -> None:
        """Compare this rank's clock with that of rank 0; all ranks do so together."""
        if self._clocks is not None:
            self._samples.append(self._clocks.compare())

    def _initializing(
        self, mpi: ModuleType, original: Callable[..., object], dumps: Any
    ) -> Callable[..., object]:
        def initialize(*arguments: object) -> object:
            result = original(*arguments)
            if self._recorder is None:
                self.install(mpi, dumps)
            return result

        return initialize

    def prepare(self) -> None:
        """Get ready for a repetition, with all ranks, before they wait for each other."""
        if self._is_begun:
            self._samples.clear()
            self._compare_clocks()

    def start(self) -> None:
        """The program begins now: what came before is not its computation."""
        self._is_begun = True
        if self._recorder is not None:
            self._recorder.begin()

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Note computation that the program charges."""
        if self._recorder is not None:
            self._recorder.compute(seconds, flops)

    def mark(self, name: str, is_begin: bool) -> None:
        """Note where a phase begins or ends."""
        if self._recorder is not None:
            self._recorder.mark(self._rank, name, is_begin)

    def finish(self) -> None:
        """Write everything: the program has ended well."""
        if self._recorder is not None:
            self._recorder.finish()
            if self._settings["has_lines"]:
                self._write()

    def timeline(self) -> dict[str, object] | None:
        """Return the calls with their times, and how this rank's clock goes; None where none were wanted."""
        if self._recorder is None or not self._settings["has_times"]:
            return None
        self._compare_clocks()
        found = {**self._recorder.ledger.timeline(), "clock": list(self._samples)}
        if "calls" in found:
            found["call_cost_s"] = self._recorder.call_cost_s()
        return found

    def uninstall(self) -> None:
        """Put mpi4py's names back: what follows is not recorded."""
        if self._recorder is not None:
            self._recorder.uninstall()
        self._recorder = None

    def salvage(self) -> None:
        """Write what there is, and let the other ranks do so before the run is ended."""
        if self._recorder is None or not self._settings["has_lines"]:
            return
        with contextlib.suppress(Exception):
            open(os.path.join(self._directory, SALVAGE), "w").close()
            self._write()
            until = time.monotonic() + _GRACE_S
            while time.monotonic() < until and not self._are_all_written():
                time.sleep(0.01)

    def _are_all_written(self) -> bool:
        return sum(name.endswith(".ti.json") for name in os.listdir(self._directory)) >= self._ranks

    def _write(self) -> None:
        with self._lock:
            if self._is_written or self._recorder is None:
                return
            self._is_written = True
            path = os.path.join(self._directory, f"rank-{self._rank}.ti")
            self._recorder.write(path, f"{path}.json")

    def _watch(self) -> None:
        """Wait until somebody asks; a rank that is blocked in MPI answers, too."""
        asked = os.path.join(self._directory, SALVAGE)
        while not self._is_written:
            if os.path.exists(asked):
                with contextlib.suppress(Exception):
                    self._write()
                return
            time.sleep(_LOOK_S)


def when_imported(then: Callable[[ModuleType], None]) -> None:
    """Do something with mpi4py.MPI when the program has imported it, and before it sees it."""
    sys.meta_path.insert(0, _WhenImported(then))


class _WhenImported(importlib.abc.MetaPathFinder):
    """Does something with mpi4py.MPI when the program has imported it, and before it sees it."""

    def __init__(self, then: Callable[[ModuleType], None]) -> None:
        self._then = then

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find it as others do, with something to do after it has been made."""
        if fullname != "mpi4py.MPI":
            return None
        sys.meta_path.remove(self)
        for finder in sys.meta_path:
            spec = finder.find_spec(fullname, path, target)
            if spec is not None and spec.loader is not None:
                spec.loader = _Loader(spec.loader, self._then)
                return spec
        return None


class _Loader(importlib.abc.Loader):
    def __init__(self, inner: Any, then: Callable[[ModuleType], None]) -> None:
        self._inner, self._then = inner, then

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        made: ModuleType | None = self._inner.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        self._inner.exec_module(module)
        self._then(module)
