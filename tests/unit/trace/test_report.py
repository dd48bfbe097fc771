"""Reports: sums that must agree, metrics made of others, and the algebra of several."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit.errors import DataError
from labkit.trace.reports import CallPath, Expression, Metric, Report, difference, mean, merge
from tests.support.refusals import raises_code
from tests.support.traced import work_and_ring


def program(comm: Any, slow: int = 2) -> None:
    work_and_ring(comm, 1e-3 * (1 + (comm.rank == slow)))


def recorded(ranks: int = 4, on: str = "star", **options: Any) -> Any:
    return lk.run(program, ranks, on=on, trace=True, **options)


@pytest.mark.parametrize(
    ("ranks", "on"), [(1, "star"), (4, "torus:2x2"), (7, "star"), (4, "star,model=smpi")]
)
def test_parts_make_up_the_whole(ranks: int, on: str) -> None:
    run = recorded(ranks, on)
    report, waiting = run.report(), run.waits()
    np.testing.assert_allclose(report.by_rank("time"), run.trace.ends_s)
    parts = sum(report.exclusive(name) for name in ("computation", "calls", "waiting"))
    np.testing.assert_allclose(report.exclusive("time"), parts, atol=1e-15)
    assert report.total("waiting") == pytest.approx(waiting.seconds, abs=1e-15)
    assert report.total("delay_cost") == pytest.approx(waiting.seconds, abs=1e-15)
    assert report.total("critical_path") == pytest.approx(run.makespan_s)
    assert report.total("messages") == len(run.trace.messages)
    assert report.total("bytes") == run.trace.messages["bytes"].sum()
    for metric in report.metrics:
        if metric.above:
            inside = [one for one in report.metrics if one.above == metric.above]
            total = sum(report.total(one.name) for one in inside)
            if metric.name != "empty_messages":  # the other part of them has no name
                assert total == pytest.approx(report.total(metric.above), abs=1e-15)


@pytest.mark.parametrize("model", ["lab", "smpi"])
def test_a_message_is_counted_in_the_call_that_sent_it(model: str) -> None:
    """With start-ups it is posted at the end of the call, without at its begin: the next is just beside."""
    report = recorded(4, f"star,model={model}").report()
    payload = report.by_path("bytes", inclusive=False)
    assert payload[report.path("isend")] == 4 * recorded().trace.messages["bytes"].max()
    assert payload[report.path("recv")] == payload[report.path("wait")] == 0


def test_call_paths_are_found_by_name() -> None:
    report = recorded().report()
    row = report.path("work > inner")
    assert report.paths[row].label == "inner"
    assert report.paths[report.path("allreduce")].above == row
    assert report.total("waiting", row) == pytest.approx(
        report.total("wait_at_nxn") + report.total("nxn_completion")
    )
    with raises_code(DataError, "unknown-name", "'work > inner'"):
        report.path("work > iner")
    with raises_code(DataError, "unknown-name", "'wating'", "'waiting'"):
        report.total("wating")


def test_a_derived_metric_is_reckoned_after_the_sums() -> None:
    report = recorded().report().with_metric("size", "bytes / messages", unit="B")
    messages = report.total("messages")
    assert report.total("size") == report.total("bytes") / messages
    assert report.by_path("size")[report.path("isend")] == report.total("bytes", report.path("isend")) / 4
    assert report.by_rank("size", report.path("recv")).tolist() == [0, 0, 0, 0]  # no message there
    twice = report.with_metric("double", "2 * size - min(size, 0)")
    assert twice.total("double") == 2 * twice.total("size")
    with raises_code(DataError, "name-taken"):
        report.with_metric("size", "bytes")


@pytest.mark.parametrize(
    "text", ["", "time +", "__import__('os')", "time.real", "time[0]", "lambda: 1", "time if 1 else 2",
             "1 + 2", "time @ time", "max(time)", "'a' * 9", "(time for x in y)", "time" * 200],
)  # fmt: skip
def test_what_is_no_expression_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        recorded(1).report().with_metric("new", text)


def test_difference_mean_and_merge() -> None:
    one, other = recorded(slow=2).report(), recorded(kwargs={"slow": 0}).report()
    gone = difference(one, one)
    assert gone.title == f"{one.title} (1) minus {one.title} (2)"
    assert all(not table.any() for table in gone.values.values())
    apart = difference(one, other)
    assert apart.total("time") == pytest.approx(one.total("time") - other.total("time"))
    assert apart.by_rank("computation").tolist() == pytest.approx([-1e-3, 0, 1e-3, 0])
    times = np.concatenate([apart.values[one.name].ravel() for one in apart.metrics if one.unit == "s"])
    assert np.abs(times[times != 0]).min() > 1e-15  # no rounding of the clock
    middle = mean(one, other)
    np.testing.assert_allclose(
        middle.by_rank("waiting"), (one.by_rank("waiting") + other.by_rank("waiting")) / 2
    )
    both = merge(one.with_metric("size", "bytes / messages"), other)
    assert both.total("time") == one.total("time")
    assert both.total("size") == one.total("bytes") / one.total("messages")
    with raises_code(DataError, "unsupported", "4", "5"):
        difference(one, recorded(5).report())
    assert difference(one.per_rank(), recorded(5).report().per_rank()).ranks == 1
    with raises_code(DataError, "not-enough-data"):
        mean()
    with raises_code(DataError, "wrong-type"):
        mean([one, other])  # type: ignore[arg-type]


NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3).map(tuple)


@st.composite
def reports(draw: Any) -> Report:
    """Reports of three ranks over random trees of names and metrics."""
    keys = sorted(
        {key[:length] for key in draw(st.lists(NAMES, max_size=5)) for length in range(1, len(key) + 1)}
    )
    rows = {(): 0} | {key: at + 1 for at, key in enumerate(keys)}
    paths = [CallPath("p", -1), *(CallPath(key[-1], rows[key[:-1]]) for key in keys)]
    names = draw(st.lists(st.sampled_from(["u", "v", "w"]), unique=True, min_size=1))
    numbers = st.integers(-9, 9)
    table = st.lists(st.lists(numbers, min_size=3, max_size=3), min_size=len(paths), max_size=len(paths))
    values = {name: np.array(draw(table), np.float64) for name in names}
    return Report("r", 3, [Metric(name, name, "s", "") for name in names], paths, values)


@settings(max_examples=50, deadline=None)
@given(reports(), reports())
def test_laws_of_the_algebra(a: Report, b: Report) -> None:
    """What is there is neither lost nor counted twice, wherever it stands in the trees."""
    apart, back, middle, both = difference(a, b), difference(b, a), mean(a, b), merge(a, b)
    for name in {*a.values, *b.values}:
        of_a, of_b = (one.total(name) if name in one.values else 0.0 for one in (a, b))
        assert apart.total(name) == of_a - of_b == -back.total(name)
        assert middle.total(name) == (of_a + of_b) / 2
        assert both.total(name) == (of_a if name in a.values else of_b)
    for row in range(len(a.paths)):
        chain = a.key(row)
        at = next(i for i in range(len(middle.paths)) if middle.key(i) == chain)
        for name in a.values:
            other = [
                b.inclusive(name)[i] for i in range(len(b.paths)) if b.key(i) == chain and name in b.values
            ]
            expected = (a.inclusive(name)[row] + (other[0] if other else 0)) / 2
            np.testing.assert_allclose(middle.inclusive(name)[at], expected)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_expressions_reckon_as_python_does(a: float, b: float) -> None:
    values = {"a": np.array([a]), "b": np.array([b])}
    for text in ("a + b * 2 - -a", "max(a, b) - min(a, b)", "(a - b) ** 2", "abs(a) + sqrt(abs(b))"):
        expected = eval(text, {"sqrt": np.sqrt}, {"a": a, "b": b})
        assert Expression.parse(text).value(values)[0] == pytest.approx(expected)
    assert Expression.parse("a / b").value({"a": np.array([a]), "b": np.array([0.0])})[0] == 0


def test_what_only_synchronizes_is_counted_and_memory_by_phase() -> None:
    def program(comm: Any) -> None:
        with lk.phase("large"):
            held = np.zeros(100_000)
            comm.Barrier()
        with lk.phase("small"):
            del held
            comm.Allreduce(np.zeros(2), np.zeros(2))
            comm.Barrier()
            if comm.rank == 0:
                comm.Send(np.zeros(0), 1)
            elif comm.rank == 1:
                comm.Recv(np.zeros(0), 0)

    run = lk.run(program, 3, "star:3", trace=True, count=True)
    table = run.profile()
    empty = table.groupby("phase", observed=True)[["empty_collectives", "empty_messages"]].sum()
    assert empty.loc["large", "empty_collectives"] == empty.loc["small", "empty_collectives"] == 3
    assert run.report().total("empty_collectives") == 6
    own = table[(table["phase"] == "small") & (table["call"] == "Send")]
    assert own["empty_messages"].tolist() == [1]
    most = table.groupby("phase", observed=True)["memory_bytes"].max()
    assert most["large"] >= 800_000
    assert "memory_bytes" not in lk.run(program, 3, "star:3", trace=True).profile()


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_time_in_calls_without_payload_is_that_of_the_calls_that_move_none(ranks: int) -> None:
    def exchange(comm: Any) -> None:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for size, name in ((0, "empty"), (8, "full")):
            with lk.phase(name):
                lk.compute(seconds=1e-4 * comm.rank)
                comm.Sendrecv(np.zeros(size), right, 0, np.zeros(8), left)
                lk.compute(seconds=1e-5)
                request = comm.Irecv(np.zeros(8), left)
                comm.Send(np.zeros(size), right)
                lk.compute(seconds=1e-5 * comm.rank)
                request.Wait()
        comm.Barrier()
        comm.Allreduce(np.zeros(1), np.zeros(1))

    run = lk.run(exchange, ranks, f"star:{ranks}", trace=True)
    calls, waits = run.trace.calls, run.trace.waits
    begin_s, end_s = calls["begin_s"], calls["end_s"]
    waited = [  # a Wait for a message that is there already is not known to be that message's
        ((waits["rank"] == rank) & (waits["begin_s"] >= begin) & (waits["end_s"] <= end)).any()
        for rank, begin, end in zip(calls["rank"], begin_s, end_s, strict=True)
    ]
    counts = (calls["call"] != "Wait") | np.array(waited)
    spent = ((end_s - begin_s) * counts).groupby([calls["phase"], calls["call"]]).sum()
    found = run.profile().groupby("phase", observed=True)[["p2p_sync_s", "collective_sync_s"]].sum()
    assert found.loc["empty", "p2p_sync_s"] == pytest.approx(spent["empty"].sum())
    assert found.loc["full", "p2p_sync_s"] == 0.0
    barrier_s = spent["(no phase)", "Barrier"]
    assert found["collective_sync_s"].sum() == pytest.approx(barrier_s)
    report = run.report()
    assert report.total("synchronization") == pytest.approx(spent["empty"].sum() + barrier_s)
    assert report.total("p2p_sync") == pytest.approx(spent["empty"].sum())
