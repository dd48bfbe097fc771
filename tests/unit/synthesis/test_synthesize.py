"""Schedules made for a machine: proved, executed, never below the bound; what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import PlatformError, ScheduleError
from labkit.machines import models
from labkit.schedule import PROBLEMS, check
from labkit.sim.schedules import perform, simulate
from labkit.synthesis import COLLECTIVES, lower_bound_on, synthesize
from tests.support.refusals import raises_code

CUT = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0, {"bw": "40Gbps"}), (1, 5), (5, 3, {"lat": "9us"})]
#: machines of five or six ranks: a switch, a torus, an uneven graph, two ranks a host, no shared links
MACHINES = {
    "star": "star:5,model=raw",
    "torus": "torus:2x3",
    "uneven": lk.graph(CUT, range(6)),
    "cores": "star:3,cores=2,model=smpi",
    "delay": "star:5,model=loggps",
}


def result_of(made, n=7):
    """Run a made schedule on data; return what every rank has got, and what it should have."""
    problem, p, root = made.schedule.problem.name, made.schedule.size, made.schedule.root
    data = np.arange(p * p * n).reshape(p, p, n) % 97
    both = {"send": data[:, 0], "recv": np.zeros((p, n), int)}
    every = data.sum(0)
    cases = {
        "bcast": ({"data": data[:, 0].copy()}, [data[root, 0]] * p),
        "allreduce": (both, [data[:, 0].sum(0)] * p),
        "reduce": (both, [data[:, 0].sum(0) if r == root else None for r in range(p)]),
        "allgather": ({"send": data[:, 0], "recv": np.zeros((p, p, n), int)}, [data[:, 0]] * p),
        "alltoall": ({"send": data, "recv": np.zeros((p, p, n), int)}, [data[:, r] for r in range(p)]),
        "reduce_scatter_block": ({"send": data, "recv": np.zeros((p, n), int)}, list(every)),
        "reduce_scatter": ({"send": data, "recv": np.zeros((p, n), int)}, list(every)),
    }
    buffers, wanted = cases[problem]
    rows = [
        {name: np.ascontiguousarray(array[r]).reshape(-1) for name, array in buffers.items()}
        for r in range(p)
    ]
    counts = None
    if problem == "reduce_scatter":
        counts = [{"send": [n] * p, "recv": [n]}] * p
    perform(made.schedule, rows, made.platform, made.model, op="sum", counts=counts)
    return [row.get("recv", row.get("data")) for row in rows], wanted


@pytest.mark.parametrize("problem", COLLECTIVES)
@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("n_bytes", [0, pytest.param(8, marks=pytest.mark.slow), 10_001])
def test_every_made_schedule_is_proved_and_above_the_bound(problem, machine, n_bytes):
    made = synthesize(
        problem, MACHINES[machine], n_bytes=n_bytes, root=1 if problem in ("bcast", "reduce") else 0
    )
    assert check(made.schedule)
    assert made.ratio >= 1 - 1e-9
    assert made.time_s == min(time for _, time in made.tried)
    assert f"{made.ratio:.4g}" in made.explain()
    got, wanted = result_of(made)
    for mine, right in zip(got, wanted, strict=True):
        if right is not None:
            np.testing.assert_array_equal(mine, np.asarray(right).reshape(-1))


@pytest.mark.parametrize("machine", ["star:6,model=raw", "torus:2x3", "star:3,cores=2,model=smpi",
                                     "star:6,model=loggps",
                                     "star:6,model=rdma", "star:6,model=ib",
                                     "fattree:2x3:1x2:1x2,model=cm02"])  # fmt: skip
@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_algorithm_of_the_registry_undercuts_the_bound(problem, machine):
    for n_bytes in (1, 300_000):
        bound = lower_bound_on(problem, machine, n_bytes=n_bytes)
        for name in registry.names(problem):
            algorithm = registry.get(problem, name)
            if not algorithm.requirements.unmet(6):
                time = simulate(algorithm.build(6), machine, n_bytes=n_bytes).makespan_s
                assert time >= bound.seconds * (1 - 1e-9), (name, n_bytes)


@pytest.mark.parametrize("machine", ["torus:2x3", "graphene", "star:6,model=loggps", "star:2,cores=3"])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_nor_where_longer_messages_may_cost_less(problem, machine):
    """Sizes at which all data in one message, or some of it, wait for their receiver and cost no copy."""
    for n_bytes in (70, 2_000, 11_000, 66_000):
        bound = lower_bound_on(problem, machine, n_bytes=n_bytes, ranks=6)
        for name in registry.names(problem):
            algorithm = registry.get(problem, name)
            if not algorithm.requirements.unmet(6):
                time = simulate(algorithm.build(6), machine, n_bytes=n_bytes).makespan_s
                assert time >= bound.seconds * (1 - 1e-9), (name, n_bytes)


@pytest.mark.parametrize("machine", ["star:16", "torus:4x2x2", "graphene", "lichtenberg"])
def test_the_bound_of_an_alltoall_grows_with_its_blocks(machine):
    """A message that is long enough to cost no start-up takes longer than one that costs it."""
    sizes = [2**k for k in range(0, 21, 2)]
    bounds = [lower_bound_on("alltoall", machine, n_bytes=n, ranks=16).seconds for n in sizes]
    assert all(less <= more * (1 + 1e-9) for less, more in itertools.pairwise(bounds))
    assert bounds[0] > 0


def test_a_message_carries_its_bytes_to_the_last_rank():
    """By hand: two ranks 2 us apart at 1 GB/s, a start-up of 3 us below 10 kB, none from there on."""
    model = models.get(
        "raw", send_overhead=((0, 3e-6, 0.0),), isend_overhead=((0, 3e-6, 0.0),),
        detached_below_bytes=10_000, envelope_bytes=0,
    )  # fmt: skip
    two = lk.graph([(0, 1)], [0, 1], bw="1GBps", lat="2us")
    found = [lower_bound_on("alltoall", two, n_bytes=n, model=model).latency_s for n in (100, 9_999)]
    assert found == pytest.approx([5.001e-6, 5.001e-6])  # 10 kB are 12 us on their way: a start-up is less


def test_the_bounds_of_known_machines():
    ring = lk.graph([(i, (i + 1) % 4) for i in range(4)], bw="1GBps", lat="1us")
    # rank 0 gets three blocks over two links, the first byte after 1 us
    assert lower_bound_on("allgather", ring, n_bytes=10**6, model="raw").seconds == pytest.approx(
        1e-6 + 1.5e-3
    )
    star = "star:4,bw=1GBps,lat=1us,model=raw"
    assert lower_bound_on("allreduce", star, n_bytes=10**6).seconds == pytest.approx(2e-6 + 1.5e-3)
    assert lower_bound_on("bcast", star, n_bytes=10**6).bandwidth_s == pytest.approx(1e-3)
    path = lk.graph([(0, 1), (1, 2), (2, 3)], range(4), bw="1GBps", lat="1us")
    assert lower_bound_on("allgather", path, n_bytes=0, model="raw").seconds == pytest.approx(3e-6)
    assert lower_bound_on("alltoall", path, n_bytes=10**6, model="raw").bandwidth_s == pytest.approx(4e-3)


@pytest.mark.slow
@pytest.mark.parametrize("problem", ["allgather", "allreduce"])
def test_made_schedules_beat_the_registry_where_links_are_cut(problem):
    torus = [(r * 3 + c, r * 3 + (c + 1) % 3) for r in range(3) for c in range(3)]
    torus += [(r * 3 + c, (r + 1) % 3 * 3 + c) for r in range(3) for c in range(3)]
    cut = lk.graph([edge for edge in torus if edge not in ((0, 1), (4, 7))], range(9))
    made = synthesize(problem, cut, n_bytes=1 << 20, model="raw")
    for name in registry.names(problem):
        algorithm = registry.get(problem, name)
        if not algorithm.requirements.unmet(9):
            assert made.time_s < simulate(algorithm.build(9), cut, "raw", n_bytes=1 << 20).makespan_s


def test_some_ranks_of_a_machine_are_a_machine_of_their_own():
    made = synthesize("allgather", "torus:4x4,model=raw", n_bytes=1000, ranks=[5, 6, 10])
    assert made.ranks == (5, 6, 10)
    assert list(made.platform.rank_hosts(3)) == [5, 6, 10]
    assert synthesize("bcast", "star", ranks=3, root=2).schedule.root == 2
    assert synthesize("allreduce", "star:4", ranks=1).ratio == 1
    assert synthesize("allreduce", "star:4", n_bytes=8).rounds == 2  # two exchanges, each both ways at once


def test_a_made_schedule_runs_in_a_program():
    made = synthesize("allgather", "torus:2x2,model=raw", n_bytes=80, chunks=3)
    assert made.schedule.parts == 3

    def program(comm):
        got = np.zeros(4 * 10)
        made.execute(comm, send=np.full(10, float(comm.rank)), recv=got)
        return got.tolist()

    wanted = np.repeat(np.arange(4.0), 10).tolist()
    assert lk.run(program, ranks=4, on="star:4").results == [wanted] * 4


@pytest.mark.mpi
def test_a_made_schedule_runs_on_real_mpi():
    made = synthesize("allreduce", lk.graph(CUT, range(6)), n_bytes=1000, ranks=3)

    def program(comm):
        got = np.zeros(101)
        made.execute(comm, op="sum", send=np.arange(101.0) + comm.rank, recv=got)
        return got.tolist()

    wanted = (3 * np.arange(101.0) + 3).tolist()
    assert lk.run(program, ranks=3, on="mpi").results == [wanted] * 3


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"problem": "scan"}, ("malformed-schedule",)),
        ({"n_bytes": -1}, ("out-of-range", "n_bytes")),
        ({"n_bytes": 1.5}, ("out-of-range", "n_bytes")),
        ({"chunks": 0}, ("out-of-range", "chunks")),
        ({"root": 4, "problem": "bcast"}, ("out-of-range", "4")),
        ({"ranks": [0, 0]}, ("duplicate-name", "ranks")),
        ({"ranks": [0, 9]}, ("too-many-ranks", "ranks 0", "3")),
        ({"ranks": []}, ("out-of-range", "ranks")),
        ({"on": "star"}, ("ranks-required",)),
        (
            {"problem": "reduce_scatter", "chunks": 2},
            ("conflicting-options", "reduce_scatter_block"),
        ),
        ({"method": "magic"}, ("unknown-name", "method")),
        ({"method": "exact", "on": "star:9"}, ("too-many-ranks", "8")),
    ],
)
def test_what_cannot_be_made_is_refused(arguments, wanted: tuple[str, ...]):
    with raises_code(ScheduleError, *wanted):
        synthesize(**{"problem": "allgather", "on": "star:4", **arguments})
    with raises_code(PlatformError, "too-many-ranks"):
        synthesize("allgather", "star:4", ranks=5)


@pytest.mark.parametrize("problem", ["bcast", "reduce"])
def test_a_long_message_is_no_slower_than_down_a_pipeline_in_segments(problem):
    cables = [(i, "left" if i < 4 else "right") for i in range(8)] + [("left", "right")]
    machine = lk.graph(cables, range(8), bw="10Gbps", lat="1us", name="two switches")
    made = lk.synthesize(problem, machine, n_bytes=1 << 20, model="raw")
    for segments in (16, 32, 64, 128):
        pipeline = registry.get(problem, f"pipeline:segments={segments}").build(8)
        assert made.time_s <= simulate(pipeline, machine, "raw", n_bytes=1 << 20).makespan_s
