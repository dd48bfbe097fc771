"""The exact search against what is known, and the exports read back by interpreters of their own."""

from __future__ import annotations

import time
import xml.etree.ElementTree as ET
from collections import defaultdict, deque
from types import SimpleNamespace

import pytest

import labkit as lk
from labkit.errors import ScheduleError
from labkit.schedule import check
from labkit.sim.schedules import simulate
from labkit.synthesis import exact, exact_points, synthesize
from tests.support.refusals import raises_code

RING = lk.graph([(i, (i + 1) % 4) for i in range(4)], bw="1GBps", lat="1us")
CUBE = lk.graph([(i, i ^ (1 << k)) for i in range(8) for k in range(3) if i < i ^ (1 << k)])


@pytest.mark.parametrize(
    ("problem", "machine", "wanted"),
    [
        ("allgather", RING, {(2, 2, 3)}),
        ("reduce_scatter_block", RING, {(2, 2, 3)}),
        ("allgather", CUBE, {(3, 3, 7)}),
        # two chunks around the ring, one each way
        ("bcast", RING, {(1, 2, 2), (6, 5, 6)}),
        # each of the 4 x 4 blocks takes its shortest way: 4 link rounds a rank over 2 links
        ("alltoall", RING, {(1, 2, 2)}),
    ],
)
def test_the_frontier_has_the_known_optima(problem, machine, wanted):
    points = exact_points(problem, machine)
    found = {(point.chunks, point.steps, point.rounds) for point in points}
    if problem == "bcast":  # steps from 2 on, and never more rounds for a chunk than a step before
        shares = [point.rounds / point.chunks for point in points]
        assert points[0].steps == 2
        assert shares == sorted(shares, reverse=True)
    else:
        assert found == wanted


def test_a_busy_machine_finds_the_same(monkeypatch):
    """Searches that the clock ended before the processor had done anything are no searches."""
    limits, real = [], exact.milp

    def starved(options, **program):
        limits.append(options["time_limit"])
        if options["time_limit"] < 100:
            return SimpleNamespace(status=1, x=None)
        return real(options=options, **program)

    monkeypatch.setattr(exact, "milp", starved)
    points = exact_points("allgather", RING)
    assert {(point.chunks, point.steps, point.rounds) for point in points} == {(2, 2, 3)}
    assert limits[:2] == [20.0, 640.0]

    def hard(options, **program):
        limits.append(options["time_limit"])
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return SimpleNamespace(status=1, x=None)

    limits.clear()
    monkeypatch.setattr(exact, "milp", hard)
    assert exact._answered(0.03).x is None
    assert limits == [0.03]


@pytest.mark.slow
def test_the_frontier_of_a_dgx_1():
    links = [(0, 1, 2), (0, 2, 1), (0, 3, 1), (0, 4, 2), (1, 2, 1), (1, 3, 2), (1, 5, 1), (2, 3, 2),
             (2, 6, 2), (3, 7, 1), (4, 5, 2), (4, 6, 1), (4, 7, 1), (5, 6, 1),
             (5, 7, 2), (6, 7, 2)]  # fmt: skip
    dgx1 = lk.graph([(a, b, {"bw": f"{25 * n}GBps"}) for a, b, n in links], range(8))
    found = {(point.chunks, point.steps, point.rounds) for point in exact_points("allgather", dgx1)}
    assert found == {(2, 2, 3), (6, 3, 7)}


@pytest.mark.parametrize(
    "problem", ["allgather", "allreduce", "bcast", "alltoall", "reduce", "reduce_scatter_block"]
)
def test_exact_schedules_are_proved_and_near_the_bound(problem):
    made = synthesize(problem, RING, n_bytes=1 << 20, model="raw", method="exact")
    assert check(made.schedule)
    assert made.method.startswith("exact search")
    assert 1 <= made.ratio < 2.1
    if problem == "allgather":
        assert made.ratio < 1.01


def chunks_after(path, initial):
    """Execute MSCCL's XML on sets of contributions: what the output chunks of every GPU hold at the end."""
    root = ET.parse(path).getroot()
    memory, blocks, done, wires = {}, {}, set(), defaultdict(deque)
    for gpu in root:
        g = int(gpu.get("id"))
        memory[g] = {("i", k): initial(g, k) for k in range(int(gpu.get("i_chunks")))}
        for tb in gpu:
            blocks[g, int(tb.get("id"))] = (tb, deque(tb))
    moved = True
    while moved:
        moved = False
        for (g, number), (tb, steps) in blocks.items():
            while steps:
                step = steps[0]
                source, target = ((step.get(f"{e}buf"), int(step.get(f"{e}off"))) for e in ("src", "dst"))
                after = (g, int(step.get("depid")), int(step.get("deps")))
                wire = wires[int(tb.get("recv")), g]
                kind = step.get("type")
                if (after[1] >= 0 and after not in done) or (kind == "r" and not wire):
                    break
                if kind == "s":
                    wires[g, int(tb.get("send"))].append(memory[g][source])
                elif kind == "r":
                    memory[g][target] = wire.popleft()
                elif kind == "cpy":
                    memory[g][target] = memory[g][source]
                elif kind == "re":
                    assert not memory[g][source] & memory[g][target]
                    memory[g][target] = memory[g][source] | memory[g][target]
                done.add((g, number, int(step.get("s"))))
                steps.popleft()
                moved = True
    assert not any(steps for _, steps in blocks.values()), "a thread block waits forever"
    return {g: [held[k] for k in sorted(held) if k[0] == "o"] for g, held in memory.items()}


@pytest.mark.parametrize("chunks", [1, 2])
def test_msccl_files_do_what_the_schedule_does(tmp_path, chunks):
    path = tmp_path / "made.xml"
    uneven = lk.graph([(0, 1), (1, 2), (2, 3), (3, 0), (3, 4), (0, 4, {"bw": "9Gbps"})], range(5))
    synthesize("allgather", uneven, n_bytes=10**5, chunks=chunks).msccl(path)
    held = chunks_after(path, lambda g, k: frozenset([(g, k)]))
    everything = [frozenset([(g, k)]) for g in range(5) for k in range(chunks)]
    assert all(chunks_of == everything for chunks_of in held.values())
    made = synthesize("allreduce", uneven, n_bytes=10**5, chunks=chunks)
    made.msccl(path)
    held = chunks_after(path, lambda g, k: frozenset([(g, k)]))
    wanted = [frozenset((g, k) for g in range(5)) for k in range(made.schedule.parts)]
    assert all(chunks_of == wanted for chunks_of in held.values())
    with raises_code(ScheduleError, "malformed-schedule", "reduce_scatter"):
        synthesize("reduce_scatter", "star:3", n_bytes=8).msccl(path)


@pytest.mark.parametrize("problem", ["allgather", "allreduce", "alltoall", "bcast"])
def test_goal_files_take_as_long_as_the_schedule(tmp_path, problem):
    made = synthesize(problem, RING, n_bytes=3001, model="raw")
    made.goal(tmp_path / "made.goal")
    replayed = lk.replay(tmp_path / "made.goal", on=RING, model="raw")
    expected = simulate(made.schedule, RING, "raw", n_bytes=3001, symmetry=False)
    assert replayed.makespan_s == pytest.approx(expected.makespan_s, rel=1e-6)
