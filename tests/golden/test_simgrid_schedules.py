"""Native schedules predict what SimGrid 3.32 does for its algorithm of the same messages, at every rank.

The figures are SimGrid's own; `benchmarks/simgrid/named.py` says which of its algorithms each is.
"""

from __future__ import annotations

from typing import Any

import golden_files
import numpy as np
import pytest

import labkit as lk
from labkit import _kernels, registry
from labkit.machines import models
from labkit.schedule.schedule import program_of
from labkit.sim.schedules import simulate

EVERY = golden_files.every_golden()
#: operation of the golden's program -> problem and algorithm
ALGORITHMS = {
    "allreduce": ("allreduce", "recursive_doubling"),
    "allreduce_ring": ("allreduce", "ring"),
    "allreduce_rabenseifner": ("allreduce", "rabenseifner"),
    "alltoall": ("alltoall", "pairwise"),
    "alltoall_bruck": ("alltoall", "bruck"),
    "alltoall_linear": ("alltoall", "linear"),
    "allgather": ("allgather", "ring"),
    "allgather_bruck": ("allgather", "bruck"),
    "allgather_recursive_doubling": ("allgather", "recursive_doubling"),
    "barrier_dissemination": ("barrier", "dissemination"),
    "bcast": ("bcast", "binomial"),
    "bcast_linear": ("bcast", "linear"),
    "gather_binomial": ("gather", "binomial"),
    "gather_linear": ("gather", "linear"),
    "reduce_binomial": ("reduce", "binomial"),
    "reduce_linear": ("reduce", "linear"),
    "reduce_scatter_block_pairwise": ("reduce_scatter_block", "pairwise"),
    "reduce_scatter_block_recursive_halving": ("reduce_scatter_block", "recursive_halving"),
    "scatter_linear": ("scatter", "linear"),
}
CHOSEN = [name for name in EVERY if name.split("-")[0] in ALGORITHMS]


def load(name: str) -> tuple[dict[str, Any], str, int, int]:
    """Return a golden, its collective, bytes and root; the program reads ``*: bcast 800 0; mark``."""
    golden = EVERY[name]
    words = golden["program"].removeprefix("*:").split(";")[0].split()
    size, root = (*map(int, words[1:]), 0, 0)[:2]
    return golden, words[0], size, root


def test_all_are_there_and_on_every_topology() -> None:
    assert {name.split("-")[0] for name in CHOSEN} == set(ALGORITHMS)
    shapes = [EVERY[name]["spec"].partition(":")[0] for name in CHOSEN]
    assert min(shapes.count(kind) for kind in ("star", "torus", "fattree", "dragonfly")) >= 10


@pytest.mark.parametrize("name", CHOSEN)
def test_every_rank_ends_when_simgrids_does(name: str) -> None:
    golden, operation, n_bytes, root = load(name)
    schedule = registry.get(*ALGORITHMS[operation]).build(golden["ranks"], root=root)
    model = models.get(golden["model"], **golden["options"])
    ours = simulate(schedule, lk.platform(golden["spec"]), model, n_bytes=n_bytes)
    theirs = np.array([marks[0] for marks in golden["marks_s"]])
    np.testing.assert_allclose(ours.end_s, theirs, rtol=1e-6)
    assert ours.makespan_s == pytest.approx(theirs.max(), rel=1e-6)


def test_the_same_twice_to_the_last_bit() -> None:
    schedule = registry.get("alltoall", "pairwise").build(24)
    starts = np.random.default_rng(3).random(24) * 1e-3
    first, second = (simulate(schedule, "star", "lab", n_bytes=70_000, start_s=starts) for _ in range(2))
    assert first.end_s.tobytes() == second.end_s.tobytes()


def test_steps_kept_in_memory_change_nothing() -> None:
    schedule = registry.get("allreduce", "ring").build(12)
    machine, network = lk.platform("star:12").build(12), models.get("lab").build()
    kept = program_of(schedule, max_kept_entries=1 << 20)
    row = ((None, 1, 4000, None, None), (None, 1, 4000, None, None))
    ends = [
        _kernels.simulate_schedule(machine, network, program, (row,), [], False, None, 0.0)[0]
        for program in (kept, kept, program_of(schedule, max_kept_entries=5))
    ]
    assert ends[0] == ends[1] == ends[2]
