"""The twelve rules and the paragraph on methods: true for every study, and nothing made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.cli.main import main
from labkit.study import Study
from labkit.study.reporting.rules import RULES
from labkit.timing import Conduct, Repeats

MPI = {"mpi": {"kind": "mpi", "library": "Open MPI v5.0.8", "host": "node1", "cores": 8, "python": "3.12.1"}}
SWEEP = {"labkit": "0.1.0", "order": "shuffled", "warmup": 1}


def rows(values: dict[int, Any], **more: Any) -> pd.DataFrame:
    """A table: by number of ranks the repetitions of its makespan."""
    table = [
        {"program": "sort", "on": "mpi", "ranks": p, "repetition": k, "metric": "makespan_s", "value": v}
        | more
        for p, found in values.items()
        for k, v in enumerate(found)
    ]
    return pd.DataFrame(table)


def conduct(**how: Any) -> dict[str, Any]:
    asked = Repeats().to_dict()
    return (
        vars(Conduct(repeats=10, late=2, warmup=1, asked=asked, value_s=1.0, low_s=0.97, high_s=1.02)) | how
    )


def measured(seed: int = 0, spread: float = 0.01, **how: Any) -> Study:
    rng = np.random.default_rng(seed)
    data = rows({p: rng.normal(p, spread * p, 10) for p in (2, 4, 8)})
    return Study(data, {"machines": MPI, "sweep": SWEEP, "conduct": [conduct(**how) for _ in range(3)]})


def program(comm: Any, n: int = 1) -> None:
    comm.bcast(bytes(n))


def test_a_careful_real_study_meets_the_rules_that_it_can() -> None:
    report = measured().rules()
    assert [one.number for one in report] == list(range(1, 13))
    assert report.of("violated") == []
    assert report.of("unknown") == [9, 11]  # the processor, and a bound: only people know them
    assert all(one.todo for one in report if one.status != "met")
    study = measured()
    study.notes |= {"hardware": "EPYC", "bounds": "bandwidth"}
    assert study.rules().of("met") == list(range(1, 13))


def test_the_paragraph_says_what_was_done() -> None:
    text = measured().methods()
    assert "We measured sort at ranks = 2, 4 and 8." in text
    assert (
        "Real MPI ran on host node1 with 8 cores, with Open MPI v5.0.8, Python 3.12.1, labkit 0.1.0." in text
    )
    assert "more than 20 µs and more than 1% of the time were discarded (6 of 36)." in text
    assert "1 warm-up run of each point did not count." in text
    assert "within 5% of it, 10 times; every point reached this." in text
    assert "could not be distinguished from one clock" in text
    assert "random order, each in its own launch" in text


def test_the_paragraph_admits_what_was_not_reached() -> None:
    own = {"own_clocks": 3, "clock_bound_s": 2e-6, "clock_drift": 1.3e-5, "high_s": 1.2, "kept_late": 4}
    text = measured(**own).methods()
    assert "0 of 3 points reached this. The widest interval reaches 20.0% from its value." in text
    assert "Of the repetitions that count 12 began late all the same." in text
    assert "(up to 13 ppm), known to within 2 µs." in text
    assert "one clock" not in text
    barrier = measured(start="barrier", why_barrier="ranks share cores").methods()
    assert "Runs began behind a barrier, as ranks share cores." in barrier
    assert "window" not in barrier
    assert "clock" not in barrier


def test_a_simulated_study_is_deterministic_and_says_so() -> None:
    study = lk.sweep(program, [2, 4, 8], "star", n=[10, 1000], progress=False)
    assert study.rules().of("violated") == []
    assert study.rules()[5].why == "simulated times are deterministic, and the study records that"
    text = study.methods()
    assert "The machine star was simulated by labkit" in text
    assert "Simulated times are deterministic and do not depend on the seed, so every point was" in text
    assert "warm-up" not in text
    once = lk.sweep(program, [2, 4], "star", repeats=1, progress=False).methods()
    assert "deterministic for a given seed, and every point was simulated once" in once


def test_planted_noise_needs_intervals() -> None:
    noisy = {"noise": "jitter=50us,period=1ms"}
    study = lk.sweep(program, [2, 4], "star", options=noisy, progress=False)
    assert study.rules()[5].status == "violated"
    assert "fewer than 6 repetitions at ranks=2 and ranks=4" in study.rules()[5].why
    assert "Noise was planted on star: detours of 50 µs on average in every 1 ms." in study.methods()
    assert "deterministic" not in study.methods()
    more = lk.sweep(program, [2], "star", options=noisy, progress=False, repeats=lk.Repeats(most=9, least=9))
    assert more.rules()[5].status == "met"
    assert len(more.data[more.data["metric"] == "makespan_s"]) == 9


@pytest.mark.parametrize(
    ("change", "rule", "status", "words"),
    [
        (lambda d: d.assign(metric="speedup", unit=""), 1, "violated", "speedup without any absolute time"),
        (lambda d: pd.concat([d, d.assign(metric="efficiency", unit="")]), 1, "unknown", "absolute times"),
        (lambda d: d.assign(metric="speedup"), 4, "violated", "would be averaged"),
        (lambda d: d[(d["ranks"] > 2) | (d["n"] > 1)], 2, "unknown", "5 of 6 combinations"),
        (lambda d: d.assign(metric="sent_bytes_per_s", unit="B/s"), 3, "violated", "is a rate"),
        (lambda d: d[d["repetition"] < 3], 5, "violated", "fewer than 6 repetitions"),
        (lambda d: d.assign(value=d["value"] + 50 * (d["repetition"] > 8)), 6, "met", "not normal at 6"),
        (lambda d: d[d["repetition"] < 3].assign(variant=["a", "b"] * 9), 7, "violated", "comparison"),
        (lambda d: d.assign(value=np.where(d["repetition"] > 7, 9.0 * d["value"], d["value"])), 8, "unknown",
         "90th percentile is"),
        (lambda d: d.assign(on="elsewhere"), 9, "violated", "not recorded: the machine"),
        (lambda d: d[d["repetition"] == 0], 12, "unknown", "one value for each point"),
    ],
)  # fmt: skip
def test_each_rule_sees_its_fault(change: Any, rule: int, status: str, words: str) -> None:
    rng = np.random.default_rng(2)
    tables = [rows({p: rng.normal(p, 0.01, 10) for p in (2, 4, 8)}, n=n, unit="s") for n in (1, 2)]
    whole = pd.concat(tables)
    notes = {"machines": MPI, "sweep": SWEEP, "conduct": [conduct()]}
    before, after = Study(whole, notes).rules()[rule], Study(change(whole), notes).rules()[rule]
    assert (after.status, words in after.why) == (status, True), after
    assert (before.status, before.why) != (after.status, after.why)
    assert after.todo


def test_failures_and_the_mean_of_what_is_not_normal_are_violations() -> None:
    study = measured()
    study.notes["failures"] = [{"point": "ranks=16", "error": "no memory", "kind": "RankError"}]
    assert study.rules()[2].why == "points failed and are missing: ranks=16"
    assert "1 point failed and was left out." in study.methods()
    skewed = rows({2: np.random.default_rng(0).lognormal(0, 2, 40)})
    asked = Repeats(statistic="mean").to_dict()
    notes = {"machines": MPI, "sweep": SWEEP, "conduct": [conduct(asked=asked)]}
    assert Study(skewed, notes).rules()[6].status == "violated"


def test_a_bare_file_is_unknown_rather_than_praised(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "times.csv"
    file.write_text("p,time\n2,1.0\n4,2.0\n8,4.0\n")
    assert main(["lint", str(file), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    status = {one["number"]: one["status"] for one in found["rules"]}
    assert status[5] == status[6] == status[8] == status[10] == status[11] == status[12] == "unknown"
    assert status[9] == "violated"
    assert "doi:10.1145/2807591.2807644" in found["source"]
    assert main(["lint", str(file), "--methods"]) == 0
    text = capsys.readouterr().out
    assert "The machine is not described in the study." in text
    assert "How the ranks were synchronized is not recorded." in text
    assert main(["lint", str(tmp_path / "none.csv")]) == 3


def test_it_is_the_same_after_saving(tmp_path: Path) -> None:
    study = measured(own_clocks=1)
    again = lk.load(study.save(tmp_path / "s.study"))
    assert again.methods() == study.methods()
    assert again.rules().to_dict() == study.rules().to_dict()
    assert "<table" in again.rules()._repr_html_()
    assert len(again.rules().frame) == len(RULES) == 12


texts = st.text(max_size=8)
cells = st.one_of(st.none(), st.booleans(), st.integers(-3, 99), st.floats(allow_nan=True), texts)
notes = st.dictionaries(
    st.sampled_from(["machines", "sweep", "conduct", "failures", "remarks", "hardware", "bounds"]),
    st.recursive(
        cells,
        lambda inner: st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["mpi", "kind", "platform", "hosts", "noise", "jitter_s", "cores", "late"]),
            inner, max_size=4,
        )
        | st.fixed_dictionaries(dict.fromkeys(vars(Conduct()), inner)),
        max_leaves=30,
    ),
    max_size=5,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    notes=notes,
    values=st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=12),
    metric=st.sampled_from(["makespan_s", "speedup", "x", "rate_bytes_per_s"]),
    on=st.sampled_from(["", "mpi", "star"]),
)
def test_any_notes_give_sentences_and_no_traceback(notes: Any, values: Any, metric: str, on: str) -> None:
    data = pd.DataFrame({"p": range(len(values)), "value": values, "metric": metric, "on": on})
    study = Study(data, notes)
    assert study.methods().endswith(".")
    assert len(study.rules()) == 12
    assert {one.status for one in study.rules()} <= {"met", "violated", "unknown"}


def test_a_speedup_without_a_unit_is_no_time() -> None:
    table = {
        "program": "sort",
        "on": "ours",
        "ranks": [2, 4],
        "metric": "speedup",
        "value": [2.0, 3],
        "unit": "",
    }
    report = Study(pd.DataFrame(table)).rules()
    assert report[1].status == "violated"
    assert "without any absolute time" in report[1].why
