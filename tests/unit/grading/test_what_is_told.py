"""What a rank is told counts packed: clumsy objects cost nobody points, and packing saves nobody any."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from labkit.grading import Bound, Case, Costs, find_assignment
from labkit.grading.bench import OpenBench, SandboxBench
from labkit.grading.counts import packed_bytes
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial
from tests.support.submissions_packed import PACKED, TUPLES, UNPACKED

LIMITS = Limits(cpu_s=3, wall_s=60)
_N = 4000
_TELLS = """
import pickle, zlib
import numpy as np
from mpi4py import MPI

def f(comm, keys):
    add = MPI.Op.Create(lambda left, right, datatype: None)
    {how}
"""
#: how it is told -> the busiest rank's packed bytes, of the bytes of as many keys
_WAYS = {
    "message": ("[comm.send(keys, 1)] if comm.rank == 0 else comm.rank == 1 and comm.recv()", 1),
    "buffer": ("[comm.Send(keys, 1)] if comm.rank == 0 else comm.rank == 1 and comm.Recv(keys + 0)", 1),
    "packed": ("comm.sendrecv(zlib.compress(keys, 9), comm.rank ^ 1, source=comm.rank ^ 1)", 1),
    "swap": ("comm.sendrecv(keys, comm.rank ^ 1, source=comm.rank ^ 1)", 1),
    "requests": ("comm.isend(keys.tolist(), comm.rank ^ 1); comm.irecv(1 << 20, comm.rank ^ 1).wait()", 1),
    "gathered": ("comm.gather(keys)", 4),
    "padded": ("a = np.zeros((4, len(keys)), int); a[comm.rank] = keys; comm.Allreduce(MPI.IN_PLACE, a)", 4),
    "in an operator": ("comm.Reduce(keys, np.empty_like(keys), add)", 6),  # the root combines three times
    "all to all": ("comm.alltoall([keys] * 4)", 4),
}  # fmt: skip


def _keys(rank: int) -> Any:
    return Seed.of(1).array(_N, "uint32", rank).astype(np.int64) >> 4


def _told(sandbox: Sandbox, how: str) -> float:
    keys = [(_keys(rank),) for rank in range(4)]
    outcome = sandbox.run(_TELLS.format(how=how), "f", 4, keys, trace=True, packs=True)
    assert outcome.is_finished, outcome.message
    return Bound("told", lambda case: 0, "0").value(outcome, Case(4, keys, "keys"))


@pytest.mark.parametrize("way", _WAYS)
def test_whatever_way_keys_come_they_count_about_the_same(sandbox: Sandbox, way: str) -> None:
    how, tables = _WAYS[way]
    each = 3.5 * _N  # of 28 bits
    assert tables * each <= _told(sandbox, how) <= 1.5 * tables * each


def test_each_message_counts_more_than_it_holds(sandbox: Sandbox) -> None:
    """Also one that nobody receives: its size and its tag tell something."""
    how = "[comm.isend(None, 1, t) for t in range(10)] if comm.rank == 0 else comm.iprobe()"
    assert _told(sandbox, how) == 10 * 16


def test_tuples_of_numbers_of_numpy_count_as_what_they_tell() -> None:
    rows = [(key, 7, place) for place, key in enumerate(_keys(0))]
    assert packed_bytes(pickle.dumps(rows)) < 8 * _N < 20 * _N < len(pickle.dumps(rows))
    assert packed_bytes(b"x") == 1
    assert packed_bytes(np.zeros(1000)) < 100


def test_a_trial_of_ones_own_counts_no_packed_bytes(sandbox: Sandbox) -> None:
    """Nothing comes on a line there; who is graded meets the bound."""

    def f(comm: Any, keys: Any) -> None:
        comm.gather(keys)

    bounds = [Bound("told", lambda case: 100, "100")]
    case = Case(4, [(_keys(rank),) for rank in range(4)], "x")
    costs = Costs("c", "C", 1, lambda seed: [case], lambda case, results: None, bounds)
    assert costs.judge(Trial(OpenBench(f))).score == 1
    verdict = costs.judge(Trial(SandboxBench(sandbox, _TELLS.format(how="comm.gather(keys)"), "f")))
    assert verdict.score == 0
    assert "bytes, packed, delivered to the busiest rank; at most 100 are allowed" in verdict.feedback


def _volume(sandbox: Sandbox, name: str, source: str, draw: int) -> tuple[float, str]:
    assignment = find_assignment(name)
    trial = Trial(SandboxBench(sandbox, source, assignment.function, assignment.also), Seed(7, draw))
    verdict = assignment.check_named("volume").judge(trial)
    return verdict.score, verdict.feedback


@pytest.mark.slow
def test_samples_as_tuples_of_numbers_of_numpy_are_few_bytes(sandbox: Sandbox) -> None:
    """8 p of each of 61 ranks are 30,000, and more than a megabyte as they are sent."""
    volume: Any = find_assignment("sort").check_named("volume")
    draw = next(n for n in range(1000) if max(case.ranks for case in volume.cases(Seed(7, n))) >= 61)
    assert _volume(sandbox, "sort", TUPLES, draw)[0] == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", PACKED)
def test_tables_packed_on_many_ranks_are_as_many(sandbox: Sandbox, name: str) -> None:
    assert _volume(sandbox, "scaling_bug", PACKED[name], 0)[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", UNPACKED)
def test_sums_of_objects_are_few_tables(sandbox: Sandbox, name: str) -> None:
    score, feedback = _volume(sandbox, "scaling_bug", UNPACKED[name], 0)
    assert score == 1, feedback
