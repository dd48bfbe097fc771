"""Tuning off line: times, the best algorithm, the tree, what selectors lose, rule files."""

from __future__ import annotations

import itertools
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.cli.main import main
from labkit.errors import DataError, PlatformError
from labkit.selector import Rules, Situation, selector_of
from labkit.tuning.tuned import COLUMNS, SimulatedMachine, Tuned, grow
from tests.support.refusals import raises_code


@pytest.fixture(scope="module")
def tuned():
    return lk.tune("allreduce", "torus:3x2x2", [3, 4, 12], [8, 4096, 1 << 18])


def test_the_best_is_what_a_run_with_it_takes(tuned):
    def program(comm, n_bytes):
        comm.Allreduce(np.zeros(n_bytes // 8), np.empty(n_bytes // 8))

    for row in tuned.best.itertuples():
        run = lk.run(program, row.ranks, "torus:3x2x2", args=(row.bytes,), coll={"allreduce": row.algorithm})
        every = lk.run(program, row.ranks, "torus:3x2x2", args=(row.bytes,), coll="best")
        assert run.makespan_s == pytest.approx(every.makespan_s, rel=1e-9)


def test_equals_are_told():
    """Two ranks and one message: every tree is the same one; which name stands is no finding."""
    names = ["linear", "binomial", "smp_binomial", "smp_binomial:segment_bytes=64", "scatter_ring_allgather"]
    tuned = lk.tune("bcast", "star:4", [2, 4], [8], algorithms=names, progress=False)
    assert tuned.best["algorithm"].tolist() == ["binomial", "linear"]
    assert tuned.equals["algorithms"].tolist() == [
        ["binomial", "linear", "smp_binomial", "smp_binomial:segment_bytes=64"], ["linear"],
    ]  # fmt: skip
    assert tuned.to_dict()["best"][0]["equals"] == ["linear", "smp_binomial", "smp_binomial:segment_bytes=64"]
    assert tuned.to_dict()["best"][1]["equals"] == []
    table = str(tuned).partition("decision tree")[0]
    assert "p = 2  binomial =" in table
    assert "p = 4      linear" in table
    told = "= at 1 of 2 points several are equally fast, of which the first by name is shown: 2 ranks, 8 B: "
    assert f"{told}binomial, linear and smp_binomial" in table
    assert "equally fast" in tuned._repr_html_()
    alone = lk.tune("bcast", "star:4", [4], [8], algorithms=names, progress=False)
    assert "equal" not in str(alone) + alone._repr_html_()


def test_rounding_is_no_difference():
    rows = [
        ("bcast", 4, 8, "chain", 1.0),
        ("bcast", 4, 8, "linear", 1.0 - 1e-12),
        ("bcast", 4, 8, "z", 0.999),
    ]
    times = pd.DataFrame(rows, columns=COLUMNS)
    machine = SimulatedMachine("star:4")
    assert Tuned("bcast", machine, times[:2]).best["algorithm"].tolist() == ["chain"]
    assert Tuned("bcast", machine, times).best["algorithm"].tolist() == ["z"]


def test_a_tree_with_a_leaf_a_point_loses_nothing(tuned):
    assert tuned.penalty()["max"] == pytest.approx(0, abs=1e-9)
    assert tuned.penalty("best")["max"] == pytest.approx(0, abs=1e-9)
    compared = tuned.compare()
    assert (compared["mean"] >= -1e-9).all()
    assert (compared["max"] >= compared["mean"]).all()
    assert compared.loc["ompi", "mean"] > 0


def test_its_rules_choose_what_the_tree_says(tuned):
    choose = selector_of(tuned.rules).choose
    for row in tuned.best.itertuples():
        leaf = next(leaf for leaf in tuned.tree if leaf.holds(row.ranks, row.bytes))
        assert choose(Situation("allreduce", row.ranks, row.bytes)) == leaf.algorithm
    assert choose(Situation("bcast", 4, 8)) == "binomial"  # the defaults' choice


@pytest.mark.parametrize("ending", ["toml", "json"])
def test_rules_written_and_read_again(tuned, tmp_path, ending):
    path = tuned.save(tmp_path / f"rules.{ending}")
    assert repr(Rules.read(path)) == repr(tuned.rules)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_trees_of_any_times(data):
    """Leaves are disjoint, cover everything, take what can be used, and more of them lose no more."""
    ranks = sorted(data.draw(st.sets(st.integers(1, 5000), min_size=1, max_size=5)))
    sizes = sorted(data.draw(st.sets(st.integers(0, 10**7), min_size=1, max_size=5)))
    rows = []
    for p in ranks:
        for n in sizes:
            rows.append((p, n, "always", data.draw(st.floats(1e-6, 1.0))))
            if p % 2 == 0:
                rows.append((p, n, "even", data.draw(st.floats(1e-6, 1.0))))
    times = pd.DataFrame(rows, columns=["ranks", "bytes", "algorithm", "time_s"])
    last = math.inf
    for leaves in (1, 2, 4, 100):
        tree = grow(times, leaves)
        assert 1 <= len(tree) <= leaves
        for p, n, _, _ in rows:
            (leaf,) = [leaf for leaf in tree if leaf.holds(p, n)]
            assert leaf.algorithm == "always" or p % 2 == 0
        lost = sum(leaf.penalty for leaf in tree)
        assert lost <= last + 1e-9
        last = lost
    assert last == pytest.approx(0, abs=1e-9)


def test_where_no_algorithm_is_for_all_the_ranks_are_apart():
    times = pd.DataFrame(
        [(3, 8, "odd", 1.0), (4, 8, "even", 1.0), (5, 8, "odd", 2.0)],
        columns=["ranks", "bytes", "algorithm", "time_s"],
    )
    assert [leaf.algorithm for leaf in grow(times, 1)] == ["odd", "even", "odd"]


def test_open_mpi_gets_what_it_has_only(tmp_path):
    tuned = lk.tune("allgather", "star:8", [4, 8], [8, 65536], library="ompi")
    lines = [
        line.partition("#")[0].split()
        for line in tuned.save(tmp_path / "a.conf").read_text().splitlines()[1:]
    ]
    numbers = [[int(word) for word in line] for line in lines]
    assert numbers[:2] == [[1], [0]]
    rest = iter(numbers[3:])
    for _ in range(numbers[2][0]):
        (ranks,), (rules,) = next(rest), next(rest)
        sizes = [next(rest) for _ in range(rules)]
        assert sizes[0][0] == 0
        assert all(a[0] < b[0] for a, b in itertools.pairwise(sizes))
        for low, _, _, _ in sizes:
            assert low % ranks == 0  # Open MPI counts all blocks
    assert next(rest, None) is None
    with raises_code(DataError, "no-counterpart", "MPI"):
        lk.tune("allreduce", "star:4", [4], [8], algorithms=["bine"]).save(tmp_path / "b.conf")


def test_one_number_and_numbers_of_numpy_count():
    for ranks, sizes in [(4, 8), (np.int64(4), np.array([8]))]:
        assert lk.tune("allreduce", "torus:3x2x2", ranks, sizes).times["ranks"].unique().tolist() == [4]
    assert lk.card("bcast", "star:4", p=2 ** np.arange(1, 3), bytes=np.int64(8)).data["ranks"].max() == 4


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"operation": "sorting"}, ("unknown-name",)),
        ({"operation": "alreduce"}, ("unknown-name",)),
        ({"ranks": [0]}, ("out-of-range", "ranks", "1")),
        ({"ranks": []}, ("out-of-range", "ranks")),
        ({"ranks": "8"}, ("out-of-range", "ranks")),
        ({"ranks": [None]}, ("out-of-range", "ranks")),
        ({"sizes": math.inf}, ("out-of-range", "sizes")),
        ({"leaves": [2, 3]}, ("out-of-range", "leaves")),
        ({"sizes": [-1]}, ("out-of-range", "sizes")),
        ({"leaves": 0}, ("out-of-range", "leaves")),
        ({"library": "lam"}, ("unknown-name", "library")),
    ],
)
def test_bad_input_is_refused(arguments, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        lk.tune(**{"operation": "bcast", "on": "star:4", "ranks": [2], "sizes": [8]} | arguments)


def test_too_small_a_machine_is_refused_before_anything_runs():
    with raises_code(PlatformError, "too-many-ranks"):
        lk.tune("bcast", "star:4", [2, 8], [8])


def test_the_command(capsys, tmp_path):
    from labkit.cli.main import main

    out = tmp_path / "r.toml"
    words = ["tune", "bcast", "--on", "star:8", "--ranks", "3,8", "--sizes", "8,64K", "--out", str(out)]
    assert main(words) == 0
    assert "decision tree" in capsys.readouterr().out
    assert out.exists()
    assert main([*words, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["written"] == [str(out)]
    assert set(found["penalty"]) == {
        "tree",
        "default",
        "ompi",
        "mpich",
        "smpi",
    }
    assert main(["tune", "bcast", "--out", str(tmp_path / "r.xml"), "--ranks", "2", "--sizes", "8"]) == 3
    assert "written as .toml" in capsys.readouterr().err


@pytest.mark.parametrize(("on", "ranks"), [("torus:4x4", [4, 8, 16]), ("star", [4, 8, 16, 32, 64])])
def test_as_many_ranks_are_tried_as_the_machine_holds(on, ranks):
    found = lk.tune("bcast", on, sizes=[8], algorithms=["linear", "binomial"], progress=False)
    assert sorted(found.times["ranks"].unique()) == ranks


def test_a_machine_too_small_for_any_is_refused():
    with raises_code(PlatformError, "too-many-ranks", "4", "2"):
        lk.tune("bcast", "star:2", sizes=[8], progress=False)


def test_the_command_line_takes_as_many_ranks_too(capsys):
    assert main(["tune", "barrier", "--on", "torus:4x4", "--algorithms", "dissemination", "--json"]) == 0
    assert {row["ranks"] for row in json.loads(capsys.readouterr().out)["best"]} == {4, 8, 16}
