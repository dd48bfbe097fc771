"""Figures and pages: what they hold, that they stand alone, and that they say in words what they show."""

from __future__ import annotations

import html
import math
import pickle
import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from bokeh.models import GlyphRenderer, LogAxis, Plot, Title, VArea

import labkit as lk
from labkit import plot
from labkit.plot.still import still_bundle
from labkit.plot.style import COLORS, rank_ticks, value_axis
from labkit.scaling import Term
from labkit.study import Study

P = np.array([16.0, 32, 64, 128, 256])


def study() -> Study:
    laws = {"sort": lambda p: 8e-5, "exchange": lambda p: 2e-5 + 3e-6 * p}
    rows = []
    for p in (16, 32, 64, 128, 256):
        times = {name: law(p) for name, law in laws.items()}
        rows += [{"ranks": p, "metric": "phase_s", "phase": n, "value": t} for n, t in times.items()]
        rows.append({"ranks": p, "metric": "makespan_s", "phase": "", "value": sum(times.values())})
    return Study(pd.DataFrame(rows))


def titles(layout: object) -> str:
    assert isinstance(layout, Plot)
    parts = [*reversed(layout.above), *layout.below]  # what is added above goes on top
    return " ".join(t.text for t in parts if isinstance(t, Title))


def glyphs(layout: Plot, kind: str) -> list[GlyphRenderer]:
    return [r for r in layout.renderers if type(r.glyph).__name__ == kind]


def test_the_figure_holds_data_model_expectation_band_and_words() -> None:
    rng = np.random.default_rng(1)
    y = (1e-4 + 1e-6 * P * np.log2(P))[:, None] * (1 + 0.03 * rng.standard_normal((5, 6)))
    verdict = lk.judge(P, y, "p", metric="makespan_s", unit="s")
    figure = plot.scaling(verdict)
    every, strong = glyphs(figure.layout, "Scatter")
    assert len(every.data_source.data["x"]) == 30
    np.testing.assert_allclose(strong.data_source.data["y"], np.percentile(y, 25, axis=1))
    lines = glyphs(figure.layout, "Line")
    assert verdict.model is not None
    assert verdict.reference is not None
    np.testing.assert_allclose(
        lines[0].data_source.data["y"], verdict.model.predict(lines[0].data_source.data["x"])
    )
    assert lines[2].glyph.line_dash == [7, 7], "told apart without color"
    np.testing.assert_allclose(
        lines[2].data_source.data["y"], verdict.reference.predict(lines[2].data_source.data["x"])
    )
    assert verdict.sentence(Term.pretty) in titles(figure.layout)
    assert "adjusted R²" in titles(figure.layout)
    assert "µs" in titles(figure.layout)
    assert verdict.sentence(Term.pretty) in figure.alt
    assert "16:" in figure.alt


def test_the_band_opens_from_the_first_point_by_the_limit() -> None:
    verdict = lk.judge(P, 5 * P, "p")
    (band,) = glyphs(plot.scaling(verdict).layout, "VArea")
    assert isinstance(band.glyph, VArea)
    data = band.data_source.data
    at, low, high = (np.asarray(data[k]) for k in ("x", "y1", "y2"))
    np.testing.assert_allclose(high / low, at / at[0])  # sqrt(p) up and down
    np.testing.assert_allclose(np.sqrt(high * low), 5 * at)


@pytest.mark.parametrize(
    ("y", "expectation"),
    [
        (P**2, "log p"),
        (1 / P, "1/p"),
        (1 / P, "p^2"),  # an expectation that cannot be fitted
        (7 + 0 * P, "1"),
        (2.0 ** (P / 16), "2^(p/16)"),
        (P * 1e-12, "p"),
        (P * 1e12, "p log p"),
    ],
)
def test_every_kind_of_verdict_can_be_drawn(y: np.ndarray, expectation: str) -> None:
    figure = plot.scaling(lk.judge(P, y, expectation, unit="s"))
    low, high = figure.layout.y_range.start, figure.layout.y_range.end
    assert 0 < low < y.min() <= y.max() < high < math.inf
    ticks = [t for t in figure.layout.yaxis[0].ticker.ticks if low <= t <= high]
    assert 2 <= len(ticks) <= 14
    assert figure.to_page().count("<figure") == 1


def test_the_legend_leaves_repetitions_in_sight_below_many_lines_of_words() -> None:
    """Headings and the reading take a third of the height: what is free is less than the figure is high."""
    x = [2000, 4000, 8000, 16000, 32000]
    y = [[200e-6, high, 180e-6, 190e-6] for high in (4e-3, 4e-3, 2e-3, 30e-3, 1e-3)]
    fig = plot.scaling(lk.judge(x, y, "p")).layout
    legend = fig.legend[0]
    titles = [one for one in [*fig.above, *fig.below] if isinstance(one, Title)]
    assert len(titles) > 5
    high = fig.height - 50 - 25 * len(titles)  # pixels of the frame
    bottom = 1 - (len(legend.items) * 22 + 28) / high
    lowest = np.log(4e-3 / fig.y_range.start) / np.log(fig.y_range.end / fig.y_range.start)
    assert lowest > bottom, "this case is one that the legend would cover"
    assert legend.location == "top_right"
    few = plot.scaling(lk.judge(x, [value[0] for value in y], "p")).layout
    assert few.legend[0].location == "top_left"


def test_too_few_values_still_show_the_measurements() -> None:
    figure = plot.scaling(lk.judge(P[:3], P[:3], "p"))
    assert "at least 5" in figure.reading
    assert len(glyphs(figure.layout, "Scatter")) == 1


def test_a_model_alone_can_be_drawn() -> None:
    figure = plot.scaling(lk.fit(P, 3 * P), unit="s")
    assert "It grows like p" in figure.reading
    assert not glyphs(figure.layout, "VArea")


def test_studies_draw_themselves() -> None:
    s = study()
    assert "as expected" in s.plot("p", phase="exchange").reading
    assert "grows like" in s.plot(phase="exchange").reading


def test_phases_and_shares() -> None:
    s = study()
    figure = plot.phases(s, s.table({"sort": "1", "exchange": "log p"}))
    assert "sort: ✓ exact: constant, as expected" in figure.alt
    assert "exchange: ✗ none: p, expected log p" in figure.alt
    shares = plot.shares(s)
    tops = [r.data_source.data["top"] for r in shares.layout.select(GlyphRenderer)]
    np.testing.assert_allclose(np.max(tops, axis=0), 1.0)
    assert "At 256 ranks the phase exchange takes 91%" in shares.reading


def test_a_page_stands_alone(tmp_path: Path) -> None:
    s = study()
    items = ["Prose with `code`, **weight** & <tags>.\n\n# A heading", s, s.expect("p"), s.fit(),
             plot.shares(s), s.plot("p"), s.data.head(2), s.table(), 42]  # fmt: skip
    path = plot.page("Does it <scale>?", items, tmp_path / "demo.html")
    text = path.read_text(encoding="utf-8")
    assert "<title>Does it &lt;scale&gt;?</title>" in text
    assert "<code>code</code>, <strong>weight</strong> &amp; &lt;tags&gt;." in text
    assert "<h2>A heading</h2>" in text
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]+(?:src|href)=", text), "nothing is fetched"
    assert text.count("BokehJS library, version") <= 1 or text.count("Bokeh.set_log_level") == 1
    assert text.count('<div role="img"') == 2
    assert all(len(alt) > 40 for alt in re.findall(r'aria-label="([^"]+)"', text))
    assert [f.name for f in tmp_path.iterdir()] == ["demo.html"]


def test_a_figure_can_be_pickled_and_draws_the_same() -> None:
    run = lk.run(lambda comm: lk.compute(seconds=1e-3 * (1 + comm.rank)), 3, "star", trace=True)
    drawn = plot.gantt(run)
    for _ in range(2):  # the second time it is in the page of a notebook
        again = pickle.loads(pickle.dumps(drawn))
        assert (again.reading, again.alt, again.file_name()) == (drawn.reading, drawn.alt, drawn.file_name())
        assert still_bundle([again])[0] == still_bundle([drawn])[0] != {}
        held = [one.layout.select_one({"type": GlyphRenderer}).data_source.data for one in (drawn, again)]
        assert held[0]["right"].tolist() == held[1]["right"].tolist()
        assert drawn._repr_mimebundle_()


def test_a_page_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    class Bad:
        def _repr_html_(self) -> str:
            raise RuntimeError("no")

    path = plot.page("old", ["text"], tmp_path / "p.html")
    with pytest.raises(RuntimeError):
        plot.page("new", [Bad()], path)
    assert "<title>old</title>" in path.read_text()
    with pytest.raises(OSError, match="No such file"):
        plot.page("x", [], tmp_path / "none" / "p.html")


def test_figures_show_themselves_in_notebooks() -> None:
    bundle, _ = plot.scaling(lk.judge(P, P, "p"))._repr_mimebundle_()
    assert "Exact match" in bundle["text/plain"]
    assert {"application/vnd.jupyter.widget-view+json", "text/html", "image/png"} & set(bundle)


@pytest.mark.parametrize("has_words", [False, True])
def test_a_saved_figure_says_its_reading_once(tmp_path: Path, has_words: bool) -> None:
    figure = plot.scaling(lk.judge(P, P, "p"))
    figure.has_words = has_words
    text = figure.save(tmp_path / "figure.html").read_text(encoding="utf-8")
    seen = re.sub(r"<[^>]*>", "", text[text.index("<main>") :])
    assert seen.count(html.escape(figure.reading)) == (0 if has_words else 1)


def test_without_jupyter_bokeh_a_framed_page_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "labkit.plot.widget", raising=False)
    monkeypatch.setitem(sys.modules, "jupyter_bokeh.widgets", None)
    monkeypatch.setenv("LABKIT_LIVE", "1")
    bundle, _ = plot.scaling(lk.judge(P, P, "p"))._repr_mimebundle_()
    assert bundle["text/html"].startswith("<iframe srcdoc=")


def test_ticks_are_the_measured_values_thinned() -> None:
    assert rank_ticks([4, 2, 2, 8]).ticks == [2, 4, 8]
    many = rank_ticks(2.0 ** np.arange(20), room=5).ticks
    assert len(many) == 5
    assert many[-1] == 2.0**19


def test_a_low_panel_has_fewer_ticks_of_values() -> None:
    for room, expected in ((9, [0.5, 0.6, 0.8, 1, 1.2, 1.5, 2, 2.5]), (5, [0.5, 1, 2])):
        axis = LogAxis()
        value_axis(axis, "", 0.5, 2.6, room)
        assert [tick for tick in axis.ticker.ticks if 0.5 <= tick <= 2.6] == expected


def test_colors_differ_in_lightness_or_hue_for_color_blind_readers() -> None:
    """Simulate deuteranopia (Machado et al. 2009, severity 1) on the two line colors and the band."""
    matrix = np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                       [-0.011820, 0.042940, 0.968881]])  # fmt: skip
    seen = []
    for color in COLORS[:2]:
        rgb = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
        seen.append(matrix @ np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4))
    assert np.abs(seen[0] - seen[1]).max() > 0.2
