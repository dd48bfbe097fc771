"""Selectors: tables of rules, fixed names, who is asked first, and what was taken."""

from __future__ import annotations

import json
import math
import pickle

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import ScheduleError
from labkit.launch.options import collectives_of
from labkit.selector import Choices, First, Fixed, Rules, Selector, Situation, selector_of
from tests.support.refusals import raises_code

ROWS = [
    {"operation": "allreduce", "machine": "torus*", "use": "rabenseifner"},
    {"operation": "allreduce", "ranks_from": 4, "ranks_below": 8, "use": "ring"},
    {"operation": "allreduce", "bytes_at_most": 8, "power_of_two": False, "use": "recursive_doubling"},
]


def allreduce(comm, count):
    mine, everybody = np.full(count, comm.rank, np.float64), np.empty(count)
    comm.Allreduce(mine, everybody)
    return everybody[0]


@pytest.mark.parametrize(
    ("situation", "name"),
    [
        (Situation("allreduce", 2, 8, machine="torus:2"), "rabenseifner"),
        (Situation("allreduce", 4, 8), "ring"),
        (Situation("allreduce", 4, 8, is_commutative=False), None),  # the rule fits, the algorithm does not
        (Situation("allreduce", 3, 8), "recursive_doubling"),
        (Situation("allreduce", 3, 9), None),
        (Situation("allreduce", 8, 8), None),
        (Situation("bcast", 4, 8), None),
    ],
)
def test_the_first_rule_that_fits(situation, name):
    assert Rules(ROWS).choose(situation) == name


def test_files_of_both_forms(tmp_path):
    path = tmp_path / "rules.json"
    for table in ({"title": "ours", "rules": ROWS}, ROWS):
        path.write_text(json.dumps(table))
        assert repr(Rules.read(path)) == repr(Rules(ROWS))
    run = lk.run(allreduce, 4, args=(100,), coll=path)
    assert run.collectives == {Situation("allreduce", 4, 800, machine="star"): "ring"}
    assert run.makespan_s == lk.run(allreduce, 4, args=(100,), coll={"allreduce": "ring"}).makespan_s
    chosen = collectives_of(["bcast=linear", str(path)])
    assert selector_of(chosen).choose(Situation("bcast", 4)) == "linear"
    assert selector_of(chosen).choose(Situation("allreduce", 4)) == "ring"


def test_what_is_left_open_the_defaults_choose():
    selector = selector_of({"bcast": "ring"})
    for n_bytes in (8, 1 << 22):
        at = Situation("allreduce", 16, n_bytes)
        assert selector.choose(at) == selector_of().choose(at)
    assert Choices(selector)("bcast", 4) == "ring"
    assert First(Rules(ROWS), Fixed({"allreduce": "ring"})).choose(Situation("allreduce", 100, 9)) == "ring"


def test_a_selector_goes_with_the_study():
    class Odd(Selector):
        def choose(self, situation):
            return "ring" if situation.ranks % 2 else None

    study = lk.sweep(allreduce, ranks=[2, 3, 4], args=(4,), options={"coll": Odd()})
    assert sorted(set(study.data["ranks"])) == [2, 3, 4]
    assert pickle.loads(pickle.dumps(selector_of())).choose(Situation("bcast", 4)) == "binomial"


@pytest.mark.parametrize(
    ("coll", "wanted"),
    [
        ({"allreduce": "rign"}, ("unknown-name", "allreduce", "'rign'")),
        ({"sorting": "sample_sort"}, ("malformed-schedule", "sorting/sample_sort")),
        (["ring"], ("wrong-type", "coll", "'ring'")),
        ("nowhere.json", ("missing-file", "nowhere.json")),
        (Rules([{"operation": "allreduce", "use": "magic"}]), ("unknown-name", "allreduce", "'magic'")),
    ],
)
def test_what_cannot_work_is_refused_before_anything_runs(coll, wanted: tuple[str, ...]):
    with raises_code(ScheduleError, *wanted):
        lk.run(allreduce, 4, args=(4,), coll=coll)


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        ({"operation": "bcast"}, ("malformed-line", "1")),
        ({"operation": "bcast", "use": "ring", "bytes": 8}, ("unknown-name", "8")),
        (
            {"operation": "bcast", "use": "ring", "bytes_from": 8, "bytes_below": 8},
            ("conflicting-options",),
        ),
        (
            {"operation": "bcast", "use": "ring", "ranks_from": 8, "ranks_at_most": 7},
            ("conflicting-options",),
        ),
        ({"operation": "bcast", "use": "ring", "power_of_two": 1}, ("unknown-name", "power_of_two", "1")),
        ({"operation": "bcast", "use": "ring", "ranks_from": True}, ("unknown-name", "ranks_from")),
        ({"operation": "bcast", "use": "ring", "bytes_from": -1}, ("unknown-name", "bytes_from", "-1")),
        (
            {"operation": "bcast", "use": "ring", "bytes_below": float("-inf")},
            ("unknown-name", "bytes_below"),
        ),
        ({"operation": "bcast", "use": "ring", "bytes_below": 0}, ("conflicting-options",)),
        ({"operation": "bcast", "use": "ring", "ranks_at_most": 0}, ("conflicting-options",)),
        ({"operation": "bcast", "use": "ring", "bytes_from": math.inf}, ("conflicting-options",)),
        (
            {"operation": "bcast", "use": "ring", "bytes_below_line": [1, math.inf]},
            ("unknown-name", "bytes_below_line"),
        ),
    ],
)
def test_a_row_that_is_no_rule(row, wanted: tuple[str, ...]):
    with raises_code(ScheduleError, *wanted):
        Rules([row])


def test_a_file_that_is_no_table(tmp_path):
    path = tmp_path / "rules.toml"
    path.write_text("rules = 3")
    with raises_code(ScheduleError, "malformed-schedule"):
        selector_of(path)
    with raises_code(ScheduleError, "wrong-type"):
        collectives_of(["allreduce"])


def test_a_row_of_steps_is_several_rules():
    rows = [
        {"operation": "allgather", "ranks_below": 9, "use": [[8, "ring"], [64, "bruck"], "spreading"]},
        {
            "operation": "allgather",
            "by": "total_bytes",
            "use": [[1000, "neighbor_exchange or shifts"], "ring"],
        },
    ]
    choose = Rules(rows).choose
    assert [choose(Situation("allgather", 8, n)) for n in (0, 7, 8, 63, 64)] == [
        "ring", "ring", "bruck", "bruck", "spreading",
    ]  # fmt: skip
    assert [choose(Situation("allgather", p, n)) for p, n in ((10, 99), (11, 90), (10, 100))] == [
        "neighbor_exchange", "shifts", "ring",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("use", "code"),
    [
        ([], "malformed-line"),
        ([[8, "ring"]], "malformed-line"),
        ([["ring"], "ring"], "not-sorted"),
        ([[8, "ring"], [8, "bruck"], "ring"], "not-sorted"),
        ([8], "malformed-line"),
    ],
)
def test_steps_that_are_none(use, code):
    with raises_code(ScheduleError, code, "rule 1"):
        Rules([{"operation": "allgather", "use": use}])


def test_best_takes_the_fastest_of_all_that_can_be_used():
    def program(comm, count=100):
        comm.Allreduce(np.ones(count), np.empty(count))

    for ranks, on, count in ((5, "star:5", 1), (8, "torus:4x2", 40_000), (6, "star:2,cores=3", 500)):
        best = lk.run(program, ranks, on, args=(count,), coll="best")
        times = {}
        for name in registry.names("allreduce"):
            try:
                times[name] = lk.run(program, ranks, on, args=(count,), coll={"allreduce": name}).makespan_s
            except ScheduleError:
                continue  # not for so many ranks
        assert len(times) > 10
        assert best.makespan_s == pytest.approx(min(times.values()), rel=1e-9)
        assert next(iter(best.collectives.values())).partition(":")[0] in times


def test_best_needs_a_machine():
    with raises_code(ScheduleError, "conflicting-options", "coll='best'"):
        Choices(selector_of("best"))("allreduce", 4)


def test_algorithms_by_nodes_take_the_machines_nodes():
    def program(comm):
        comm.Allreduce(np.ones(4), np.empty(4))

    for on, node in (("star:4,cores=3", 3), ("star:12", 1)):
        run = lk.run(program, 12, on, coll="allreduce=smp_ring")
        assert set(run.collectives.values()) == {f"smp_ring:node={node}"}
    assert set(lk.run(program, 12, "star:12", coll="allreduce=smp_ring:node=4").collectives.values()) == {
        "smp_ring:node=4"
    }


@pytest.mark.parametrize(
    ("algorithm", "count", "segments"),
    [("pipeline", 1, 1), ("pipeline", 1000, 1), ("pipeline", 1001, 2), ("double_tree", 2001, 2)],
)
def test_segments_of_so_many_bytes(algorithm, count, segments):
    def program(comm):
        data = np.arange(count) if comm.rank == 0 else np.empty(count, np.int64)
        comm.Bcast(data)
        return int(data.sum())

    run = lk.run(program, 5, "star:5", coll=f"bcast={algorithm}:segment_bytes=8000")
    assert set(run.collectives.values()) == {f"{algorithm}:segments={segments}"}
    assert run.results == [count * (count - 1) // 2] * 5


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("binomial:segment_bytes=8", "malformed-schedule"),
        ("pipeline:segment_bytes=0", "duplicate-name"),
        ("pipeline:segments=2:segment_bytes=8", "malformed-schedule"),
    ],
)
def test_segments_that_are_none(name, code):
    with raises_code(ScheduleError, code, "segment_bytes"):
        selector_of({"bcast": name})


def test_a_rule_may_ask_how_many_ranks_share_a_host():
    rows = [{"operation": "bcast", "ranks_per_node_from": 2, "use": "pipeline"}]
    rules = Rules([*rows, {"operation": "bcast", "use": "ring"}])
    assert rules.asks_nodes
    assert First(Fixed({}), rules).asks_nodes
    assert not Rules([{"operation": "bcast", "use": "ring"}]).asks_nodes

    def program(comm):
        comm.Bcast(bytearray(100_000))

    for on, name in (("star:4", "ring"), ("star:2,cores=2", "pipeline")):
        (found,) = set(lk.run(program, 4, on, coll=rules).collectives.values())
        assert found.partition(":")[0] == name


def test_a_rule_may_ask_how_many_hosts_the_ranks_fill():
    rules = Rules([{"operation": "alltoall", "nodes_below": 2, "use": "linear"}])
    assert rules.asks_nodes
    for ranks, node, name in ((4, 4, "linear"), (5, 4, None), (4, 1, None), (1, 1, "linear")):
        assert rules.choose(Situation("alltoall", ranks, 8, ranks_per_node=node)) == name


def test_what_is_not_known_of_copies_is_not_told():
    assert "copied" not in repr(Situation("bcast", 8, 21))
    assert repr(Situation("bcast", 8, copied_below_bytes=4096)).endswith("copied_below_bytes=4096)")


def test_a_rule_may_ask_whether_the_machines_messages_are_copied():
    rows = [
        {"operation": "alltoall", "copy_limits_below": 1, "total_copy_limits_from": 2, "use": "bruck"},
        {"operation": "alltoall", "use": "linear"},
    ]
    rules = Rules(rows)
    at = Situation("alltoall", 4, copied_below_bytes=65536)
    for n_bytes, name in ((32767, "linear"), (32768, "bruck"), (65535, "bruck"), (65536, "linear")):
        assert rules.choose(at._replace(n_bytes=n_bytes)) == name
    assert rules.choose(Situation("alltoall", 4, 40_000)) == "linear"  # nothing is known of its messages

    def program(comm):
        comm.Alltoall(bytearray(4 * 40_000), bytearray(4 * 40_000))

    for model, name in (("lab", "bruck"), ("smpi", "linear"), ("rdma", "linear")):
        run = lk.run(program, 4, "star:4", model=model, coll=rules)
        assert run.collectives == {Situation("alltoall", 4, 40_000, machine="star:4"): name}


@pytest.mark.slow
@pytest.mark.parametrize("on", ["graphene", "lichtenberg", "star:4,cores=8"])
@pytest.mark.parametrize("operation", ["allgather", "alltoall", "alltoallv", "bcast", "gather", "scatter"])
def test_on_one_host_the_defaults_are_near_the_fastest(on, operation):
    """There every pair copies by itself: what saves a shared link only costs rounds."""
    sizes = (8, 1024, 32_768, 262_144, 2_097_152)
    tuned = lk.tune(operation, on, [4] if on == "graphene" else [4, 8], sizes, progress=False)
    lost = tuned.penalty("default")
    assert lost["mean"] < 0.25
    assert lost["max"] < 1.1
