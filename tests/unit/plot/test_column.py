"""Figures at the width of a paper's column: letters that can be read, nothing cut, nothing over another."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit.plot.figure import WIDTHS, Figure

text = pytest.importorskip("matplotlib.text")
column_page = pytest.importorskip("labkit.plot.column").column_page


def ring(comm: lk.MPI.Comm) -> None:
    with lk.phase("exchange of everything with everybody"):
        comm.sendrecv(np.zeros(100), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)
    with lk.phase("work"):
        lk.compute(seconds=1e-5 * (1 + comm.rank % 3))
    comm.allreduce(1.0)


def figures() -> dict[str, Callable[[], Figure]]:
    run = lk.run(ring, 12, "torus:4x3", trace=True)
    study = lk.sweep(ring, ranks=[4, 8, 12, 16, 32], on="star", progress=False)
    x = np.array([2.0, 4, 8, 16, 32, 64])
    return {
        "gantt": lambda: lk.plot.gantt(run),
        "scaling": lambda: lk.plot.scaling(study.expect("p")),
        "topology": lambda: lk.plot.topology("fattree:4x4:1x2:1x2"),
        "waits": lambda: lk.plot.waits(run),
        "compare": lambda: lk.plot.compare({"star": {"ring": study}, "torus": {"another": study}}),
        "sends": lambda: lk.plot.sends(run),
        "path": lambda: lk.plot.critical_path(run.explain()),
        "utilisation": lambda: lk.plot.utilisation(run.explain()),
        "heat": lambda: lk.plot.heat(run.explain()),
        "delays": lambda: lk.plot.delays(run),
        "phases": lambda: lk.plot.phases(study),
        "shares": lambda: lk.plot.shares(study),
        "efficiency": lambda: lk.plot.efficiency(study),
        "summands": lambda: lk.plot.summands(lk.fit(x, 1 + 2 * x + 0.1 * x * x)),
        "report": lambda: lk.plot.report(run),
        "dragonfly": lambda: lk.plot.topology("dragonfly:4x4:3x4:5x1:2"),
        "star": lambda: lk.plot.topology("star:16"),
    }


FIGURES = figures()
QUICK = ("gantt", "scaling", "topology", "waits")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in FIGURES]
)
def test_every_text_can_be_read(name: str, width: str, monkeypatch: pytest.MonkeyPatch) -> None:
    page = column_page(FIGURES[name]().layout, WIDTHS[width])
    drawn = []
    draw = text.Text.draw

    def noted(self: text.Text, renderer: object) -> None:
        if self.get_visible() and self.get_text().strip():
            drawn.append((self.get_text(), self.get_fontsize(), self.get_window_extent(renderer)))
        draw(self, renderer)

    monkeypatch.setattr(text.Text, "draw", noted)
    page.canvas.draw()
    assert len(drawn) > 3
    assert page.get_size_inches()[0] == pytest.approx(WIDTHS[width])
    assert page.get_size_inches()[1] < 11.0
    for words, points, box in drawn:
        assert 6 <= points <= 9, words
        assert -1 <= box.x0 <= box.x1 <= page.bbox.width + 1, f"{words!r} is cut"
        assert -1 <= box.y0 <= box.y1 <= page.bbox.height + 1, f"{words!r} is cut"
    for one, other in combinations(drawn, 2):
        common = [min(one[2].max[k], other[2].max[k]) - max(one[2].min[k], other[2].min[k]) for k in (0, 1)]
        assert min(common) < 2, f"{one[0]!r} is over {other[0]!r}"


@pytest.mark.parametrize(("width", "points"), [("single", 252), ("double", 515.52), (5, 360)])
def test_a_file_is_as_wide_as_asked(tmp_path: Path, width: str | float, points: float) -> None:
    from PIL import Image

    pdf, png, svg = lk.plot.topology("star:5").save(
        tmp_path / "f.pdf", tmp_path / "f.png", tmp_path / "f.svg", width=width
    )
    box = re.search(rb"/MediaBox \[ ?0 0 ([\d.]+) ([\d.]+)", pdf.read_bytes())
    assert box is not None
    assert float(box[1]) == pytest.approx(points, abs=0.1)
    with Image.open(png) as picture:
        assert picture.width == pytest.approx(points / 72 * 300, abs=1)
        assert picture.info["dpi"][0] == pytest.approx(300, abs=0.1)
    assert float(re.findall(r'width="([\d.]+)pt"', svg.read_text())[0]) == pytest.approx(points, abs=0.1)


def test_a_legend_names_programs_that_only_other_machines_ran() -> None:
    page = column_page(FIGURES["compare"]().layout, 3.5)
    assert [one.get_text() for one in page.legends[0].get_texts()] == ["ring", "another"]
