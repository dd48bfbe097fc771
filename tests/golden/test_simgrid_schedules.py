"""Native schedules predict what SimGrid 3.32 does for its algorithm of the same idea, at every rank.

The figures are SimGrid's own: its allreduce `rdb`, alltoall `pair`, `bruck` and `basic_linear`, allgather
`NTSLR` and bcast `binomial_tree`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import _kernels, registry
from labkit.schedule import simulate
from labkit.schedule.native import program_of
from labkit.sim import models

FOLDER = Path(__file__).parent / "simgrid"
#: operation of the golden's program -> problem and algorithm
ALGORITHMS = {
    "allreduce": ("allreduce", "recursive_doubling"),
    "alltoall": ("alltoall", "pairwise"),
    "alltoall_bruck": ("alltoall", "bruck"),
    "alltoall_linear": ("alltoall", "linear"),
    "allgather": ("allgather", "ring"),
    "bcast": ("bcast", "binomial"),
}
FILES = sorted(path for path in FOLDER.glob("*.json") if path.stem.split("-")[0] in ALGORITHMS)


def load(path: Path) -> tuple[dict[str, Any], str, int, int]:
    """Return a golden, its collective, bytes and root; the program reads ``*: bcast 800 0; mark``."""
    golden: dict[str, Any] = json.loads(path.read_text())
    words = golden["program"].removeprefix("*:").split(";")[0].split()
    return golden, words[0], int(words[1]), int(words[2]) if len(words) > 2 else 0


def test_all_are_there_and_on_every_topology() -> None:
    assert {path.stem.split("-")[0] for path in FILES} == set(ALGORITHMS)
    shapes = [json.loads(path.read_text())["spec"].partition(":")[0] for path in FILES]
    assert min(shapes.count(kind) for kind in ("star", "torus", "fattree")) >= 10


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_rank_ends_when_simgrids_does(path: Path) -> None:
    golden, operation, n_bytes, root = load(path)
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
