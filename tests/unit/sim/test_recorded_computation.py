"""Measured computation that is kept, and charged again to the bit; speed-up is that of what is charged."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError, LabkitError, MachineError
from labkit.result.computation import Computation
from labkit.sim.measured import Records
from tests.support.refusals import raises_code


def ring(comm, n=1000):
    total = float(np.sqrt(np.arange(n * (comm.rank + 1))).sum())
    comm.sendrecv(total, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    return comm.allreduce(total)


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8])
def test_a_run_is_repeated_to_the_bit(ranks):
    first = lk.run(ring, ranks, compute="measured:0.5")
    again = lk.run(ring, ranks, compute=first, trace=True)
    assert again.makespan_s == first.makespan_s
    assert again.computation == first.computation
    assert again.machine["deterministic"]
    assert not first.machine["deterministic"]
    assert first.computation.scale == 0.5
    assert first.computation.total_s > 0


def test_one_computation_on_two_machines_differs_in_communication_only():
    kept = lk.run(ring, 4, on="star:4", compute="measured")
    charged = [
        lk.run(ring, 4, on=on, compute=kept).computation.rank_seconds for on in ("torus:2x2", "star:8")
    ]
    assert np.array_equal(charged[0], charged[1])


def test_a_study_its_file_and_its_bundle_repeat_it(tmp_path):
    study = lk.sweep(ring, [2, 4], n=[10, 1000], compute="measured", repeats=2, progress=False)
    kept = lk.load(study.save(tmp_path / "ring.study"))
    for known in (study, kept):
        again = lk.sweep(ring, [2, 4], n=[10, 1000], compute=known, repeats=2, progress=False)
        values = [one.data.query("metric != 'rank_memory_bytes'")["value"].tolist() for one in (again, study)]
        assert values[0] == values[1]
    assert set(study.data.query("metric == 'computation_s'")["value"] > 0) == {True}
    bundle = study.bundle(tmp_path / "ring.zip")
    assert bundle.again == len(study.data.query("metric != 'rank_memory_bytes'"))
    with raises_code(MachineError, "not-comparable", "ranks=3"):
        lk.sweep(ring, [3], n=[10], compute=study, repeats=1, progress=False)


@pytest.mark.slow
def test_a_file_is_written_once_and_read_by_the_command_line(tmp_path):
    script, kept = tmp_path / "prog.py", tmp_path / "kept.json"
    script.write_text("from mpi4py import MPI\nsum(range(10000))\nMPI.COMM_WORLD.Barrier()\n")

    def makespan():
        done = subprocess.run(
            [sys.executable, "-m", "labkit", "run", "-n", "3", "--json", "--compute", f"recorded:{kept}",
             str(script)], capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(done.stdout)["makespan_s"]

    first, text = makespan(), kept.read_text()
    assert makespan() == first
    assert kept.read_text() == text
    script.write_text(script.read_text() + "MPI.COMM_WORLD.Barrier()\n")  # another program is measured anew
    makespan()
    assert len(json.loads(kept.read_text())["runs"]) == 2


def test_another_module_is_another_program(tmp_path):
    script, kept = tmp_path / "prog.py", tmp_path / "kept.json"
    script.write_text("import part\nfrom mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    for text, runs in (("", 1), ("", 1), ("sum(range(10))\n", 2)):
        (tmp_path / "part.py").write_text(text)
        lk.run(script, 2, compute=f"recorded:{kept}")
        assert len(json.loads(kept.read_text())["runs"]) == runs


def once(comm):
    comm.Barrier()


@pytest.mark.parametrize(
    ("compute", "wanted"),
    [
        (lambda: lk.run(ring, 3), ("not-recorded",)),
        (lambda: lk.run(ring, 3, compute="measured"), ("not-comparable", "3", "2")),
        (lambda: lk.run(once, 2, compute="measured"), ("not-comparable",)),
        (lambda: "recorded:", ("missing-key",)),
        (lambda: "recorded:/no/such/folder/x.json", ("unwritable-file",)),
        (lambda: f"recorded:{__file__}", ("unreadable-file",)),
        (lambda: "mesured", ("unknown-name",)),
    ],
)
def test_what_cannot_be_charged_again_is_refused(compute, wanted: tuple[str, ...]):
    with raises_code(LabkitError, *wanted):
        lk.run(ring, 2, compute=compute())


@given(st.lists(st.lists(st.integers(0, 2**62), max_size=6), min_size=1, max_size=5), st.floats(1e-3, 1e3))
def test_packed_computation_is_unpacked_whole(stretches, scale):
    one = Computation([np.array(own, np.int64) for own in stretches], scale)
    assert Computation.unpacked(json.loads(json.dumps(one.packed()))) == one
    assert pickle.loads(pickle.dumps(one)) == one


@pytest.mark.parametrize(
    "change", [{"calls": [3]}, {"calls": [10**12]}, {"ns": "?"}, {"scale": "x"}, {"ns": ""}]
)
def test_packed_computation_that_is_damaged_is_refused(change):
    packed = Computation([np.array([1, 2])]).packed() | change
    with raises_code(DataError, "malformed-file"):
        Computation.unpacked(packed)


def test_records_of_a_file_that_cannot_be_written_say_so(tmp_path):
    records = Records(path=str(tmp_path / "gone" / "x.json"))
    with raises_code(DataError, "unwritable-file"):
        records.keep("key", Computation([np.array([1])]))


# -- speed-up ------------------------------------------------------------------------------------------------


RANKS = [1, 2, 4, 8, 16, 32, 64]


def pi(comm, n=1 << 24):
    rng = np.random.default_rng(comm.rank)
    own = n // comm.size
    inside, total = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for first in range(0, own, 1 << 16):
        points = rng.random((min(1 << 16, own - first), 2))
        inside += (np.square(points).sum(axis=1) < 1).sum()
    comm.Allreduce(inside, total)
    return 4 * int(total[0]) / (own * comm.size)


def julia(comm, rows=512, columns=512):
    own = np.arange(comm.rank, rows, comm.size)  # cyclic: dear rows lie beside each other
    steps = 0
    for y in np.linspace(-1.2, 1.2, rows)[own]:
        z = np.linspace(-1.6, 1.6, columns) + 1j * y
        for _ in range(100):
            inside = np.abs(z) < 2
            z[inside] = z[inside] ** 2 - 0.8 + 0.156j
            steps += int(inside.sum())
    return comm.reduce(steps)


@pytest.mark.parametrize("program", [pi, julia])
def test_the_speed_up_on_1_to_64_ranks_is_that_of_the_charged_time(program):
    """The calls of the program, with a second of computation instead of what this host took."""
    small = {"n": 1 << 10} if program is pi else {"rows": 64, "columns": 4}
    times = []
    for ranks in RANKS:
        kept = lk.run(program, ranks, compute="measured", **small).computation
        shared = [np.where(np.arange(len(own)) == 0, 10**9 // ranks, 0) for own in kept.stretches]
        times.append(lk.run(program, ranks, compute=Computation(shared), **small).makespan_s)
    assert np.abs(times[0] / np.array(times) / RANKS - 1).max() < 0.10
