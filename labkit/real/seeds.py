"""The random numbers of a rank: the same on every machine, different on every rank."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["seed_rank"]

_default_rng: Callable[..., np.random.Generator] = np.random.default_rng


def seed_rank(seed: int, rank: int) -> None:
    """Seed this process's global generators for a rank, as the simulator does for its ranks.

    ``random`` and ``numpy.random`` get states of their own, and ``numpy.random.default_rng()`` without a seed
    one that repeats instead of the operating system's.

    Parameters
    ----------
    seed : int
        The run's seed.
    rank : int
        The rank, >= 0.
    """
    random.seed(f"{seed}:{rank}")
    np.random.seed(np.random.SeedSequence([abs(seed), rank]).generate_state(8))
    fresh, run_seed = 0, seed

    def default_rng(seed: Any = None) -> np.random.Generator:
        nonlocal fresh
        if seed is None:
            fresh += 1
            seed = np.random.SeedSequence([abs(run_seed), rank, fresh])
        return _default_rng(seed)

    default_rng.__doc__ = _default_rng.__doc__
    np.random.default_rng = default_rng
