"""Sweeps with a stand-in for the machine, selections, verdicts of studies, and what survives failures."""

from __future__ import annotations

import functools
import math
import os
import random
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit.datasets import inputs
from labkit.errors import DataError, ExpectationError, MachineError, RankError
from labkit.study import Study, parameter_columns, sweep
from tests.support.refusals import raises_code

RANKS = [4, 8, 16, 32, 64]


@dataclass
class FakeRun:
    """The shape of a Run."""

    program: str
    ranks: int
    on: str
    makespan_s: float
    phases: pd.DataFrame
    model: str | None = "lab"
    messages: int | None = 3
    bytes: int | None = None
    is_valid: bool = True
    machine: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    repetitions: list[FakeRun] = field(default_factory=list)


def program(comm: object, n: int = 1, kind: str = "u") -> None:
    """Stand in for a program."""


def phases(*rows: tuple[int, str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=["rank", "phase", "begin_s", "end_s"])


class Machine:
    """Runs nothing: local work n log n / p, an exchange of p, and times that may depend on the seed."""

    def __init__(self, noise: float = 0.0, fails_at: int | None = None, stops_at: int | None = None) -> None:
        self.noise, self.fails_at, self.stops_at = noise, fails_at, stops_at
        self.calls: list[dict[str, Any]] = []

    def __call__(
        self, program: Any, ranks: int, *, on: Any, seed: int, repeats: int = 1, **how: Any
    ) -> FakeRun:
        self.calls.append({"ranks": ranks, "on": on, "seed": seed, "repeats": repeats, **how})
        if ranks == self.fails_at:
            raise RankError(3, "Traceback ...\nValueError: bad splitter")
        if ranks == self.stops_at:
            raise KeyboardInterrupt
        n = how["kwargs"].get("n", 1000)
        runs = [self.one(ranks, n, str(on), seed + 1000 * k) for k in range(repeats)]
        if repeats > 1:
            runs[0].repetitions = list(runs)
        return runs[0]

    def one(self, p: int, n: int, on: str, seed: int) -> FakeRun:
        factor = math.exp(self.noise * np.random.default_rng([seed, p]).standard_normal())
        local, exchange = 1e-6 * n / p * math.log2(n / p) * factor, 1e-4 * p * factor
        table = phases(
            (0, "exchange", local, local + exchange / 2),
            (0, "sort", 0.0, local),
            (1, "sort", 0.0, local / 4),
            (1, "sort", local / 4, local / 2),
            (1, "exchange", local, local + exchange),
        )
        return FakeRun("program", p, on, local + exchange, table)


def test_a_sweep_runs_every_combination_and_keeps_rows() -> None:
    machine = Machine()
    study = sweep(program, [4, 8], n=[1024, 4096], kind="uniform", runner=machine)
    assert [(c["ranks"], c["kwargs"]["n"]) for c in machine.calls if c["seed"] == 0] == [
        (4, 1024), (4, 4096), (8, 1024), (8, 4096),
    ]  # fmt: skip
    assert study.parameters == ["ranks", "n", "kind"]
    assert list(study.data.columns) == [
        "program", "on", "model", "ranks", "n", "kind", "repetition", "metric", "phase", "value", "unit",
        "is_valid",
    ]  # fmt: skip
    assert study.metrics == ["makespan_s", "phase_s", "messages"]
    assert study.phases == ["sort", "exchange"]  # in the order they begin, not of the rows
    assert set(study.data["unit"]) == {"s", ""}
    assert "4096" in repr(study)


def test_a_phase_counts_the_longest_rank_with_its_entries_summed() -> None:
    study = sweep(program, 4, n=1024, runner=Machine())
    local = 1e-6 * 256 * 8
    got = study.data[study.data["phase"] == "sort"]["value"]
    assert got.tolist() == pytest.approx([local])
    assert study.data[study.data["phase"] == "exchange"]["value"].tolist() == pytest.approx([4e-4])


def test_simulated_points_run_once_when_the_seed_changes_nothing() -> None:
    still, noisy = Machine(), Machine(noise=0.1)
    assert set(sweep(program, RANKS, runner=still).data["repetition"]) == {0}
    assert len(still.calls) == 2 * len(RANKS)  # one more at each point to see that it is so
    assert set(sweep(program, RANKS, repeats=4, runner=noisy).data["repetition"]) == {0, 1, 2, 3}
    assert len(noisy.calls) == 4 * len(RANKS)


def test_points_whose_two_seeds_agree_by_chance_run_with_all_seeds_where_others_do_not() -> None:
    class OnlyTogether(Machine):
        def one(self, p: int, n: int, on: str, seed: int) -> FakeRun:
            return super().one(p, n, on, seed if p > 1 else 0)

    study = sweep(program, [1, 2, 4], repeats=3, runner=OnlyTogether(noise=0.1))
    assert study.data.groupby("ranks")["repetition"].max().tolist() == [2, 2, 2]
    assert study.notes["sweep"]["is_deterministic"] is False


def test_real_points_repeat_in_one_launch_and_drop_the_warm_up() -> None:
    machine = Machine(noise=0.1)
    study = sweep(program, RANKS, on="mpi", repeats=5, warmup=2, runner=machine)
    assert [c["repeats"] for c in machine.calls] == [7] * len(RANKS)
    assert [c["ranks"] for c in machine.calls] != RANKS, "real points are shuffled"
    assert study.data["ranks"].is_monotonic_increasing, "the rows are not"
    assert set(study.data["repetition"]) == set(range(5))
    kept = study.data[(study.data["ranks"] == 4) & (study.data["metric"] == "makespan_s")]["value"]
    assert kept.tolist() == [machine.one(4, 1000, "mpi", 1000 * k).makespan_s for k in range(2, 7)]


def test_a_machine_may_follow_the_ranks_or_vary() -> None:
    machine = Machine()
    sweep(program, [4, 8], on=lambda p: f"star:{2 * p}", repeats=1, runner=machine)
    assert [c["on"] for c in machine.calls] == ["star:8", "star:16"]
    study = sweep(program, [4, 8], on=["star", "mpi"], model=["lab"], repeats=2, runner=Machine())
    assert set(study.data["on"]) == {"star", "mpi"}


def test_a_failed_point_does_not_lose_the_others() -> None:
    with pytest.warns(UserWarning, match="ranks=16 failed: rank 3 failed: ValueError: bad splitter"):
        study = sweep(program, RANKS, runner=Machine(fails_at=16))
    assert set(study.data["ranks"]) == {4, 8, 32, 64}
    assert study.failures == [
        {"point": "ranks=16", "error": "rank 3 failed: ValueError: bad splitter", "kind": "RankError"}
    ]
    assert "failed at ranks=16" in repr(study)
    assert "failed at ranks=16" in study._repr_html_()


def test_an_interrupt_keeps_what_was_measured() -> None:
    study = sweep(program, RANKS, runner=Machine(stops_at=32))
    assert set(study.data["ranks"]) == {4, 8, 16}
    assert "interrupted by the user at ranks=32" in repr(study)
    with pytest.raises(KeyboardInterrupt):
        sweep(program, RANKS, runner=Machine(stops_at=4))


def test_when_all_fail_the_first_error_is_raised() -> None:
    with raises_code(RankError, "rank-failed"):
        sweep(program, [4], runner=Machine(fails_at=4))


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({"ranks": []}, ("not-enough-data",)),
        ({"ranks": [0, 1]}, ("out-of-range", "1", "0")),
        ({"ranks": [2.5]}, ("out-of-range",)),
        ({"ranks": 4, "n": []}, ("not-enough-data",)),
        ({"ranks": 4, "value": 3}, ("name-taken", "'value'")),
    ],
)
def test_bad_plans_are_refused_before_anything_runs(how: dict[str, Any], wanted: tuple[str, ...]) -> None:
    machine = Machine()
    with raises_code(DataError, *wanted):
        sweep(program, runner=machine, **how)
    assert not machine.calls


def test_own_metrics_with_their_units() -> None:
    study = sweep(program, [4], measure=lambda run: {"sent_bytes": 8.0 * run.ranks}, runner=Machine())
    row = study.data[study.data["metric"] == "sent_bytes"].iloc[0]
    assert (row["value"], row["unit"]) == (32.0, "B")


def test_progress_is_shown_on_request(capsys: pytest.CaptureFixture[str]) -> None:
    sweep(program, RANKS, progress=True, runner=Machine())
    assert "5/5" in capsys.readouterr().err
    sweep(program, RANKS, progress=False, runner=Machine())
    assert capsys.readouterr().err == ""


def test_a_notebooks_bar_is_text_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    ipython = pytest.importorskip("IPython")
    shown: list[dict[str, str]] = []

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown.append(data)

    def display(data: dict[str, str], **how: Any) -> Handle:
        shown.append(data)
        return Handle()

    monkeypatch.setattr(ipython, "get_ipython", lambda: SimpleNamespace(kernel=None))
    monkeypatch.setattr("IPython.display.display", display)
    sweep(program, RANKS, runner=Machine())
    assert "0/5" in shown[0]["text/plain"]
    assert shown[-1] == {"text/plain": ""}
    assert all(one.keys() == {"text/plain"} for one in shown)


# ------------------------------------------------------------------------------- verdicts of studies


def test_expect_takes_the_other_parameters_from_the_rows() -> None:
    study = sweep(program, RANKS, n=1_000_000, runner=Machine())
    verdict = study.expect("n/p * log2(n/p)", phase="sort")
    assert verdict.match == "exact"
    assert verdict.unit == "s"
    assert verdict.phase == "sort"
    assert "n = 1000000" in verdict.notes
    assert study.expect("p", phase="exchange").match == "exact"
    assert study.expect("1", metric="messages").match == "exact"


def test_weak_scaling_is_seen_in_the_rows() -> None:
    rows = [
        {"ranks": p, "n": 1000 * p, "metric": "makespan_s", "value": 3 + p * math.log2(1000 * p) ** 2}
        for p in RANKS
    ]
    verdict = Study(pd.DataFrame(rows)).expect("n/p log(n/p) + p log^2 n")
    assert verdict.match == "exact"
    assert str(verdict.model and verdict.model.term) == "p log^2 p"


@pytest.mark.parametrize("columns", [[], ["ranks", "metric", "value", "unit"]])
def test_a_table_without_rows_is_no_study(columns: list[str]) -> None:
    with raises_code(DataError, "no-data"):
        Study(pd.DataFrame(columns=columns))


def test_a_choice_that_leaves_several_curves_is_refused() -> None:
    study = sweep(program, RANKS, n=[1000, 2000], runner=Machine())
    with raises_code(DataError, "ambiguous", "where=", "'n'"):
        study.expect("p")
    assert study.expect("p", phase="exchange", where={"n": 1000}).match == "exact"
    with raises_code(DataError, "ambiguous"):
        study.curve("phase_s", where={"n": 1000})
    with raises_code(DataError, "unknown-name", "'merge'"):
        study.curve(phase="merge", where={"n": 1000})
    with raises_code(DataError, "unknown-name", "'energy'"):
        study.curve("energy")
    with raises_code(DataError, "unknown-name", "3"):
        study.curve(where={"n": 3})
    with raises_code(DataError, "unknown-name", "'m'"):
        study.curve(where={"m": 3})
    both = sweep(program, RANKS, on=["star", "torus:4x4x4"], runner=Machine())
    with raises_code(DataError, "ambiguous"):
        both.curve()


def test_invalid_times_give_no_verdict() -> None:
    study = sweep(program, RANKS, n=1000, runner=Machine())
    study.data["is_valid"] = False
    verdict = study.expect("p", phase="exchange")
    assert verdict.match == "undecided"
    assert "not valid" in str(verdict)
    assert "not valid" in repr(study)


def test_few_points_are_undecided() -> None:
    assert sweep(program, [4, 8], runner=Machine()).expect("p").match == "undecided"


def test_the_table_has_a_row_per_phase_and_one_for_the_run() -> None:
    study = sweep(program, RANKS, n=1_000_000, runner=Machine())
    table = study.table({"sort": "n/p * log2(n/p)", "exchange": "log p"}, total="p")
    frame = table.frame
    assert frame["phase"].tolist() == ["sort", "exchange", "whole run"]
    assert frame["match"].tolist()[:2] == ["exact", "none"]
    assert frame["divergence"].tolist()[:2] == ["1", "p/log p"]
    assert set(table.verdicts) == {"sort", "exchange", "whole run"}
    assert "exchange" in str(table)
    assert "<table" in table._repr_html_()
    assert study.table().frame["match"].tolist() == ["", "", ""]
    with raises_code(ExpectationError, "unknown-name", "'merge'"):
        study.table({"merge": "p"})


def test_studies_are_public() -> None:
    assert lk.Study is Study
    assert lk.sweep is sweep


def test_rows_need_a_metric_and_a_value() -> None:
    with raises_code(DataError, "missing-key"):
        Study(pd.DataFrame({"metric": ["a"]}))
    data = Study(pd.DataFrame({"q": [1.0], "metric": ["t_s"], "value": [2.0], "ranks": [3]})).data
    assert parameter_columns(data) == ["ranks", "q"]
    assert data["unit"].tolist() == ["s"]


def test_a_point_of_zero_seconds_is_left_out_with_a_reason():
    study = lk.sweep(lambda comm: comm.allreduce(comm.rank), ranks=[1, 2, 4, 8, 16, 32, 64], progress=False)
    verdict = study.expect("log p")
    assert "makespan_s is 0 at p = 1, which is left out" in str(verdict)
    assert verdict.samples.x.min() == 2
    assert study.curve("messages").samples.x.min() == 2
    nothing = lk.sweep(lambda comm: None, ranks=[1, 2, 4], progress=False)
    assert nothing.expect("1").match == "undecided"  # any bound would hold
    with raises_code(DataError, "no-data", "makespan_s", "0"):
        nothing.fit()


def computing(comm, n=40):
    for _ in range(n // comm.size):
        np.sort(np.random.default_rng(comm.rank).random(100_000))
    comm.Barrier()


def test_measured_computation_of_a_sweep_grows_with_the_work():
    study = lk.sweep(computing, ranks=[1, 4], compute="measured", repeats=1, progress=False)
    one, four = study.data.query("metric == 'makespan_s'").groupby("ranks")["value"].min()
    assert one > 2 * four
    assert not any("computation was free" in remark for remark in study.notes["remarks"])
    with raises_code(MachineError, "conflicting-options", "compute"):
        lk.sweep(computing, ranks=[1], on="mpi", compute="measured")
    with raises_code(MachineError, "unknown-name", "compute='mesured'"):
        lk.sweep(computing, ranks=[1], compute="mesured")


def summing(comm):
    lk.compute(seconds=1e-3)
    comm.allreduce(1.0)


def test_noise_is_a_keyword_of_sweeps_as_of_runs():
    text = "jitter=50us,period=1ms"
    study = lk.sweep(summing, [2, 4], noise=text, repeats=3, seed=5, progress=False)
    times = study.data.query("metric == 'makespan_s' and ranks == 4")["value"].tolist()
    assert times == [lk.run(summing, 4, noise=text, seed=seed).makespan_s for seed in (5, 6, 7)]
    assert "noise" not in study.parameters


def test_a_list_of_noise_is_one_more_dimension():
    study = lk.sweep(summing, [2, 4], noise=["none", "jitter=50us", lk.Noise(stragglers=1)], progress=False)
    assert study.data["noise"].unique().tolist() == ["none", "jitter=50us", "1 of hosts 2 times slower"]
    assert len(study.curves("makespan_s")) == 3
    quiet, jittery = (study.filter(noise=one, metric="makespan_s").data for one in ("none", "jitter=50us"))
    assert len(quiet) == 2, "the seeds change nothing where there is no noise"
    assert len(jittery) == 10, "and do where there is"


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"noise": "jitter=50"}, lk.errors.PlatformError, "has no unit"),
        ({"noise": 5}, lk.errors.PlatformError, "noise must be a labkit.Noise or a string"),
        ({"noise": []}, DataError, "at least one value"),
        ({"noise": "jitter=50us", "on": "mpi"}, MachineError, "noise belongs to simulated runs"),
        ({"noise": ["none"], "on": ["star", "mpi"]}, MachineError, "'mpi' has its own"),
        ({"noise": "none", "options": {"noise": "none"}}, DataError, "given twice"),
    ],
)
def test_noise_that_makes_no_sense_is_refused_before_anything_runs(how, error, words):
    with pytest.raises(error, match=words):
        lk.sweep(lambda comm: pytest.fail("it ran"), [2], progress=False, **how)


def drawing(comm, how, seed=7):
    """Send bytes: a number that is always the same, or drawn in one of the ways in which programs draw."""
    draws = {
        "nothing": lambda: 5000,
        "numpy": lambda: np.random.randint(9000),
        "fresh": lambda: int(np.random.default_rng().integers(9000)),
        "python": lambda: random.randrange(9000),
        "keys": lambda: int(inputs.keys("uniform", comm.rank, comm.size, 1, dtype="u2")[0]),
        "parameter": lambda: int(np.random.default_rng([seed, comm.rank]).integers(9000)),
        "unused": lambda: 5000 + 0 * np.random.randint(9000),
    }
    comm.sendrecv(bytes(draws[how]()), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


@pytest.mark.parametrize("how", ["numpy", "fresh", "python", "keys", "parameter"])
def test_each_way_to_draw_an_input_is_repeated_with_other_seeds(how):
    study = lk.sweep(drawing, [2, 4, 8], how=how, seed=3, progress=False)
    times = study.data.query("metric == 'makespan_s'")
    assert times.groupby("ranks")["value"].nunique().tolist() == [5, 5, 5]
    assert times.groupby("ranks")["seed"].unique().map(list).tolist() == [[3, 4, 5, 6, 7]] * 3
    named = {"seed": 7 + 5} if how == "parameter" else {}
    again = lk.run(drawing, 4, kwargs={"how": how, **named}, seed=5)
    assert again.makespan_s == times.query("ranks == 4 and seed == 5")["value"].item()
    assert again.seed == 5


@pytest.mark.parametrize(("how", "seeds"), [("nothing", [0, 1, 0]), ("unused", [0, 1, 0, 1])])
def test_what_does_not_depend_on_the_seed_runs_once(how, seeds):
    called = []

    def runner(*args, **options):
        called.append(options["seed"])
        return lk.run(*args, **options)

    study = lk.sweep(functools.partial(drawing, seed=None), [2, 4], how=how, runner=runner, progress=False)
    assert called == seeds, "the smallest point is tried in any case"
    assert set(study.data["repetition"]) == {0}
    assert study.notes["sweep"]["is_deterministic"] is True


def test_expensive_points_run_with_fewer_seeds_and_say_so():
    class Expensive(Machine):
        def one(self, p: int, n: int, on: str, seed: int) -> FakeRun:
            run = super().one(p, n, on, seed)
            run.messages = {4: 100, 8: 90_000, 16: 10**6}[p]
            return run

    study = sweep(program, [4, 8, 16], runner=Expensive(noise=0.1))
    assert study.data.groupby("ranks")["repetition"].max().tolist() == [4, 1, 0]
    assert "expensive points ran with fewer seeds (ranks=8: 2; ranks=16: 1)" in repr(study)
    every = sweep(program, [4, 8, 16], repeats=3, runner=Expensive(noise=0.1))
    assert every.data.groupby("ranks")["repetition"].max().tolist() == [2, 2, 2]
    assert "fewer" not in repr(every)


def by_chance(comm):
    comm.bcast(bytes(int.from_bytes(os.urandom(2), "big")), root=0)


def test_a_program_that_draws_from_the_operating_system_is_found_and_repeated():
    study = lk.sweep(by_chance, [1, 2, 4], repeats=3, progress=False)
    assert study.data.groupby("ranks")["repetition"].max().tolist() == [2, 2, 2]
    assert study.notes["sweep"]["is_deterministic"] is False
