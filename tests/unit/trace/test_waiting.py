"""Wait states, delay costs, profiles and trials: programs whose delays are known, and laws of sums."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import MPI
from labkit.errors import DataError
from labkit.trace.activity import STATES, activity
from labkit.trace.waiting import KINDS, Waiting
from labkit.trace.waiting.kinds import GIVEN, kind_number, pattern_of
from tests.support.planted import DIRECT, PLANTED, disturbance_s, program
from tests.support.random_calls import random_program
from tests.support.refusals import raises_code

NAMES = [*PLANTED]


def planted_run(names: list[str], ranks: int, delay_s: float, work_s: float = 20e-3) -> Any:
    how = {"names": names, "delay_s": delay_s, "work_s": work_s, "is_real": False}
    return lk.run(program, ranks, on=f"star:{ranks}", trace=True, kwargs=how, coll=DIRECT, timeout_s=None)


def check_planted(waiting: Waiting, name: str, ranks: int, delay_s: float, tolerance: float = 0.01) -> None:
    """The largest wait state of a pattern's phase is the planted one, of whom and for whom it was."""
    one = PLANTED[name]
    own = waiting.waits[waiting.waits["phase"].astype(str).str.split(" > ").str[0] == name]
    sums = own.groupby("state", observed=True)["seconds"].sum()
    assert not sums.empty, "no wait at all"
    assert sums.idxmax() == one.state
    meant = own[own["state"] == one.state]
    expected = delay_s * len(one.waiting(ranks))
    assert float(meant["seconds"].sum()) == pytest.approx(expected, rel=tolerance)
    of_rank = meant.groupby(["rank", "cause"])["seconds"].sum()  # polls may be several rows
    long = of_rank[of_rank > 0.5 * delay_s].index.tolist()
    assert long == [(rank, one.late(ranks)) for rank in sorted(one.waiting(ranks))]


@pytest.mark.parametrize("ranks", [4, 7])
def test_planted_delays_are_found_in_one_program(ranks: int) -> None:
    waiting = planted_run(NAMES, ranks, 5e-3).waits()
    for name in NAMES:
        check_planted(waiting, name, ranks, 5e-3)
        cause = waiting.causes("rank", "phase")
        cause = cause[cause["phase"] == f"{name} > late"]
        assert set(cause["rank"]) == {PLANTED[name].late(ranks)}


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [4, 32, 256])
@pytest.mark.parametrize("name", NAMES)
def test_a_planted_delay_is_the_cause_of_all_waiting(name: str, ranks: int) -> None:
    delay_s = {4: 5e-3, 32: 3e-3, 256: 10e-3}[ranks]  # far more than the messages before it take
    waiting = planted_run([name], ranks, delay_s).waits()
    check_planted(waiting, name, ranks, delay_s)
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (PLANTED[name].late(ranks), f"{name} > late")
    assert first["cost_s"] == pytest.approx(delay_s * len(PLANTED[name].waiting(ranks)), rel=0.01)


def test_without_a_delay_nothing_is_claimed() -> None:
    run = planted_run(NAMES, 5, 0.0)
    waiting = run.waits()
    for name in NAMES:
        own = waiting.waits[waiting.waits["phase"].astype(str).str.startswith(name)]
        assert own["seconds"].sum() < 0.01 * 5 * 20e-3
    assert "That is little" in waiting.reading()
    assert "goes back" not in waiting.reading()


@pytest.mark.parametrize("name", NAMES)
def test_a_program_without_a_delay_waits_below_a_hundredth(name: str) -> None:
    run = planted_run([name], 5, 0.0)
    waiting = run.waits()
    assert waiting.seconds < 0.01 * 5 * run.makespan_s
    assert "goes back" not in waiting.reading()


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_halving_the_blamed_phase_shortens_the_run_as_said(name: str) -> None:
    run = planted_run([name], 4, 8e-3)
    blamed = run.waits().causes("phase")["phase"].iloc[0]
    trial = run.what_if(str(blamed).rsplit(" > ", 1)[-1], 0.5)
    assert trial.predicted_s == pytest.approx(4e-3, rel=0.05)
    assert trial.won_s == pytest.approx(trial.predicted_s, rel=0.05)
    written = planted_run([name], 4, 4e-3)  # the program itself, half as late
    assert trial.after.makespan_s == pytest.approx(written.makespan_s, rel=1e-9)


@pytest.mark.slow
@pytest.mark.mpi
def test_planted_delays_on_real_mpi() -> None:
    """What is not found is launched again; wrong is what the host let be twice, and was never found."""
    delay_s, work_s = 20e-3, 5e-3
    left = list(NAMES)
    patterns, missed = len(left), dict.fromkeys(left, 0)
    for _ in range(4):
        how = {"names": left, "delay_s": delay_s, "work_s": work_s, "is_real": True}
        run = lk.run(program, 4, on="mpi", trace=True, kwargs=how)
        waiting, again = run.waits(), []
        for name in left:
            try:
                check_planted(waiting, name, 4, delay_s, 0.2)
            except AssertionError:
                missed[name] += disturbance_s(run, name, delay_s, work_s) <= 0.1 * delay_s
                again.append(name)
        left = again
        if not left:
            break
    assert not [name for name in left if missed[name] > 1]
    if patterns - len(left) < 15:
        pytest.skip(f"a busy host: {len(left)} of {patterns} patterns were disturbed in four launches")


moves = st.lists(
    st.tuples(
        st.sampled_from(["send", "ssend", "isend", "allreduce", "barrier", "bcast", "reduce", "scan",
                         "iallreduce", "persistent", "allreduce_init", "neighbor", "fence", "post", "lock"]),
        st.integers(0, 6), st.integers(1, 6), st.lists(st.integers(0, 3), min_size=7, max_size=7),
    ),
    max_size=12,
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([1, 2, 3, 4, 5, 7]), moves, st.sampled_from(["lab", "raw"]))
def test_costs_add_up_to_the_waiting_and_times_to_the_run(ranks: int, steps: Any, model: str) -> None:
    run = lk.run(random_program, ranks, on=f"star:{ranks}", model=model, trace=True, steps=steps)
    waiting = run.waits()
    costs = waiting.delays["direct_s"].sum() + waiting.delays["indirect_s"].sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-12, abs=1e-18)
    assert (waiting.delays[["direct_s", "indirect_s"]] >= 0).all().all()
    spent = waiting.totals["seconds"] + waiting.totals["waiting_s"]
    assert spent.sum() == pytest.approx(sum(run.trace.ends_s), rel=1e-12, abs=1e-18)
    path = waiting.critical
    assert (path["end_s"] - path["begin_s"]).sum() == pytest.approx(run.makespan_s, rel=1e-12, abs=1e-18)
    assert waiting.totals["critical_s"].sum() == pytest.approx(run.makespan_s, rel=1e-12, abs=1e-18)
    profile = run.profile()
    assert profile["messages"].sum() == len(run.trace.messages)
    assert profile.loc[~profile["call"].isin(["computation"]), "visits"].sum() == len(run.trace.calls)
    again = lk.run(random_program, ranks, on=f"star:{ranks}", model=model, steps=steps)
    assert again.makespan_s == run.makespan_s  # recording takes no simulated time
    check_time_line(run, waiting)


def check_time_line(run: Any, waiting: Waiting) -> None:
    """The time line has the same waits by the same names, and no other; it has no gap."""
    drawn = activity(run.trace, waiting.waits)
    names = np.array([state.name for state in STATES])[drawn.kind]
    shown = pd.DataFrame({"rank": drawn.rank, "name": names, "s": drawn.end_s - drawn.begin_s})
    found = shown[shown["name"].isin([kind.name for kind in KINDS])].groupby(["name", "rank"])["s"].sum()
    sums = waiting.waits.groupby(["state", "rank"], observed=True)["seconds"].sum()
    assert {*found.index} == {*sums.index[sums > 0]}
    assert found.to_numpy() == pytest.approx(sums[sums > 0].sort_index().reindex(found.index).to_numpy())
    assert not {"wait at a collective"} & {*names}
    follows = drawn.rank[1:] == drawn.rank[:-1]
    assert (drawn.begin_s[1:][follows] == drawn.end_s[:-1][follows]).all()
    assert shown["s"].sum() == pytest.approx(sum(run.trace.ends_s))


def test_a_wait_that_is_passed_on_goes_back_to_where_it_began() -> None:
    def chain(comm: Any) -> None:
        token = np.zeros(1)
        if comm.rank == 0:
            with lk.phase("think"):
                lk.compute(seconds=0.1)
        else:
            comm.Recv(token, comm.rank - 1)
        if comm.rank + 1 < comm.size:
            comm.Send(token, comm.rank + 1)

    run = lk.run(chain, 5, on="star:5", trace=True)
    first = run.delays().iloc[0]
    assert (first["rank"], first["phase"]) == (0, "think")
    assert first["direct_s"] == pytest.approx(0.1, rel=0.01)
    assert first["indirect_s"] == pytest.approx(0.3, rel=0.01)
    said = "goes back to rank 0's phase think throughout the run, 75% of that passed on"
    assert said in run.waits().reading()


def solver(comm: Any, work_s: float) -> None:
    with lk.phase("work"):
        lk.compute(seconds=work_s * (4 if comm.rank == 1 else 1))
    with lk.phase("meet"):
        comm.Allreduce(np.zeros(2), np.zeros(2))


def test_a_trial_wins_what_the_critical_path_promised() -> None:
    run = lk.run(solver, 6, on="star:6", trace=True, work_s=1e-3)
    for found, expected in (
        (run.what_if("work", 0.5), 2e-3),
        (run.what_if("work", 0.5, ranks=[1]), 2e-3),
        (run.what_if("work", 2.0), -4e-3),
        (run.what_if(balanced="work"), 4e-3 - 1.5e-3),
    ):
        assert found.won_s == pytest.approx(expected, rel=0.05)
        assert found.predicted_s == pytest.approx(expected, rel=0.05)
    less = run.what_if("work", 0.01, ranks=[1])  # then the others are the longest
    assert less.won_s == pytest.approx(3e-3, rel=0.05)
    assert "another path is the longest" in less.reading()
    assert "With next to none of the computation in phase work, " in run.what_if("work", 1e-9).reading()
    twice = run.what_if("work", 0.5).after.what_if("work", 0.5)
    assert twice.before.makespan_s == pytest.approx(run.makespan_s - 2e-3, rel=0.01)
    assert twice.after.makespan_s == pytest.approx(run.makespan_s - 3e-3, rel=0.01)
    both = run.what_if("work", 0.5, ranks=[1]).after.what_if(coll={"allreduce": "ring"}).after
    assert both.makespan_s == pytest.approx(run.what_if(coll="allreduce=ring").after.makespan_s - 2e-3)
    assert run.what_if(coll={"allreduce": "ring"}).after.collectives != run.collectives
    with raises_code(lk.errors.DataError, "unknown-name"):
        run.what_if(coll={"alltoall": "pairwise"})
    assert run.what_if(on="torus:3x2").after.on == "torus:3x2"
    for wrong in ("a", float("nan"), -1, 0):
        with raises_code(lk.errors.DataError, "out-of-range", "0"):
            run.what_if("work", wrong)
    more = replace(less, predicted_s=2e-3)  # nothing promises more than "up to" where more is won
    assert more.reading().endswith("The critical path predicted 2 ms.")


def drifting(comm: Any, steps: int) -> None:
    def inner(seconds: float, depth: int) -> None:
        with lk.phase("physics"):
            lk.compute(seconds=seconds)
            if depth:
                inner(seconds, depth - 1)

    for step in range(steps):
        is_late = comm.rank == step % comm.size
        inner(2e-3 if is_late else 0.5e-3, 1)
        comm.Barrier()


@pytest.mark.parametrize("ranks", [1, 2, 4, 7])
def test_a_load_that_drifts_is_balanced_visit_by_visit(ranks: int) -> None:
    run = lk.run(drifting, ranks, on=f"star:{ranks}", trace=True, steps=2 * ranks)
    once = run.what_if(balanced="physics")
    assert abs(once.won_s) < 1e-9
    assert "predicted nothing" in once.reading()
    each = run.what_if(balanced="physics", every_visit=True)
    mean_s = (4e-3 + (ranks - 1) * 1e-3) / ranks
    assert each.won_s == pytest.approx(2 * ranks * (4e-3 - mean_s), rel=1e-6, abs=1e-9)
    assert each.predicted_s == pytest.approx(each.won_s, rel=0.01, abs=1e-9)
    again = each.after.what_if("physics", 0.5)
    assert again.won_s == pytest.approx(ranks * mean_s, rel=1e-3)


def test_ranks_that_come_less_often_are_balanced_over_those_that_are_there() -> None:
    def program(comm: Any) -> None:
        for visit in range(comm.rank + 1):
            with lk.phase("work"):
                lk.compute(seconds=(1 + comm.rank) * 1e-3 if visit != 1 else 0.0)
        comm.Barrier()

    run = lk.run(program, 4, on="star:4", trace=True)
    after = run.what_if(balanced="work", every_visit=True).after
    work = after.phases.sort_values(["rank", "begin_s"])
    took = (work["end_s"] - work["begin_s"]).round(9).groupby(work["rank"]).apply(list).to_dict()
    assert took == {0: [2.5e-3], 1: [2.5e-3, 0], 2: [2.5e-3, 0, 3.5e-3], 3: [2.5e-3, 0, 3.5e-3, 4e-3]}


def test_faster_links_are_tried() -> None:
    def big(comm: Any) -> None:
        data = np.zeros(1 << 20, np.uint8)
        if comm.rank == 0:
            comm.Send(data, 1)
        elif comm.rank == 1:
            comm.Recv(data, 0)

    run = lk.run(big, 2, on="fattree:2:1:1", trace=True)
    kind = run.explain().links["kind"].iloc[0]
    every = sorted(set(run.explain().links["kind"]))
    found = run.what_if(links=every, factor=2)
    assert 0 < found.won_s < 0.5 * run.makespan_s
    assert run.what_if(links=kind, factor=0.5).won_s < 0
    back = found.after.what_if(links=every, factor=0.5).after
    assert back.makespan_s == pytest.approx(run.makespan_s, rel=1e-9)


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        ({}, ("conflicting-options",)),
        ({"phase": "work", "on": "star:6"}, ("conflicting-options",)),
        ({"phase": "none", "factor": 0.5}, ("unknown-name",)),
        ({"phase": "meet", "factor": 0.5}, ("no-data",)),
        ({"phase": "work"}, ("conflicting-options", "factor=0.5")),
        ({"balanced": "work", "factor": 0.5}, ("conflicting-options",)),
        ({"phase": "work", "factor": 0.0}, ("out-of-range", "0")),
        ({"phase": "work", "factor": 0.5, "every_visit": True}, ("conflicting-options",)),
        ({"phase": "work", "factor": 0.5, "ranks": [6]}, ("out-of-range", "0", "5")),
        ({"links": "ropes", "factor": 2}, ("unknown-name", "ropes")),
    ],
)
def test_what_cannot_be_tried_is_refused(how: dict[str, Any], wanted: tuple[str, ...]) -> None:
    run = lk.run(solver, 6, on="star:6", trace=True, work_s=1e-3)
    with raises_code(DataError, *wanted):
        run.what_if(**how)


def test_runs_without_what_is_needed_are_refused() -> None:
    run = lk.run(solver, 2, on="star:2", work_s=1e-3)
    for ask in (run.waits, run.delays, run.profile, lambda: run.what_if("work", 0.5)):
        with raises_code(DataError, "not-recorded", "trace=True"):
            ask()
    sent = pickle.loads(pickle.dumps(lk.run(solver, 2, on="star:2", work_s=1e-3, trace=True)))
    with raises_code(DataError, "in-use"):
        sent.what_if("work", 0.5)
    with raises_code(DataError, "no-data"):
        lk.plot.waits(lk.run(solver, 1, on="star:1", work_s=1e-3, trace=True))
    with raises_code(DataError, "unknown-name"):
        sent.waits().severity("color")


def of_many_calls(comm: Any) -> None:
    with lk.phase("work"):
        lk.compute(seconds=1e-3 * (comm.rank == 2))
    comm.Allgather(MPI.IN_PLACE, np.zeros(comm.size * 4))
    part = comm.Split(comm.rank % 2, -comm.rank)
    with lk.phase("give"):
        lk.compute(seconds=2e-3 * (comm.rank == 3))
        part.Bcast(np.zeros(3), root=0)
    shift = ((comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size)
    requests = [comm.Irecv(np.zeros(1), shift[1]), comm.Isend(np.zeros(1), shift[0])]
    MPI.Request.Waitall(requests)
    comm.Reduce(np.zeros(3), np.zeros(3), root=1)
    counts = [1 + rank for rank in range(comm.size)]
    comm.Allgatherv(np.zeros(1 + comm.rank), [np.zeros(sum(counts)), counts])
    comm.Alltoallv(
        [np.zeros(sum(counts)), counts], [np.zeros(comm.size * (1 + comm.rank)), [1 + comm.rank] * comm.size]
    )
    comm.Reduce_scatter(np.zeros(sum(counts)), np.zeros(1 + comm.rank), counts)


@pytest.mark.parametrize("ranks", [4, 5])
def test_a_replay_has_the_wait_states_of_its_run(tmp_path: Any, ranks: int) -> None:
    run = lk.run(of_many_calls, ranks, on=f"star:{ranks}", trace=True, trace_ti=tmp_path / "t.txt")
    again = lk.replay(tmp_path / "t.txt", on=f"star:{ranks}", trace=True)
    by = ("state", "rank", "phase", "call", "cause")
    one, other = (each.waits().severity(*by).sort_values([*by]) for each in (run, again))
    assert one[[*by]].astype(str).to_numpy().tolist() == other[[*by]].astype(str).to_numpy().tolist()
    assert one["seconds"].to_numpy() == pytest.approx(other["seconds"].to_numpy(), rel=1e-6, abs=1e-12)
    mine, theirs = (each.trace.calls.query("joint >= 0") for each in (run, again))
    mine = mine.replace({"call": {"Split": "Allgather"}})  # which it is made of
    for column in ("rank", "call", "bytes", "root", "position"):
        assert mine[column].tolist() == theirs[column].tolist()
    for column in ("messages", "bytes", "visits"):
        assert run.profile()[column].sum() == again.profile()[column].sum()


def test_of_a_run_without_calls_nothing_is_taken_for_computation(tmp_path: Any) -> None:
    text = "num_ranks 2\nrank 0 {\nl1: calc 1000000\nl2: send 8b to 1 tag 0\nl2 requires l1\n}\n"
    (tmp_path / "two.goal").write_text(text + "rank 1 {\nl1: recv 8b from 0 tag 0\n}\n")
    run = lk.replay(tmp_path / "two.goal", on="star:2", trace=True)
    assert "goes back to rank 0's computation and calls" in run.waits().reading()
    assert run.profile()["messages"].tolist() == [1, 0]
    assert "computation: 0 s" in repr(run.report())
    with raises_code(DataError, "not-recorded"):
        run.score()


def test_a_recorder_gives_waits_of_its_own() -> None:
    import pandas as pd

    def apart(comm: Any) -> None:
        lk.compute(seconds=1.0 + comm.rank)

    run = lk.run(apart, 2, on="star:2", trace=True)
    run.trace.given_waits = pd.DataFrame({
        "rank": [0], "begin_s": [0.25], "until_s": [0.75], "cause": [1], "call": [-1], "cause_call": [-1],
        "state": [kind_number("lock contention")],
    })  # fmt: skip
    waiting = run.waits()
    assert waiting.severity("state", "cause")[["state", "cause", "seconds"]].to_numpy().tolist() == [
        ["lock contention", 1, 0.5]
    ]
    assert waiting.delays[["direct_s", "indirect_s"]].to_numpy().sum() == pytest.approx(0.5)


def test_figures_say_what_they_show() -> None:
    run = planted_run(["late_sender", "late_barrier"], 70, 5e-3)
    for figure in (lk.plot.waits(run), lk.plot.delays(run)):
        assert "goes back to" in figure.reading
    assert "48 of 70 ranks" in lk.plot.delays(run).reading
    shown = run.waits()
    assert "goes back to" in shown._repr_html_()
    assert repr(shown).startswith(shown.reading())


def test_kinds_and_patterns_have_names() -> None:
    assert len({kind.name for kind in KINDS}) == len(KINDS) > GIVEN
    names = ("Scatterv", "reduce", "Exscan", "Dup", "Ialltoallw")
    assert [pattern_of(name) for name in names] == [3, 4, 5, 1, 1]
    with pytest.raises(KeyError, match="there are late sender"):
        kind_number("late lunch")
