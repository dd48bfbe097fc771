"""A rank's random numbers repeat with the seed and differ between ranks."""

from __future__ import annotations

import random

import numpy as np
import pytest

from labkit.real.seeds import seed_rank


@pytest.fixture(autouse=True)
def own_generators(monkeypatch):
    monkeypatch.setattr(np.random, "default_rng", np.random.default_rng)
    python, array = random.getstate(), np.random.get_state()
    yield
    random.setstate(python)
    np.random.set_state(array)


def draw(seed, rank):
    seed_rank(seed, rank)
    fresh = [np.random.default_rng().random() for _ in range(2)]
    return [random.random(), np.random.random(), *fresh]


def test_draws_repeat_and_differ():
    drawn = [draw(seed, rank) for seed in (0, 1) for rank in (0, 1)]
    assert [draw(seed, rank) for seed in (0, 1) for rank in (0, 1)] == drawn
    flat = [value for values in drawn for value in values]
    assert len(set(flat)) == len(flat)


def test_a_seed_that_is_given_is_kept():
    wanted = np.random.default_rng(5).random()
    seed_rank(0, 3)
    assert np.random.default_rng(5).random() == wanted
    assert np.random.default_rng(seed=5).random() == wanted


def test_same_as_the_simulator():
    randomness = pytest.importorskip("labkit.sim.isolation.randomness")
    own = randomness.RankRandom(11)
    seed_rank(11, 2)
    assert random.random() == own.python(2).random()
    assert np.random.random() == own.numpy(2).random_sample()
