"""A readable form beside the algorithm in use: what is shown, and a race of the two."""

from __future__ import annotations

import html
import re

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import ScheduleError
from labkit.jupyter.lecture import _dressed
from tests.support.refusals import raises_code

COLLECTIVES = [pair for pair in registry.teaching_forms() if pair[0] != "sorting"]


def times(race) -> list[np.ndarray]:
    return [study.curve().samples.aggregate("quartile") for study in race.studies.values()]


@pytest.mark.parametrize(("problem", "name"), registry.teaching_forms())
def test_both_sources_are_shown_side_by_side_and_whole(problem, name):
    shown = lk.lecture(problem, name)
    columns = re.findall(r"<pre[^>]*>(.*?)</pre>", shown._repr_html_(), re.DOTALL)
    texts = [html.unescape(re.sub(r"</?(b|span)[^>]*>", "", column)) for column in columns]
    assert texts == [shown.source, shown.used_source]
    assert f"labkit/algorithms/{problem}/{name}.py" in repr(shown)


def test_no_line_of_a_source_ends_inside_a_word():
    """JupyterLab breaks preformatted text anywhere, unless its own style says otherwise."""
    styles = re.findall(r'<pre[^>]* style="([^"]*)"', lk.lecture("bcast")._repr_html_())
    assert len(styles) == 2
    assert all("word-break:normal" in style for style in styles)


def test_no_markup_comes_from_a_source():
    assert (
        _dressed("a = '<b>' # <i>\n")
        == 'a = &#x27;&lt;b&gt;&#x27; <span style="opacity:0.65"># &lt;i&gt;</span>\n'
    )


@pytest.mark.parametrize(("problem", "name"), COLLECTIVES)
def test_a_collective_loses_by_what_its_objects_weigh_more_only(problem, name):
    """The same messages in the same rounds: pickles of arrays are some hundred bytes longer than arrays."""
    form, used = times(lk.lecture(problem, name).race([2, 4, 8], n=2000))
    assert np.all(form >= used)
    assert np.all(form <= 1.03 * used)


def test_a_sort_loses_by_what_it_leaves_out():
    """One splitter after the other: p - 1 searches where the algorithm in use makes one of all."""
    form, used = times(lk.lecture("sorting", "exact_splitting_sort").race([4, 8], n=100))
    assert np.all(form > 2 * used)


def test_a_race_shows_itself_and_says_what_a_form_needs():
    race = lk.lecture("allreduce", "recursive_doubling").race([2, 4], n=10)
    assert [line.split()[0] for line in str(race).splitlines()] == ["allreduce/recursive_doubling:", "2", "4"]
    bundle = race._repr_mimebundle_()
    assert "as labkit uses it" in (bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"]
    with raises_code(lk.errors.LabkitError, "rank-failed", "1", "2", "4", "8"):
        lk.lecture("allreduce", "recursive_doubling").race([3], n=10)
    with raises_code(ScheduleError, "unsupported", "allgather/ring"):
        lk.lecture("bcast", "chain")


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("bcast", "bcast/binomial"),
        ("sample_sort", "sorting/sample_sort"),
        ("sorting/sample_sort", "sorting/sample_sort"),
        ("dissemination", "barrier/dissemination"),
    ],
)
def test_an_algorithm_is_found_by_either_of_its_names(words, found):
    assert "/".join((lk.lecture(words).problem, lk.lecture(words).name)) == found


@pytest.mark.parametrize(
    ("words", "code", "facts"),
    [
        ("sorting", "ambiguous", ["sorting/mini_sort", "sorting/radix_sort"]),
        ("ring", "ambiguous", ["allgather/ring", "allreduce/ring"]),
        ("smaple_sort", "unsupported", ["smaple_sort", "'sample_sort'"]),
        ("bcast/chain", "unsupported", ["bcast/chain"]),
    ],
)
def test_what_is_no_one_algorithm_is_refused_with_those_that_are(words, code, facts):
    with raises_code(ScheduleError, code, *facts):
        lk.lecture(words)


@pytest.mark.mpi
def test_on_real_mpi_a_collective_races_with_the_librarys_own():
    race = lk.lecture("bcast", "binomial").race([2], "mpi", n=10, repeats=2)
    assert list(race.studies) == ["as the lecture writes it", "the MPI library's own"]
    assert all((curve > 0).all() for curve in times(race))
