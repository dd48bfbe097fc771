"""The global random generators, one state per rank: `random` and `numpy.random`.

On real MPI every process has its own state. Here the modules' functions are replaced during a run by ones
that ask the running rank's generator, made from the run's seed and the rank when it is first used, so that
runs repeat. Outside ranks, and after the run, the modules are as they were.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from labkit import _kernels

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
        self._before: list[tuple[Any, str, Any]] = []

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

    def _default_rng(self, rank: int, seed: Any) -> Any:
        """Give `numpy.random.default_rng()` a seed that repeats: nobody wants the operating system's here."""
        fresh = self._fresh[rank] = self._fresh.get(rank, 0) + 1
        return np.random.SeedSequence([abs(self._seed), rank, fresh]) if seed is None else seed

    def __enter__(self) -> RankRandom:
        for name in _PYTHON:
            if hasattr(random, name):
                self._replace(random, name, self.python)
        for name in _numpy_names():
            self._replace(np.random, name, self.numpy)
        self._replace_default_rng()
        return self

    def _replace(self, module: Any, name: str, state_of: Any) -> None:
        whole = getattr(module, name)

        def dispatch(*args: Any, **kwargs: Any) -> Any:
            rank = _kernels.current_rank()
            return whole(*args, **kwargs) if rank < 0 else getattr(state_of(rank), name)(*args, **kwargs)

        dispatch.__name__ = dispatch.__qualname__ = name
        dispatch.__doc__ = whole.__doc__
        self._put(module, name, dispatch)

    def _replace_default_rng(self) -> None:
        whole = np.random.default_rng

        def default_rng(seed: Any = None) -> np.random.Generator:
            rank = _kernels.current_rank()
            return whole(seed if rank < 0 else self._default_rng(rank, seed))

        default_rng.__doc__ = whole.__doc__
        self._put(np.random, "default_rng", default_rng)

    def _put(self, module: Any, name: str, value: Any) -> None:
        self._before.append((module, name, getattr(module, name)))
        setattr(module, name, value)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for module, name, value in reversed(self._before):
            setattr(module, name, value)
        self._before.clear()
