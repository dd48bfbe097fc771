"""The stacked shares of a model's summands."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from bokeh.models import Span, VArea

import labkit as lk
from labkit.errors import DataError
from tests.support.browser import needs_browser
from tests.support.refusals import raises_code

P = 2.0 ** np.arange(4, 13)


def test_shares_add_up_and_the_crossover_is_marked() -> None:
    model = lk.fit(P, 3e-5 * P + 2e-9 * P**2 + 2e-3)
    figure = lk.plot.summands(model)
    assert "p hides p² up to about p = 15,000: from there on p² is the largest part." in figure.reading
    assert "p = 4096" in figure.reading
    plot = figure.layout
    areas = [r.data_source.data for r in plot.renderers if isinstance(r.glyph, VArea)]
    assert len(areas) == 3
    np.testing.assert_allclose(areas[0]["y1"], 0.0)
    for below, above in pairwise(areas):
        np.testing.assert_allclose(below["y2"], above["y1"])
    np.testing.assert_allclose(areas[-1]["y2"], 1.0)
    places = sorted(line.location for line in plot.select(Span))
    assert places == pytest.approx([4096, 3e-5 / 2e-9], rel=0.02)
    assert plot.x_range.end > 15000


@pytest.mark.slow
@needs_browser
def test_shares_are_drawn_to_a_file(tmp_path: Path) -> None:
    figure = lk.plot.summands(lk.fit(P, 3e-5 * P + 2e-9 * P**2 + 2e-3))
    picture = figure.save(tmp_path / "shares.png")
    assert picture.stat().st_size > 10_000


def test_a_verdict_is_drawn_by_its_model_and_a_far_crossover_only_told() -> None:
    verdict = lk.judge(P, 5.0 * P + 1e-7 * P**2, "p^2", phase="splitters")
    figure = lk.plot.summands(verdict)
    assert "p hides p² up to about p = 50,000,000" in figure.reading
    assert figure.layout.x_range.end == pytest.approx(2 * 4096)
    assert len(list(figure.layout.select(Span))) == 1


def test_models_without_shares_are_refused_in_sentences() -> None:
    assert "Left out, since negative: the constant" in lk.plot.summands(lk.fit(P, P - 1)).reading
    with raises_code(DataError, "no-data"):
        lk.plot.summands(lk.judge([1, 2], [1, 2], "p"))


def test_pictures_of_data_without_a_law_say_so() -> None:
    y = [0.253, 0.412, 0.626, 0.816, 0.936, 1.0]
    verdict = lk.judge(P[:6], y, "p", unit="s")
    figure = lk.plot.scaling(verdict)
    labels = [str(item.label) for legend in figure.layout.legend for item in legend.items]
    assert any("nearest curve" in label for label in labels)
    assert not any("model:" in label for label in labels)
