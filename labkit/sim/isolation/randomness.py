"""The global random generators, one state per rank: `random` and `numpy.random`.

On real MPI every process has its own state. Here the modules' functions are replaced during a run by ones
that ask the running rank's generator, made from the run's seed and the rank when it is first used, so that
runs repeat. Libraries that hold NumPy's global generator itself (SciPy's distributions, what takes
``random_state=None``) get one that asks as well. Outside ranks, and after the run, all is as it was.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

import numpy as np

from labkit import _kernels
from labkit.sim.isolation.patches import Patch, Patches

__all__ = ["RankRandom"]

_PYTHON = (
    *(
        "seed",
        "random",
        "uniform",
        "triangular",
        "randint",
        "choice",
        "randrange",
        "sample",
        "shuffle",
        "choices",
    ),
    *(
        "normalvariate",
        "lognormvariate",
        "expovariate",
        "vonmisesvariate",
        "gammavariate",
        "gauss",
        "betavariate",
    ),
    *(
        "binomialvariate",
        "paretovariate",
        "weibullvariate",
        "getstate",
        "setstate",
        "getrandbits",
        "randbytes",
    ),
)
_NUMPY_STATE: Any = np.random.mtrand._rand
_PYTHON_STATE: Any = random._inst


def _numpy_names() -> list[str]:
    """Functions of numpy.random that belong to its global state."""
    return [
        name
        for name in dir(_NUMPY_STATE)
        if not name.startswith("_") and hasattr(np.random, name) and callable(getattr(np.random, name))
    ]


class RankRandom:
    """Context in which the global random generators are each rank's own.

    Parameters
    ----------
    seed : int
        Of the run; with the rank it seeds the rank's generators.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._python: dict[int, random.Random] = {}
        self._numpy: dict[int, np.random.RandomState] = {}
        self._fresh: dict[int, int] = {}

    @property
    def is_used(self) -> bool:
        """Whether any rank has used a generator that the seed has set up."""
        return bool(self._python or self._numpy or self._fresh)

    def python(self, rank: int) -> random.Random:
        """Return a rank's generator behind `random`."""
        made = self._python.get(rank)
        if made is None:
            made = self._python[rank] = random.Random(f"{self._seed}:{rank}")
        return made

    def numpy(self, rank: int) -> np.random.RandomState:
        """Return a rank's generator behind `numpy.random`."""
        made = self._numpy.get(rank)
        if made is None:
            words = np.random.SeedSequence([abs(self._seed), rank]).generate_state(8)
            made = self._numpy[rank] = np.random.RandomState(words)
        return made

    @property
    def stand_ins(self) -> dict[int, Callable[[int], Any]]:
        """Makers of what a program's copy has instead of the global generators, by their ids."""
        return {id(_PYTHON_STATE): self.python, id(_NUMPY_STATE): self.numpy}

    def fresh_seed(self, rank: int) -> Any:
        """Return a seed for `numpy.random.default_rng()` that repeats, unlike the operating system's."""
        fresh = self._fresh[rank] = self._fresh.get(rank, 0) + 1
        return np.random.SeedSequence([abs(self._seed), rank, fresh])

    def __enter__(self) -> RankRandom:
        _PATCHES.__enter__()
        _local.__dict__.setdefault("active", []).append(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _local.active.pop()
        _PATCHES.__exit__(kind, error, trace)


_local = threading.local()


def _active() -> tuple[RankRandom, int] | None:
    """Return the generators of the run whose rank runs on this thread, and the rank; None outside ranks."""
    rank = _kernels.current_rank()
    if rank < 0:
        return None
    active: list[RankRandom] | None = _local.__dict__.get("active")
    return (active[-1], rank) if active else None


def _patches() -> Iterator[Patch]:
    for name in _PYTHON:
        if hasattr(random, name):
            yield random, name, _dispatcher(getattr(random, name), name, RankRandom.python)
    for name in _numpy_names():
        yield np.random, name, _dispatcher(getattr(np.random, name), name, RankRandom.numpy)
    yield np.random, "default_rng", _default_rng()
    yield np.random.mtrand, "_rand", _RANK_STATE
    scipy = sys.modules.get("scipy.stats")
    for one in list(vars(scipy).values()) if scipy is not None else ():
        if getattr(one, "__dict__", {}).get("_random_state") is _NUMPY_STATE:
            yield one, "_random_state", _RANK_STATE


_PATCHES = Patches(_patches)


def _dispatcher(
    whole: Callable[..., Any], name: str, state_of: Callable[[RankRandom, int], Any]
) -> Callable[..., Any]:
    def dispatch(*args: Any, **kwargs: Any) -> Any:
        found = _active()
        return whole(*args, **kwargs) if found is None else getattr(state_of(*found), name)(*args, **kwargs)

    dispatch.__name__ = dispatch.__qualname__ = name
    dispatch.__doc__ = whole.__doc__
    return dispatch


def _default_rng() -> Callable[..., np.random.Generator]:
    whole = np.random.default_rng

    def default_rng(seed: Any = None) -> np.random.Generator:
        found = _active() if seed is None else None
        return whole(seed if found is None else found[0].fresh_seed(found[1]))

    default_rng.__doc__ = whole.__doc__
    return default_rng


class _RankState(np.random.RandomState):
    """NumPy's global generator as libraries hold it: in a rank, the rank's own."""

    def __reduce__(self) -> Any:
        found = _active()
        return (_NUMPY_STATE if found is None else found[0].numpy(found[1])).__reduce__()


for _name in dir(_NUMPY_STATE):
    if not _name.startswith("_") and callable(getattr(_NUMPY_STATE, _name)):
        _one = _dispatcher(getattr(_NUMPY_STATE, _name), _name, RankRandom.numpy)
        setattr(_RankState, _name, staticmethod(_one))
_RANK_STATE = _RankState(0)
