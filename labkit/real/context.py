"""The machine as a real rank sees it."""

from __future__ import annotations

import importlib.util
import math
import os
import sys
import time

from labkit.program.context import Decisions

TYPE_CHECKING = False  # as in typing, which every rank would import for this alone
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

    from labkit.program.rank_counts import RealTally
    from labkit.selector import Situation

__all__ = ["RankContext", "available_cores", "put_state", "seed_rank", "seeded_states"]


class RankContext:
    """The machine of a real rank: a recorder of phases on the host's monotonic clock."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        #: of the repetition that runs
        self.run_seed = 0
        #: name, begin, end, and how many phases were around it
        self.phases: list[tuple[str, float, float, int]] = []
        self._open: list[tuple[str, float]] = []
        #: notes what is charged, in a recorded run
        self.charge: Callable[[float | None, float | None], None] | None = None
        #: whether kernels charge nothing, as their work is measured
        self.is_measured = False
        #: notes the borders of phases, in a recorded run
        self.mark: Callable[[str, bool], None] | None = None
        #: counts what the program counts and holds, in the repetition that is counted
        self.tally: RealTally | None = None
        #: what requests have decided (`labkit.tune`)
        self.decisions = Decisions()
        #: what there is to say of the run
        self.noted: list[str] = []
        #: what collectives have taken: `labkit.selector.Situation` to name
        self.taken: dict[Situation, str] = {}

    def begin_phase(self, name: str) -> None:
        """Note the entry into a phase."""
        if self.tally is not None:
            self.tally.enter(self.rank, name)
        self._open.append((name, time.monotonic()))
        if self.mark is not None:
            self.mark(name, True)

    def end_phase(self, name: str) -> None:
        """Note the exit from the innermost open phase of that name."""
        now = time.monotonic()
        if self.tally is not None:
            self.tally.leave(self.rank)
        if self.mark is not None:
            self.mark(name, False)
        for index in range(len(self._open) - 1, -1, -1):
            if self._open[index][0] == name:
                self.phases.append((name, self._open.pop(index)[1], now, index))
                return

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Do nothing: on a real machine the work itself takes the time; a recorded run notes it."""
        if self.charge is not None:
            self.charge(seconds, flops)

    @property
    def cores(self) -> int:
        """The cores of this host that the rank may use."""
        return available_cores()

    def count(self, name: str, amount: float) -> None:
        """Count for the program, where somebody asked."""
        if self.tally is not None:
            self.tally.add(self.rank, name, amount)

    def note(self, text: str) -> None:
        """Note something about the run, once."""
        if text not in self.noted:
            self.noted.append(text)

    def begin_counting(self, has_counts: bool) -> None:
        """Count from now on, or not."""
        if has_counts:
            from labkit.program.rank_counts import RealTally

            self.tally = RealTally()
            self.tally.begin(self.rank)

    def end_counting(self) -> dict[str, Any]:
        """Return what was counted as part of a repetition's times."""
        if self.tally is None:
            return {}
        tally, self.tally = self.tally, None
        return {"tally": tally.end()}

    def end_deciding(self) -> dict[str, Any]:
        """Return what was decided (by rank 0) and noted, as part of a repetition's times."""
        rows = self.decisions.rows() if self.rank == 0 else []
        taken = {"taken": dict(self.taken)} if self.taken and self.rank == 0 else {}
        noted = {"noted": self.noted} if self.noted else {}
        return taken | ({"decided": rows} if rows else {}) | noted

    def wtime(self) -> float:
        """Return the host's monotonic clock, in seconds."""
        return time.monotonic()

    def reset(self) -> None:
        """Forget everything before the next repetition."""
        self.phases, self._open, self.noted = [], [], []
        self.decisions = Decisions()


# The random numbers of a rank: the same on every machine, different on every rank.


def seed_rank(seed: int, rank: int) -> None:
    """Seed this process's global generators for a rank, as the simulator does for its ranks.

    ``random`` and ``numpy.random`` get their own states, and ``numpy.random.default_rng()`` without a seed
    one that repeats instead of the operating system's. Neither is imported for that: what is not there yet
    is seeded when the program imports it.
    """
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _SeedsOnImport)]
    for name, seeds in (("random", _seed_random), ("numpy.random", _seed_numpy)):
        module = sys.modules.get(name)
        if module is None:
            sys.meta_path.insert(0, _SeedsOnImport(name, seeds, seed, rank))
        else:
            seeds(module, seed, rank)


def seeded_states(seed: int, ranks: int) -> list[tuple[object, object, object]]:
    """Return for each rank what `seed_rank` makes of the global generators, for `put_state`.

    Seeding writes to many pages of memory. A process that forks ranks seeds before it forks the first one;
    `random` and `numpy.random` are loaded.
    """
    python, numpy = sys.modules["random"], sys.modules["numpy.random"]
    states = []
    for rank in range(ranks):
        seed_rank(seed, rank)
        states.append((python.getstate(), numpy.get_state(legacy=False), numpy.default_rng))
    return states


def put_state(state: tuple[object, object, object]) -> None:
    """Give this process's global generators the state of a rank."""
    numpy = sys.modules["numpy.random"]
    sys.modules["random"].setstate(state[0])
    numpy.set_state(state[1])
    vars(numpy)["default_rng"] = state[2]


class _SeedsOnImport:
    """A finder of one module alone, which is seeded as soon as it is there."""

    def __init__(self, name: str, seeds: Callable[[Any, int, int], None], seed: int, rank: int) -> None:
        self.name, self.seeds = name, seeds
        self.seed, self.rank = seed, rank

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find it as if this finder were not there, and have its loader seed it."""
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                self.seeds(module, self.seed, self.rank)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _seed_random(module: object, seed: int, rank: int) -> None:
    if hasattr(module, "seed"):  # else a file of the program's own has this name
        module.seed(f"{seed}:{rank}")


def _seed_numpy(module: Any, seed: int, rank: int) -> None:
    module.seed(module.SeedSequence([abs(seed), rank]).generate_state(8))
    original = getattr(module.default_rng, "original", module.default_rng)
    fresh, run_seed = 0, seed

    def default_rng(seed: object = None) -> object:
        nonlocal fresh
        if seed is None:
            fresh += 1
            seed = module.SeedSequence([abs(run_seed), rank, fresh])
        return original(seed)

    default_rng.__doc__ = original.__doc__
    default_rng.original = original  # type: ignore[attr-defined]
    module.default_rng = default_rng


# The cores that this process may use: they decide whether wall-clock times mean anything.


def available_cores() -> int:
    """Count the cores this process may run on: its affinity mask and its container's quota."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not Linux
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cores, math.floor(quota)) if quota else cores)


def _quota() -> float | None:
    """Return the cores a control group allows, or None without a limit."""
    try:
        limit, period = _text("/sys/fs/cgroup/cpu.max").split()
        return None if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    folder = "/sys/fs/cgroup/cpu"
    try:
        limit_us = int(_text(f"{folder}/cpu.cfs_quota_us"))
        return limit_us / int(_text(f"{folder}/cpu.cfs_period_us")) if limit_us > 0 else None
    except (OSError, ValueError, ZeroDivisionError):
        return None


def _text(path: str) -> str:
    """Return what is in a file; without pathlib, which a rank would load for this alone."""
    with open(path, encoding="ascii") as file:
        return file.read()
