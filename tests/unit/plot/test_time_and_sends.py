"""Time lines, send matrices and efficiency: what they hold, what they say, and how they stay small."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit import plot
from labkit.errors import DataError
from labkit.plot.sends_figure import MOST_ROWS, send_tables
from labkit.study import Study
from tests.support.refusals import raises_code


def shift(comm: object) -> None:
    with lk.phase("work"):
        lk.compute(seconds=1e-5)
    with lk.phase("shift"):
        comm.sendrecv(b"x" * 1000, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


def sources(figure: plot.Figure, glyph: str) -> list[dict[str, np.ndarray]]:
    panels = [child for child, *_ in getattr(figure.layout, "children", [(figure.layout,)])]
    drawn = [r for panel in panels for r in panel.renderers]
    return [r.data_source.data for r in drawn if type(r.glyph).__name__ == glyph]


def test_a_gantt_chart_has_bars_arrows_and_phases() -> None:
    run = lk.run(shift, 4, on="star", trace=True)
    figure = plot.gantt(run)
    bars = sources(figure, "HBar")
    assert sum(float((b["right"] - b["left"]).sum()) for b in bars) == pytest.approx(sum(run.trace.ends_s))
    size = int(run.trace.messages["bytes"].iloc[0])
    assert f"0 to 1, {size / 1000:.4g} kB" in {message for bar in bars for message in bar["message"]}
    _, arrows = sources(figure, "Segment")  # each on its light edge
    assert sorted(zip(arrows["y0"], arrows["y1"], strict=True)) == [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert len(sources(figure, "VArea")) == 2, "a lane for each phase"
    assert "Arrows are messages." in figure.reading
    assert "share of the ranks in each phase" in figure.reading
    assert re.search(r"Every rank is busy \d+% of the run\.", figure.alt)
    alone = lk.run(lambda comm: lk.compute(seconds=1e-3), 2, on="star", trace=True)
    assert "Arrows" not in plot.gantt(alone).reading


def test_many_ranks_become_cells_that_stay_few_and_say_so() -> None:
    run = lk.run(shift, 1024, on="star", trace=True)
    figure = plot.gantt(run)
    quads = sources(figure, "Quad")
    assert sum(len(q["left"]) for q in quads) <= MOST_ROWS * 400
    assert not sources(figure, "HBar")
    assert "Each cell is 8 ranks for" in figure.reading
    assert "below: the shares of all ranks" in figure.reading
    for quad in quads:
        total = sum(shares for name, shares in quad.items() if name.startswith("share"))
        assert (total <= 1 + 1e-5).all()


def test_phases_alone_are_drawn_of_a_run_without_a_trace() -> None:
    figure = plot.gantt(lk.run(shift, 3, on="star"))
    assert sum(len(bar["left"]) for bar in sources(figure, "HBar")) == 6
    assert "trace=True" in figure.reading
    with raises_code(DataError, "no-data", "trace=True"):
        plot.gantt(lk.run(lambda comm: None, 2, on="star"))
    with raises_code(DataError, "no-data"):
        plot.gantt(lk.run(lambda comm: None, 2, on="star", trace=True))


def test_send_tables_are_sums_by_blocks() -> None:
    rng = np.random.default_rng(3)
    for ranks in (1, 5, 128, 129, 1000):
        a, b = rng.integers(0, ranks, (2, 500))
        n = rng.integers(0, 1000, 500).astype(float)
        table, counts, block = send_tables(ranks, a, b, n)
        assert table.shape == counts.shape
        assert max(table.shape) <= MOST_ROWS
        for row, column in rng.integers(0, table.shape[0], (20, 2)):
            inside = (a // block == row) & (b // block == column)
            assert (counts[row, column], table[row, column]) == (inside.sum(), n[inside].sum())
        assert (counts.sum(), table.sum()) == (500, n.sum())


def test_a_matrix_of_65536_ranks_stays_small() -> None:
    p = 65536
    a = np.arange(p)
    table, _, block = send_tables(p, a, (a + 1) % p, np.ones(p))
    assert block == 512
    assert table.shape == (128, 128)
    assert table.trace() == p - 128


def test_sends_of_a_phase_and_of_none() -> None:
    def two(comm: object) -> None:
        for name, size in (("small", 10), ("large", 1000)):
            with lk.phase(name):
                comm.Sendrecv(bytes(size), (comm.rank + 1) % 4, 0, bytearray(size), (comm.rank - 1) % 4, 0)

    run = lk.run(two, 4, on="star", trace=True)
    assert "8 messages with 4.04 kB; a rank sends to 1 other" in plot.sends(run).reading
    small = plot.sends(run, phase="small")
    assert "two, phase small, 4 ranks: 4 messages with 40 B" in small.reading
    assert "every rank sends and receives the same amount" in small.reading
    (cells, _) = sources(small, "Quad")
    assert list(cells["who"]) == ["rank 0", "rank 1", "rank 2", "rank 3"]
    with raises_code(DataError, "unknown-name", "'none'"):
        plot.sends(run, phase="none")
    with raises_code(DataError, "not-recorded", "trace=True"):
        plot.sends(lk.run(two, 4, on="star"))
    with raises_code(DataError, "no-data"):
        plot.sends(lk.run(lambda comm: None, 2, on="star", trace=True))


def study(law: object, unit: str = "s") -> Study:
    rows = [{"ranks": p, "metric": "makespan_s", "value": law(p), "unit": unit} for p in (2, 4, 8, 16, 32)]
    return Study(pd.DataFrame(rows))


def test_efficiency_by_amdahls_law() -> None:
    serial, parallel = 1.0, 9.0
    figure = plot.efficiency(study(lambda p: serial + parallel / p), baseline_s=serial + parallel)
    lines = sources(figure, "Scatter")
    p = np.array([2, 4, 8, 16, 32.0])
    np.testing.assert_allclose(lines[0]["y"], 10 / (1 + 9 / p))
    np.testing.assert_allclose(lines[1]["y"], 10 / (p + 9))
    assert figure.reading.startswith("Speedup 7.8 and efficiency 24% at 32 ranks, below 50% from 16 on")
    assert "against 10 s on one rank" in figure.reading


def test_weak_scaling_and_relative_speedup() -> None:
    figure = plot.efficiency({"a": study(lambda p: 1 + 0.1 * p), "b": study(lambda p: 3.0)}, "weak")
    tables = sources(figure, "Scatter")
    np.testing.assert_allclose(tables[1]["y"], [2, 4, 8, 16, 32])
    np.testing.assert_allclose(tables[2]["y"], 1.2 / (1 + 0.1 * np.array([2, 4, 8, 16, 32])))
    assert "relative to each one's own time at 2 ranks" in figure.reading
    assert "a: speedup" in figure.reading
    assert "b: 2: 100%" in figure.alt


def test_more_than_p_times_as_fast_is_said_and_a_little_more_is_not() -> None:
    reading = plot.efficiency(study(lambda p: 8.0 / p if p < 16 else 6.0 / p)).reading
    assert "above the ideal (superlinear), most at 16 ranks with 133%" in reading
    assert "superlinear" not in plot.efficiency(study(lambda p: 8.0 / p if p < 16 else 7.9 / p)).reading


def test_what_efficiency_refuses() -> None:
    with raises_code(DataError, "unknown-name", '"strong"', '"weak"', "'hard'"):
        plot.efficiency(study(lambda p: 1.0), "hard")
    with raises_code(DataError, "out-of-range", "0"):
        plot.efficiency(study(lambda p: 1.0), baseline_s=0)
    with raises_code(DataError, "no-data"):
        plot.efficiency({})
