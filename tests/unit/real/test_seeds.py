"""A rank's random numbers repeat with the seed and differ between ranks."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from labkit.real.context import put_state, seed_rank, seeded_states
from labkit.real.program import may_use_numpy
from labkit.real.travel import pack_program


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


def test_states_made_before_a_fork_are_those_of_the_ranks():
    def seeded_by(state):
        put_state(state)
        return [random.random(), np.random.random(), *(np.random.default_rng().random() for _ in range(2))]

    wanted = [draw(7, rank) for rank in range(3)]
    states = seeded_states(7, 3)
    random.seed(0)
    np.random.seed(0)
    np.random.standard_normal()  # keeps a second number, which no rank has
    assert [seeded_by(state) for state in reversed(states)] == wanted[::-1]


def test_a_seed_that_is_given_is_kept():
    wanted = np.random.default_rng(5).random()
    seed_rank(0, 3)
    assert np.random.default_rng(5).random() == wanted
    assert np.random.default_rng(seed=5).random() == wanted


def test_same_as_the_simulator():
    randomness = pytest.importorskip("labkit.sim.isolation.process_state")
    own = randomness.RankRandom(11)
    seed_rank(11, 2)
    assert random.random() == own.python(2).random()
    assert np.random.random() == own.numpy(2).random_sample()


#: whatever an environment has imported before the program begins
UNLOADED = "import sys; sys.modules.pop('random', None); from labkit.real.context import seed_rank; "

LATER = """
import random, sys
from labkit.real.context import seed_rank
seed_rank(0, 1)
seed_rank({seed}, {rank})
assert "numpy" not in sys.modules
import numpy as np
fresh = [np.random.default_rng().random() for _ in range(2)]
print([random.random(), np.random.random(), *fresh])
"""


def test_numpy_is_seeded_when_the_program_imports_it():
    shown = subprocess.run(
        [sys.executable, "-c", LATER.format(seed=3, rank=2)], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == repr(draw(3, 2))


def printed_by(code):
    shown = subprocess.run(
        [sys.executable, "-c", UNLOADED + code], capture_output=True, text=True, check=True
    )
    return shown.stdout.strip()


def test_random_is_seeded_when_the_program_imports_it():
    code = "seed_rank(3, 2); assert 'random' not in sys.modules; import random; print(random.random())"
    assert printed_by(code) == repr(draw(3, 2)[0])


def test_a_program_may_have_a_random_of_its_own(tmp_path):
    (tmp_path / "random.py").write_text("mine = 5\n")
    code = f"seed_rank(3, 2); sys.path.insert(0, {str(tmp_path)!r}); import random; print(random.mine)"
    assert printed_by(code) == "5"


def imports_inside(comm):
    import numpy

    return numpy.random.random()


def traced(comm):
    from labkit.program.context import phase

    with phase("x"):
        return sum(range(9))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "is_needed"),
    [(lambda comm: comm * 2, False), (lambda comm: np.ones(2), True), (imports_inside, True), (traced, True),
     (random.random, True)],
)  # fmt: skip
def test_programs_that_may_use_numpy(program, is_needed):
    assert may_use_numpy({"kind": "function"}, pack_program(program, (), {})) == is_needed


@pytest.mark.parametrize(
    ("script", "is_needed"),
    [("from mpi4py import MPI\nimport sys, os", False), ("import sys, numpy", True), ("import pandas", True)],
)
def test_scripts_that_may_use_numpy(tmp_path, script, is_needed):
    path = tmp_path / "script.py"
    path.write_text(script)
    assert may_use_numpy({"kind": "script", "script": str(path)}, b"") == is_needed
