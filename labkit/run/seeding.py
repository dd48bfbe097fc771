"""The random numbers of a rank: the same on every machine, different on every rank."""

from __future__ import annotations

import random

import numpy as np

__all__ = ["rank_seed", "seed_rank"]


def rank_seed(seed: int, rank: int) -> int:
    """Derive a rank's 32-bit seed from the run's seed.

    Parameters
    ----------
    seed : int
        The run's seed, >= 0.
    rank : int
        The rank, >= 0.

    Returns
    -------
    int
        A well mixed 32-bit number, as `numpy.random.SeedSequence` derives it.
    """
    return int(np.random.SeedSequence([seed, rank]).generate_state(1)[0])


def seed_rank(seed: int, rank: int) -> None:
    """Seed this process's ``random`` and ``numpy.random`` for a rank."""
    value = rank_seed(seed, rank)
    random.seed(value)
    np.random.seed(value)  # programs of others use the global generator; it must not repeat over ranks
