"""The shape of a run: phases summed up, text and HTML."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
from html.parser import HTMLParser

import numpy as np
import pytest

import labkit as lk
from labkit.result import PHASE_COLUMNS, Run, phase_frame
from labkit.text.units import format_bytes, format_count, format_seconds

ROWS = [
    (0, "sort", 0.0, 0.4, 0),
    (1, "sort", 0.0, 0.2, 0),
    (0, "exchange", 0.4, 0.5, 0),
    (1, "exchange", 0.2, 0.5, 0),
    (0, "sort", 0.5, 0.6, 0),
]


def make(**changes):
    values = {"program": "p", "ranks": 4, "on": "star:4", "model": "lab", "makespan_s": 0.6}
    return Run(**{**values, "phases": phase_frame(ROWS), **changes})


def test_phase_table_sums_entries_and_counts_ranks_that_never_entered():
    *_, outside = make().phase_table().itertuples(index=False)
    assert outside[:2] == ("outside phases", 0)
    assert outside[2:4] == pytest.approx((0.6, (0.0 + 0.1 + 0.6 + 0.6) / 4))
    assert math.isnan(outside[4])
    table = make().phase_table().iloc[:-1]
    assert table["phase"].tolist() == ["sort", "exchange"]
    assert table["entries"].tolist() == [3, 2]
    assert table["max_s"].tolist() == pytest.approx([0.5, 0.3])
    assert table["mean_s"].tolist() == pytest.approx([0.7 / 4, 0.4 / 4])
    assert table["imbalance"].tolist() == pytest.approx([0.5 / (0.7 / 4), 0.3 / 0.1])


def test_phase_without_time_is_balanced():
    assert make(phases=phase_frame([(0, "empty", 0.1, 0.1, 0)])).phase_table()["imbalance"][0] == 1.0


def test_no_phases_give_an_empty_table_with_the_same_columns():
    frame = phase_frame()
    assert tuple(frame.columns) == PHASE_COLUMNS
    assert len(make(phases=frame).phase_table()) == 0
    assert frame["begin_s"].dtype == "float64"


def test_repr_says_what_a_reader_must_know():
    text = repr(make(messages=12, bytes=2_500_000, notes=["careful"], is_valid=False))
    assert "p: 4 ranks on star:4, model lab, makespan 600 ms" in text
    assert "messages 12, payload 2.5 MB" in text
    assert "note: careful" in text
    assert "may not be used for a verdict" in text


class _Balance(HTMLParser):
    """Collects text, and fails on a tag that is not closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.text = [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_html_is_balanced_escaped_and_complete():
    rows = [(0, "<b>phase</b>", 0.0, 0.3, 0)]
    run = make(phases=phase_frame(rows), output=["<script>x</script>\n", "", "two\n", ""], notes=["a < b"])
    parser = _Balance()
    parser.feed(run._repr_html_())
    assert parser.open == []
    text = "".join(parser.text)
    assert "<script>x</script>" in text
    assert "<b>phase</b>" in text
    assert "a < b" in text
    assert "output of 2 ranks" in text


def test_html_cuts_long_output_but_says_so():
    html = make(output=["y" * 50_000, *(f"z{rank}" for rank in range(99))])._repr_html_()
    assert len(html) < 60_000
    assert "30,000 more characters in output[0]" in html
    assert "and 36 more ranks in output" in html


def test_html_shows_ranks_that_printed_the_same_together():
    html = make(output=["a\n", "b\n", "a\n", ""])._repr_html_()
    assert "ranks 0, 2" in html
    assert html.count("<pre") == 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"), (1.0, "1 s"), (12.34, "12.3 s"), (1234.0, "1234 s"), (0.9999e-3, "1 ms"),
        (999.4e-6, "999 µs"), (999.6e-6, "1 ms"), (1.5e-9, "1.5 ns"), (2e-12, "2 ps"), (3e-15, "3e-15 s"),
        (math.nan, "–"), (None, "–"), (math.inf, "inf s"), (-0.002, "-2 ms"),
    ],
)  # fmt: skip
def test_seconds(value, text):
    assert format_seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (9999, "9999"), (10_000, "10 k"), (98_304, "98.3 k"), (5e12, "5 T")]
)
def test_counts(value, text):
    assert format_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (2**20, "1.05 MB")])
def test_bytes(value, text):
    assert format_bytes(value) == text


def test_a_rank_does_not_pay_for_pandas():
    """The modules that every rank imports stay light: a launch is repeated often."""
    code = "import sys, labkit.real.mpi.child, labkit.program.context; print('pandas' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_what_lies_outside_all_phases_is_a_row_of_its_own():
    rows = [(0, "a", 0.0, 2.0, 0), (0, "b", 1.0, 1.5, 1), (0, "a", 3.0, 4.0, 0), (1, "a", 1.0, 3.0, 0)]
    run = Run("program", 3, "star", makespan_s=4.0, phases=phase_frame(rows))
    assert run.outside_phases() == (4.0, pytest.approx((1.0 + 2.0 + 4.0) / 3))
    assert [row[0] for row in run.shown_phases()] == ["a", "b", "outside phases"]
    assert "outside phases        4 s     2.33 s\n" in repr(run) + "\n"
    assert "outside phases" in run._repr_html_()
    assert "outside phases" not in repr(Run("program", 3, "star", makespan_s=4.0))


UNUSED = lk.phase("for later")


@pytest.mark.parametrize("on", ["star", pytest.param("mpi", marks=pytest.mark.mpi)])
def test_a_phase_without_with_is_told_and_one_that_is_kept_is_not(on):
    used = lk.phase("kept")

    def program(comm):
        lk.phase("bare")
        kept = UNUSED  # a rank's copy of somebody else's
        with used, lk.phase("good"):
            return lk.phase("of a function")(lambda: kept.name)()

    run = lk.run(program, 2, on=on)
    assert [note for note in run.notes if "phase" in note] == [
        "lk.phase('bare') alone marks nothing: write `with lk.phase('bare'):` before the indented lines of "
        "the phase, or @lk.phase in front of a function"
    ]


def test_results_are_shown_as_numbers_and_stay_what_they_are():
    run = lk.run(lambda comm: (np.int64(comm.rank), {"x": np.float64(0.5)}), 2)
    assert repr(run.results) == str(run.results) == "[(0, {'x': 0.5}), (1, {'x': 0.5})]"
    assert repr(run.results[:1]) == "[(0, {'x': 0.5})]"
    assert type(run.results[1][0]) is np.int64
    assert run.results == [(0, {"x": 0.5}), (1, {"x": 0.5})]
    again = pickle.loads(pickle.dumps(run))
    assert repr(again.results) == repr(run.results)
    assert repr(copy.copy(run).results) == repr(run.results)
