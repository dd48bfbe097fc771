"""Tables side by side, and programs side by side in a picture."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from bokeh.models import GlyphRenderer, Plot

from labkit import plot
from labkit.errors import DataError
from labkit.study import Comparison, Study
from tests.support.refusals import raises_code

P = (16, 32, 64, 128, 256)


def study(scale: float, power: float = 1.0) -> Study:
    """A phase that grows as a power of p, and one that stays."""
    rows = []
    for p in P:
        times = {"meet": scale * p**power, "work": 3e-4}
        rows += [{"ranks": p, "metric": "phase_s", "phase": n, "value": t} for n, t in times.items()]
        rows.append({"ranks": p, "metric": "makespan_s", "phase": "", "value": sum(times.values())})
    return Study(pd.DataFrame(rows))


def table(power: float, **phases: str):
    return study(1e-6, power).table(phases or {"meet": "p", "work": "1"}, total="p")


@pytest.fixture
def comparison() -> Comparison:
    return Comparison(
        {
            "good": {"star": table(1.0), "ring": table(1.25)},
            "bad": {"star": table(2.0), "ring": table(2.0, meet="p^2", work="1")},
        }
    )


def test_every_cell_is_the_verdict_of_its_own_table(comparison):
    cells = comparison.frame.set_index(["program", "machine", "phase"])["match"]
    for program, machines in comparison.tables.items():
        for machine, one in machines.items():
            for phase, verdict in one.verdicts.items():
                assert cells[program, machine, phase] == verdict.match
    assert cells["good", "star", "meet"] == "exact"
    assert cells["good", "ring", "meet"] == "approximate"
    assert cells["bad", "star", "meet"] == "none"
    assert comparison.counts == {m: int((cells == m).sum()) for m in comparison.counts}
    assert sum(comparison.counts.values()) == len(cells) == 12


def test_text_puts_machines_beside_each_other(comparison):
    blocks = str(comparison).split("\n\n")
    assert [block.split()[0] for block in blocks] == ["good", "bad"]
    head, meet, work, phases, whole = blocks[0].splitlines()
    assert head.split() == ["good", "expected", "star", "ring"]
    assert re.fullmatch(r"meet +p +✓ p +≈ p\^1\.25", meet)
    assert re.fullmatch(r"work +1 +✓ 1 +✓ 1", work)
    assert re.fullmatch(r"sum of phases +p +✓ p +≈ p\^1\.25", phases)
    assert whole.startswith("whole run")
    assert "p | p^2" in blocks[1], "each machine had its own expectation"


def test_html_says_the_match_without_color(comparison):
    page = comparison._repr_html_()
    for sign in "✓≈✗":
        assert sign in page
    assert page.count("<details>") == 1
    assert 'title="approximate"' in page


def test_html_is_lean_enough_for_a_notebook_full_of_comparisons(comparison):
    rows = sum(len(table) for machines in comparison.tables.values() for table in machines.values())
    assert len(comparison._repr_html_()) < 1000 * rows


def test_a_machine_that_one_program_did_not_run_on_stays_empty():
    text = str(Comparison({"a": {"star": table(1.0)}, "b": {"ring": table(1.0)}}))
    assert re.search(r"^meet +p +✓ p$", text, re.M)
    assert re.search(r"^meet +p +✓ p$", text.split("\n\n")[1], re.M)


@pytest.mark.parametrize("tables", [{}, {"a": {}}])
def test_nothing_to_compare_is_refused(tables):
    with raises_code(DataError, "not-enough-data"):
        Comparison(tables)


def test_the_figure_has_a_panel_per_machine_and_a_line_per_program():
    slow, fast = study(1e-5), study(1e-6)
    figure = plot.compare({"star": {"slow": slow, "fast": fast}, "ring": {"slow": slow}})
    panels = [child[0] for child in figure.layout.children]
    assert all(isinstance(panel, Plot) for panel in panels)
    drawn = [
        [r for r in panel.renderers if isinstance(r, GlyphRenderer) and type(r.glyph).__name__ == "Line"]
        for panel in panels
    ]
    assert [len(legend.items) for panel in panels for legend in panel.legend] == [2], "of both programs"
    lines = [[one for one in panel if np.isfinite(one.data_source.data["y"]).all()] for panel in drawn]
    assert [len(panel) for panel in lines] == [2, 1]
    np.testing.assert_array_equal(lines[0][0].data_source.data["x"], P)
    np.testing.assert_allclose(lines[0][1].data_source.data["y"], [1e-6 * p + 3e-4 for p in P])
    assert lines[0][0].glyph.line_dash != lines[0][1].glyph.line_dash, "told apart without color"
    assert lines[0][0].glyph.line_color == lines[1][0].glyph.line_color, "one program, one color"
    assert panels[0].y_range.start == panels[1].y_range.start
    assert figure.reading == "Fastest at 256 ranks: fast on star; slow on ring."
    assert "star: slow 460 µs to 2.86 ms, fast 316 µs to 556 µs" in figure.alt


def test_the_figure_can_show_a_phase():
    figure = plot.compare({"star": {"only": study(1e-6)}}, phase="work")
    panel = figure.layout.children[0][0]
    assert panel.yaxis[0].axis_label == "time of work"


def test_no_study_is_refused():
    with raises_code(DataError, "no-data"):
        plot.compare({})
