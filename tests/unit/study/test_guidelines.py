"""Guidelines: read from text, judged soundly where times scatter, checked on machines with planted faults."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.cli.main import main
from labkit.errors import DataError, ExpectationError
from labkit.selector import Rules
from labkit.study import Study
from labkit.study.guidelines import CATALOGUE, catalogue, compare_all, read_statement
from labkit.study.guidelines.litmus import own_broadcast
from labkit.study.guidelines.report import SideTimes
from tests.support.refusals import raises_code

STAR = {"star": {"platform": "star", "model": "lab", "deterministic": True}}


# -- statements -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("statement", [str(one) for one in CATALOGUE])
def test_the_catalogue_reads_as_it_prints(statement: str) -> None:
    assert str(read_statement(statement)) == statement


def test_the_catalogue_is_whole() -> None:
    """The two rules of the paper, the list of mock-ups, and for each sized operation its own three."""
    texts = [str(one) for one in CATALOGUE]
    assert {"allreduce <= reduce + bcast", "allgather <= gather + bcast(n p)"} <= set(texts)
    assert len(texts) == len(set(texts)) == 55
    kinds = pd.Series([one.kind for one in CATALOGUE]).value_counts().to_dict()
    assert kinds == {"monotony": 21, "special": 14, "pattern": 10, "split": 10}
    assert all(one.source for one in CATALOGUE)


@pytest.mark.parametrize(
    ("text", "size", "ranks", "factor"),
    [
        ("a <= b(n p)", 400.0, 4, 1), ("a <= b(2n, 2p)", 200.0, 8, 1), ("a <= 4 b(n/4)", 25.0, 4, 4),
        ("a <= 2*'my b'(n + 8 * (p - 1))", 124.0, 4, 2), ("a ≤ b", 100.0, 4, 1),
    ],
)  # fmt: skip
def test_sizes_and_ranks_are_computed(text: str, size: float, ranks: int, factor: float) -> None:
    call = read_statement(text).right[0]
    assert (*call.at(100, 4), call.factor) == (size, ranks, factor)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("allreduce", 'two sides with "<=" between them'),
        ("a <= b <= c", "two sides"),
        ("a + b <= c", "the left side is one operation"),
        ("a <= b(", "a bracket is not closed"),
        ("a <= b(m)", "'m' is no size"),
        ("a <= b(n, p, 3)", "in brackets stand a size, or a size and ranks"),
        ("a <= b c", "'c' cannot be read; join with +"),
        ("a <= ", "an operation's name is missing there"),
        ("a <= 0 b", "more than 0 times"),
        ("a <= b(0 - n)", "is not at least 0"),
        ("a <= b(n**n)", "is no size"),
    ],
)
def test_what_is_no_statement_is_refused_in_a_sentence(text: str, words: str) -> None:
    with raises_code(ExpectationError, "malformed-expression", words):
        read_statement(text)


@settings(max_examples=300)
@given(text=st.text("ab <=≤+()np2/*,'\"\n.", max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            read = read_statement(text)
        except ExpectationError:
            return
    assert read_statement(str(read)).names == read.names


def test_words_choose_from_the_catalogue() -> None:
    assert {one.left.name for one in catalogue("all*")} == {"allreduce", "allgather", "alltoall"}
    assert catalogue("allreduce<=reduce+bcast")[0].source.startswith("Träff")
    with raises_code(ExpectationError, "unknown-name", "'sort'"):
        catalogue("sort")


# -- evidence ---------------------------------------------------------------------------------------------


def noisy(rng: Any, middle: float, count: int = 20) -> SideTimes:
    """Skewed times with outliers, as real ones are."""
    times = middle * rng.lognormal(0, 0.1, count)
    return SideTimes.of(times * np.where(rng.random(count) < 0.05, 5.0, 1.0))


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.0, 1.05])
def test_a_family_without_violations_raises_a_false_alarm_seldom(factor: float) -> None:
    """120 families of 100 comparisons, none violated: at most 5 % of them with any alarm, and some luck."""
    rng = np.random.default_rng(7)
    false = 0
    for _ in range(120):
        found = compare_all([(noisy(rng, factor), noisy(rng, 1.0)) for _ in range(100)])
        false += any(one.word == "violated" for one in found)
    assert false <= 11


def test_without_the_correction_there_would_be_many() -> None:
    rng = np.random.default_rng(7)
    pairs = [(noisy(rng, 1.05), noisy(rng, 1.0)) for _ in range(660)]
    assert sum(compare_all([pair])[0].word == "violated" for pair in pairs) > 15


@pytest.mark.parametrize(("factor", "word"), [(1.5, "violated"), (0.7, "held")])
def test_planted_factors_are_found_among_many(factor: float, word: str) -> None:
    rng = np.random.default_rng(3)
    pairs = [(noisy(rng, factor, 30), noisy(rng, 1.0, 30)) for _ in range(50)]
    found = compare_all(pairs)
    assert sum(one.word == word for one in found) >= 48
    assert np.median([one.factor for one in found]) == pytest.approx(factor, rel=0.05)


def test_few_repetitions_stay_undecided_and_say_why() -> None:
    rng = np.random.default_rng(3)
    found = compare_all([(noisy(rng, 2.0, 4), noisy(rng, 1.0, 4)) for _ in range(100)])
    assert {one.word for one in found} == {"undecided"}
    assert "4 repetitions do not decide it after the correction" in found[0].why


def test_launches_that_disagree_leave_it_undecided() -> None:
    rng = np.random.default_rng(0)
    fast, slow = rng.normal(1, 0.01, 40), rng.normal(2, 0.01, 40)
    one = SideTimes((slow, slow, fast))
    assert compare_all([(one, SideTimes((fast, fast, fast)))])[0].why == "the launches disagree"
    assert compare_all([(SideTimes((slow, slow)), SideTimes((fast, fast)))])[0].word == "violated"


def test_a_sum_takes_each_time_once() -> None:
    parts = [(1.0, SideTimes.of([1.0, 2.0, 3.0])), (2.0, SideTimes.of([10.0, 20.0, 30.0, 40.0]))]
    values = SideTimes.sum(parts).values
    assert len(values) == 3
    assert len(set(values // 20)) == 3


# -- on measurements ---------------------------------------------------------------------------------------


def study(laws: dict[str, Any], ranks: Any = (4, 8, 16, 32, 64), **columns: Any) -> Study:
    rows = [
        {"program": name, "on": "star", "ranks": p, "metric": "makespan_s", "value": law(p), "unit": "s"}
        | columns
        for name, law in laws.items()
        for p in ranks
    ]
    return Study(pd.DataFrame(rows), {"machines": STAR})


LOG = {"reduce": lambda p: np.log2(p), "bcast": lambda p: np.log2(p)}


def test_a_guideline_on_measurements_is_held_or_violated_and_says_where() -> None:
    held = study(LOG | {"allreduce": lambda p: 1.5 * np.log2(p)}).guideline("allreduce <= reduce + bcast")
    assert held
    assert held.word == "held"
    report = study(LOG | {"allreduce": lambda p: p / 4}).guideline("Allreduce <= Reduce + Bcast")
    (one,) = report
    assert not report
    assert [place.ranks for place, _ in one.of("violated")] == [64]
    assert one.worst[1].factor == pytest.approx(16 / 12)
    assert "violated at 1 of 5 places (64 ranks): the left side takes up to 1.33 times as long" in str(report)
    assert "call Reduce then Bcast instead, or tune Allreduce: 1.33 times faster at 64 ranks" in str(report)


def test_models_predict_a_violation_before_it_is_measured() -> None:
    report = study(LOG | {"allreduce": lambda p: 0.01 * p}).guideline("allreduce <= reduce + bcast")
    (one,) = report
    assert one.word == "held"
    assert one.is_predicted_violated
    assert not report
    at = float(one.predicted.split("p = ")[1].split()[0])
    assert 0.01 * at == pytest.approx(1.05 * 2 * np.log2(at), rel=0.2)
    assert "allreduce grows as p, the other side as log" in one.predicted


def test_sizes_of_the_other_side_are_looked_up() -> None:
    rows = [
        {"op": op, "n": n, "ranks": 4, "metric": "t_s", "value": t * n, "on": "star"}
        for op, t in (("allgather", 9.0), ("gather", 2.0), ("bcast", 1.0))
        for n in (8, 32, 128)
    ]
    found = Study(pd.DataFrame(rows), {"machines": STAR}).guideline("allgather <= gather + bcast(n p)")
    (one,) = found
    assert [(place.n, c.right_s) for place, c in one.places] == [(8.0, 48.0), (32.0, 192.0)]
    assert one.word == "violated"
    assert one.missing == ["bcast was not measured at ranks=4, n=512"]


def test_phases_are_operations_too_and_other_columns_are_places() -> None:
    rows = [
        {"phase": name, "metric": "phase_s", "value": value * (1 + k), "ranks": 4, "variant": v, "on": "star"}
        for name, value in (("merge", 3.0), ("sort", 2.0))
        for k, v in enumerate("ab")
    ]
    found = Study(pd.DataFrame(rows), {"machines": STAR}).guideline("merge <= sort")
    assert [(place.others, c.word) for place, c in found.outcomes[0].places] == [
        ("variant=a", "violated"), ("variant=b", "violated"),
    ]  # fmt: skip


def test_invalid_measurements_and_unknown_names_decide_nothing() -> None:
    doubted = study(LOG | {"allreduce": lambda p: 9.0 * p}, is_valid=False)
    (one,) = doubted.guideline("allreduce <= reduce + bcast")
    assert one.word == "undecided"
    assert "not valid for a verdict" in one.sentence()
    with raises_code(DataError, "malformed-expression", "scan"):
        study(LOG).guideline("scan <= reduce")


# -- on machines ------------------------------------------------------------------------------------------


def test_the_catalogue_on_the_star_finds_what_a_slow_algorithm_does() -> None:
    quick = lk.guidelines("star", [8, 16], [8, 1024])
    assert not quick.of("violated")
    assert not quick.of("undecided")
    slow = lk.guidelines("star", 16, 8, "pattern", coll={"allreduce": "ring"})
    names = [str(one.statement) for one in slow.of("violated")]
    assert names[0] == "allreduce <= reduce + bcast"
    assert all(name.startswith("allreduce <= ") for name in names)
    assert "; allreduce took ring" in slow.of("violated")[0].todo()
    assert slow.of("violated")[0].places[0][1].p_violated is None  # exact: nothing to test


def test_monotony_finds_a_switch_at_the_wrong_size() -> None:
    """Broadcasts below 1 KiB by a linear algorithm: longer messages take less time."""
    rules = [
        {"operation": "bcast", "bytes_below": 1024, "use": "linear"},
        {"operation": "bcast", "use": "binomial"},
    ]
    found = lk.guidelines("star", 64, [512, 2048], "bcast <= bcast(2n)", coll=Rules(rules))
    (one,) = found
    assert [(place.n, c.word) for place, c in one.places] == [(512.0, "violated"), (2048.0, "held")]
    assert "pad the message" in one.todo()
    assert "bcast took linear" in one.todo()


def test_planted_noise_is_tested_and_one_seed_is_not_enough() -> None:
    how = {"coll": {"allreduce": "ring"}, "noise": "jitter=5us,period=100us"}
    found = lk.guidelines("star", 16, 8, "allreduce <= reduce + bcast", **how)
    (one,) = found
    assert one.word == "violated"
    assert one.worst[1].factor == pytest.approx(3.7, rel=0.15)  # as without noise
    assert one.places[0][1].p_violated < 1e-4
    assert "20 seeds, rank tests at 5% after Holm's correction" in str(found)
    few = lk.guidelines("star", 16, 8, "allreduce <= reduce + bcast", launches=2, **how)
    assert few.word == "undecided"
    assert few


def test_own_statements_run_and_unknown_operations_are_named() -> None:
    assert lk.guidelines("star", 8, 64, "bcast <= 2 scatter(n/p) + allgather(n/p)").word == "held"
    with raises_code(DataError, "unknown-name", "'sort'"):
        lk.guidelines("star", 8, 64, "sort <= bcast")
    with raises_code(DataError, "out-of-range", "ranks", "1"):
        lk.guidelines("star", [0], 64)
    with raises_code(DataError, "out-of-range", "2"):
        lk.litmus("star", [1])
    (note,) = lk.guidelines("star", 8, 8, "bcast").notes
    assert note == "left out, as p and 2 p are not both among the ranks: 1 on monotony in the ranks"


# -- the litmus test --------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13])
def test_the_own_broadcast_is_one(ranks: int) -> None:
    def program(comm: Any) -> Any:
        data = np.full(3, comm.rank + 7.0)
        own_broadcast(comm, data)
        return data.tolist()

    run = lk.run(program, ranks, "star")
    assert run.results == [[7.0] * 3] * ranks
    assert run.messages == ranks - 1


def halves(trunk: str) -> Any:
    """Two switches with 16 hosts each, and a trunk between them."""
    edges: list[Any] = [(f"host {k}", f"switch {k // 16}") for k in range(32)]
    hosts = [f"host {k}" for k in range(32)]
    return lk.graph([*edges, ("switch 0", "switch 1", {"lat": trunk})], hosts=hosts)


def test_nothing_is_to_blame_on_a_good_machine() -> None:
    for machine in ("star", "torus:4x4x4", halves("1us")):
        found = lk.litmus(machine, [2, 4, 8, 16, 32])
        assert found
        assert found.slow_pairs == []


def test_a_linear_algorithm_is_the_library_s_fault() -> None:
    found = lk.litmus("star", [4, 8, 16, 32, 64, 128], coll={"bcast": "linear"})
    assert found.word == "library"
    assert found.library.match == "none"
    assert found.own.match == "exact"
    assert "the library's broadcast grows faster than log p: like p" in found.reasons


def test_a_broken_trunk_is_the_machine_s_fault_and_is_named() -> None:
    found = lk.litmus(halves("5ms"), [2, 4, 8, 16, 32])
    assert found.word == "machine"
    assert [(a, b) for a, b, _ in found.slow_pairs] == [(0, 16)]
    assert any("a message from rank 0 to rank 16 takes" in one for one in found.reasons)
    both = lk.litmus(halves("1ms"), [2, 4, 8, 16, 32], coll={"bcast": "ring"})
    assert both.word in ("machine", "both")


def test_a_degraded_link_is_the_machine_s_fault() -> None:
    noise = lk.Noise(links=3, latency=1000.0, bandwidth=0.01, seed=4)
    found = lk.litmus("star:32", [4, 8, 16, 32], noise=noise)
    assert found.word == "machine"
    assert found.slow_pairs


# -- the command ------------------------------------------------------------------------------------------


def test_the_command_says_the_same(capsys: Any, tmp_path: Any) -> None:
    words = ["guidelines", "--ranks", "16", "--sizes", "8", "--only", "allreduce <= reduce + bcast"]
    assert main(words) == 0
    assert main([*words, "--coll", "allreduce=ring", "--json"]) == 1
    found = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert found["word"] == "violated"
    assert found["guidelines"][0]["places"][0]["factor"] > 2
    assert main([*words, "--noise", "jitter=5us,period=100us", "--launches", "1"]) == 2
    assert main(["guidelines", "--litmus", "--coll", "bcast=linear", "--ranks", "64,128"]) == 1
    assert main(["guidelines", "--litmus", "--ranks", "4,8,16,32,64"]) == 0
    assert main(["guidelines", "--list", "--only", "split"]) == 0
    file = study(LOG | {"allreduce": lambda p: 9.0 * p}).save(tmp_path / "s.study")
    assert main(["guidelines", "--data", str(file), "--only", "allreduce <= reduce + bcast"]) == 1
    assert main(["guidelines", "--data", str(file)]) == 3
    assert main(["guidelines", "--ranks", "two"]) == 3
