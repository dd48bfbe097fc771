"""The whole run from its phases: leading terms of sums, shares and takeovers by closed formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

from labkit.scaling import Term
from labkit.study import Comparison, Study
from labkit.study.declared.declaration import Expected
from labkit.study.declared.judged import judge_all, paper_table, table_text
from labkit.study.phase_sum import PhaseSum

RANKS = [16, 32, 64, 128, 256, 512]


def study(outside: Callable[[float], float] = lambda p: 0.0, **phases: Callable[[float], float]) -> Study:
    rows = []
    for p in RANKS:
        times = {name: time(p) for name, time in phases.items()}
        rows += [{"ranks": p, "metric": "phase_s", "phase": n, "value": v} for n, v in times.items()]
        rows.append({"ranks": p, "metric": "makespan_s", "value": sum(times.values()) + outside(p)})
    return Study(pd.DataFrame(rows).fillna({"phase": ""}))


def small_quadratic(share: float) -> Study:
    """A quadratic phase that takes a share of the time at the end; the whole run looks linear."""
    end = RANKS[-1]
    return study(
        sort=lambda p: 1.0,
        exchange=lambda p: p / end,
        splitters=lambda p: share / (1 - share) * 2 * (p / end) ** 2,
    )


@pytest.mark.parametrize(
    ("phases", "term", "leading"),
    [
        ({"a": lambda p: 3.0, "b": lambda p: 1e-3 * p}, Term(0, 1), "b"),
        ({"a": lambda p: 1e-5 * p**2 * math.log2(p), "b": lambda p: 1e-1 * p}, Term(0, 2, 1), "a"),
        ({"a": lambda p: math.log2(p), "b": lambda p: 5 * math.log2(p)}, Term(0, 0, 1), "b"),
        ({"a": lambda p: 2.0, "b": lambda p: 7.0}, Term(), "b"),
    ],
)
def test_growth_is_the_leading_term_of_the_sum(phases, term, leading):
    found = study(**phases).table().phase_sum
    assert (found.term, found.leading, found.agrees) == (term, leading, True)
    for p in (16, 512, 4096):
        assert found.predict(p) == pytest.approx(sum(time(p) for time in phases.values()), rel=1e-6)


def test_a_phase_that_is_still_small_counts_by_its_growth_and_the_disagreement_is_said():
    models = small_quadratic(0.01).table().models
    linear = study(sort=lambda p: 1.0, exchange=lambda p: p / RANKS[-1]).table().models["whole run"]
    found = PhaseSum.of({name: models[name] for name in ("sort", "exchange", "splitters")}, linear)
    assert (found.term, found.leading, found.agrees) == (Term(0, 2), "splitters", False)
    assert found.share("splitters", 512) == pytest.approx(0.01, rel=1e-6)
    # (.02/.99) x^2 = 1 + x in units of 512 ranks: half of the sum
    a = 0.02 / 0.99
    x = (1 + math.sqrt(1 + 4 * a)) / (2 * a)
    assert found.takes_over_at == pytest.approx(512 * x, rel=0.05)
    assert "takes 1 % of the sum at p = 512, and half of it or more from about p = 26,000 on" in found.reading


def test_a_run_that_grows_faster_than_its_phases_points_outside_them():
    table = study(outside=lambda p: 1e-3 * p**2, sort=lambda p: 1.0, exchange=lambda p: 1e-2 * p).table(
        total="p"
    )
    found = table.phase_sum
    assert found.agrees is False
    assert (found.term, found.total.term) == (Term(0, 1), Term(0, 2))
    assert "look at the time outside phases" in found.reading
    assert f"add up to {100 * found.covered(512):.0f} % of the run at p = 512" in found.reading
    assert found.covered(512) == pytest.approx(6.12 / (6.12 + 262.144), rel=1e-3)
    assert found.reading in str(table)
    assert "look at the time outside phases" in table._repr_html_()


def test_one_phase_has_no_sum():
    table = study(only=lambda p: 1.0 * p).table()
    assert table.phase_sum is None
    assert "sum of phases" not in str(table)


@pytest.mark.parametrize(("share", "is_there"), [(0.05, True), (0.2, False)])
def test_phases_without_a_model_are_named_and_hide_no_growth(share, is_there):
    models = study(big=lambda p: (1 - share) * p, odd=lambda p: share * p).table().models
    models["odd"] = replace(models["odd"], is_nearest=True)
    found = PhaseSum.of(models, models.pop("whole run"))
    assert (found is not None) == is_there
    assert found is None or "No model shows how the phase 'odd' grows" in found.reading


def test_a_whole_run_without_a_model_grows_as_its_phases():
    models = study(a=lambda p: 1.0, b=lambda p: 1.0 * p).table().models
    total = replace(models.pop("whole run"), is_nearest=True)
    found = PhaseSum.of(models, total)
    assert (found.term, found.total, found.agrees) == (Term(0, 1), None, None)
    assert "no model shows how the whole run grows" in found.reading


def test_a_phase_whose_last_value_stands_alone_has_no_growth_to_add():
    def steps(p):
        return 5.0 + 5.0 * (p == 512)

    table = study(small=lambda p: 1e-3 * math.log2(p), exchange=steps).table(total="log p")
    assert table.phase_sum is None
    assert table.verdicts["whole run"].match == "undecided"
    found = study(big=lambda p: 100.0 * p, exchange=steps).table().phase_sum
    assert (found.term, found.unmodeled) == (Term(0, 1), ("exchange",))


def test_the_sum_is_judged_as_the_whole_run_is():
    s = study(sort=lambda p: 1.0, exchange=lambda p: 1e-2 * p)
    for expectation, match in (("p", "exact"), ("p^2", "bound"), ("sqrt(p)", "approximate"), ("1", "none")):
        table = s.table(total=expectation)
        assert table.phase_sum.match(table.verdicts["whole run"]) == match
        row = next(line for line in str(table).splitlines() if line.startswith("sum of phases"))
        assert match in row
        assert str(Comparison({"x": {"m": table}})).count("sum of phases") == 1
        assert "sum of phases" in Comparison({"x": {"m": table}})._repr_html_()


def test_declared_studies_show_the_sum_above_the_whole_run():
    s = study(sort=lambda p: 1.0, exchange=lambda p: 1e-2 * p, outside=lambda p: 1e-3 * p**2)
    judged = judge_all(s, [Expected("p")])
    rows = paper_table(judged)
    assert [(row["metric"], row["model"]) for row in rows] == [("sum of phases", "p"), ("makespan_s", "p^2")]
    assert rows[0]["match"] == "exact"
    assert "look at the time outside phases" in table_text(judged)
    assert judged[0].phase_sum.agrees is False


def test_expect_compares_the_run_with_its_phases() -> None:
    one = study(a=lambda p: 10 + 0 * p, b=lambda p: 1e-3 * p**2)
    told = one.expect("p^2")
    assert any("add up to O(p^2)" in note for note in told.notes)
    assert not one.expect("p^2", phase="b").notes


def test_curves_that_are_too_short_are_told_of_once() -> None:
    rows = [
        {"ranks": p, "n": n, "metric": "makespan_s", "phase": "", "value": 1.0 * p * n}
        for p in (2, 4)
        for n in (1, 2, 3)
    ]
    (only,) = judge_all(Study(pd.DataFrame(rows)), [])
    assert only.model is None
    assert "at least 5 values of ranks" in only.error
