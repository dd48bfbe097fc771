"""Searches over codelets with attributes, driven by planted times."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from labkit.errors import DataError
from labkit.tuning import Codelet, FunctionSet
from labkit.tuning.runtime.codelets import combined
from labkit.tuning.runtime.plan import BruteForce, ByAttributes, Halving, search_of
from tests.support.refusals import raises_code

ATTRIBUTES = {"pattern": ("all", "pairs"), "copies": ("types", "pack"), "calls": ("a", "b", "c", "d")}


def grid():
    return [
        Codelet(f"{pattern} {copies} {calls}", print, dict(zip(ATTRIBUTES, values, strict=True)))
        for pattern in ATTRIBUTES["pattern"]
        for copies in ATTRIBUTES["copies"]
        for calls in ATTRIBUTES["calls"]
        for values in [(pattern, copies, calls)]
    ]


def carried_out(search, times):
    search.calls = 0
    while search.current is not None:
        search.calls += search.needed + search.warmup
        search.tell(times[search.current.name])
    return search


factors = st.lists(st.floats(1.05, 3.0), min_size=8, max_size=8, unique=True)


@given(factors)
def test_attributes_that_do_not_depend_on_each_other_are_found_with_half_of_the_trials(weights):
    weight = dict(zip([v for values in ATTRIBUTES.values() for v in values], weights, strict=True))
    codelets = grid()
    times = {}
    for one in codelets:
        times[one.name] = 1.0
        for value in one.attributes.values():
            times[one.name] *= weight[value]
    every = carried_out(BruteForce(codelets), times)
    some = carried_out(ByAttributes(codelets), times)
    assert list(every.times) == [one.name for one in codelets]
    assert some.calls <= every.calls // 2
    assert times[some.winner] == times[every.winner]


@given(st.permutations(range(16)), st.integers(2, 40), st.integers(0, 2))
def test_attributes_that_say_nothing_leave_the_fastest_in(order, points, warmup):
    codelets = grid()
    times = {one.name: 1.0 + 0.1 * number for one, number in zip(codelets, order, strict=True)}
    search = carried_out(ByAttributes(codelets, points, warmup), times)
    assert search.calls <= len(codelets) * (points + warmup) // 2
    if len(search.times) == len(codelets):
        assert search.winner == min(times, key=times.get)


def test_noise_puts_no_value_out_and_finalists_are_measured_until_it_is_gone():
    """The second measurement of a codelet takes off what the first one had by bad luck."""
    codelets = grid()
    true = {one.name: 2.0 if "pairs" in one.name else 1.0 for one in codelets}
    true["pairs pack d"] = 0.9
    for error_s, finds in ((0.0, False), (5.0, True)):
        search, lots = ByAttributes(codelets), {}
        while search.current is not None:
            name = search.current.name
            lots[name] = lots.get(name, 0) + 1
            hidden = {"pairs pack d": 1.9}.get(name, true[name]) if error_s == 0 else true[name]
            search.tell(hidden, error_s)
        assert (search.winner == "pairs pack d") is finds
        assert any("with pairs are out" in text for text in search.words) is not finds
        assert set(lots.values()) <= {1, 2, 3}


def test_a_codelet_that_drops_packets_makes_room_for_the_next_finalist():
    codelets = [Codelet(name, print) for name in "abcdefgh"]
    short = {name: 1.0 + 0.1 * number for number, name in enumerate("abcdefgh")}
    search, seen = ByAttributes(codelets), []
    while search.current is not None:
        name = search.current.name
        seen.append((name, search.needed))
        search.tell(60.0 if name in "ab" and search.needed == 10 else short[name])
    assert seen[:8] == [(name, 4) for name in "abcdefgh"]
    assert [name for name, _ in seen[8:]] == ["a", "b", "c", "d"]
    assert search.winner == "c"
    assert search.counted == "4 of each, then 10 more of 4 that seemed the fastest"


@given(st.lists(st.floats(0.1, 10), min_size=16, max_size=16), st.integers(1, 16))
def test_whatever_the_times_it_ends_and_takes_the_least_measured(values, count):
    codelets = grid()[:count]
    times = {one.name: value for one, value in zip(codelets, values, strict=False)}
    search = carried_out(ByAttributes(codelets), times)
    assert search.calls <= max(search.first + search.warmup, count * 21 // 2)
    assert times[search.winner] == min(search.times.values())
    with raises_code(DataError, "wrong-order"):
        search.tell(1.0)


@given(st.integers(1, 24), st.integers(2, 30), st.integers(0, 3))
def test_halving_makes_half_of_the_calls_and_finds_the_least(count, points, warmup):
    codelets = [Codelet(f"c{i}", print) for i in range(count)]
    times = {f"c{i}": 1.0 + (7 * i) % count for i in range(count)}
    search, calls = Halving(codelets, points, warmup), 0
    while search.current is not None:
        calls += search.needed + warmup
        search.tell(times[search.current.name])
    assert calls <= max(count * (points + warmup) / 2, count * (1 + warmup))
    assert times[search.winner] == 1.0


def test_halving_measures_the_first_in_full_and_takes_who_was_left_out_if_they_were_lucky():
    codelets = [Codelet(name, print) for name in "abcdefgh"]
    short = dict(zip("abcdefgh", [5, 1.0, 1.1, 1.2, 5, 5, 5, 5], strict=True))
    full = {"b": 1.1, "c": 1.05}
    search = Halving(codelets, 20, 1)
    seen = []
    while search.current is not None:
        name = search.current.name
        seen.append((name, search.needed))
        search.tell(short[name] if search.needed < 20 else full[name])
    assert seen == [*((name, 4) for name in "abcdefgh"), ("b", 20), ("c", 20)]
    assert search.winner == "c"
    assert search.counted == "4 of each, then 20 of the 2 fastest"
    search.times |= {"b": 60.0, "c": 60.0}
    assert search.winner == "d"


def test_two_comparisons_that_disagree_leave_both_values():
    times = {"all types a": 1.0, "pairs types a": 2.0, "all types b": 3.0, "pairs types b": 2.0}
    codelets = [one for one in grid() if one.name in times]
    more = [*codelets, *(Codelet(f"x{i}", print) for i in range(6))]
    search = carried_out(ByAttributes(more), times | {f"x{i}": 9.0 for i in range(6)})
    assert any("disagree" in text for text in search.words)
    assert search.winner == "all types a"


def test_sets_are_checked_and_combined():
    ways = FunctionSet("exchange", grid())
    assert ways.attributes == ATTRIBUTES
    assert ways.only(["all types b"]).names == ("all types b",)
    both = combined([("x", FunctionSet("x", [Codelet("p", print), Codelet("q", print)])), ("y", ways)])
    assert len(both) == 32
    assert both["q + all pack c"].attributes == {
        "x": "q", "y: pattern": "all", "y: copies": "pack", "y: calls": "c",
    }  # fmt: skip
    with raises_code(DataError, "not-enough-data"):
        FunctionSet("none", [])
    with raises_code(DataError, "duplicate-name"):
        FunctionSet("twice", [Codelet("p", print), Codelet("p", print)])
    with raises_code(DataError, "unknown-name", "'z'"):
        ways.only(["z"])
    with raises_code(DataError, "wrong-type"):
        Codelet("p", 3)
    with raises_code(DataError, "unknown-name"):
        search_of("random")


def test_what_is_said_of_the_library_s_own_is_true_where_others_were_measured_less():
    from labkit.tuning.runtime.explanation import Decision, Row

    def decision(winner, **times):
        rows = sorted(
            (Row(name, s, 0, {}, (s,)) for name, s in times.items()), key=lambda row: row.estimate_s
        )
        return Decision("x", "production", winner, "", 9, 9, 8, tuple(rows), 3, "halving", "barrier", "mean",
                        20, 1, (), (), "4 of each, then 20 of the 2 fastest")  # fmt: skip

    own = decision("library", library=1.0, ring=0.99, bine=1.2)
    assert "4 of each, then 20 of the 2 fastest, after 1" in own.why
    assert own.why.endswith("no other is clearly faster.")
    assert decision("library", library=1.0, ring=2.0).why.endswith("the next, takes 2.00 times as long.")
    other = decision("ring", library=0.9, ring=1.0)
    assert other.why.endswith("takes 0.90 times as long as ring, in fewer measurements.")
