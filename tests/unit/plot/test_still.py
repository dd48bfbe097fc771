"""Still pictures: what stays of a figure where no kernel and no browser is."""

from __future__ import annotations

import base64
import io
import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pytest

import labkit as lk
from labkit.plot.figure import Figure
from labkit.plot.still import VARIABLE, draw_still, is_live, still_bundle
from labkit.plot.style import COUNT_JS, SHARE_JS, SI_JS, count_text, share_text, si_text

pytest.importorskip("matplotlib")
image = pytest.importorskip("PIL.Image")

WIDGET = "application/vnd.jupyter.widget-view+json"


def ring(comm: lk.MPI.Comm) -> None:
    with lk.phase("shift"):
        comm.sendrecv(np.zeros(100), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


@pytest.fixture(scope="module")
def figures() -> dict[str, Figure]:
    run = lk.run(ring, 5, "torus:5", trace=True)
    study = lk.sweep(ring, ranks=[2, 3, 4, 8], on="star", progress=False)
    return {
        "gantt": lk.plot.gantt(run),
        "sends": lk.plot.sends(run),
        "path": lk.plot.critical_path(run.explain()),
        "heat": lk.plot.heat(run.explain()),
        "utilisation": lk.plot.utilisation(run.explain()),
        "scaling": lk.plot.scaling(study.expect("1")),
        "topology": lk.plot.topology(lk.platform("fattree:2x2:1x2:1x1")),
    }


def shades(png: bytes) -> int:
    return len(image.open(io.BytesIO(png)).convert("RGB").getcolors(1 << 20))


@pytest.mark.slow
def test_every_figure_leaves_a_picture_of_more_than_paper(figures: dict[str, Figure]) -> None:
    for name, figure in figures.items():
        png = draw_still(figure, "png")
        assert png[:8] == b"\x89PNG\r\n\x1a\n", name
        picture = image.open(io.BytesIO(png))
        assert picture.info["Description"] == figure.alt, name
        assert shades(png) > 8, name
        assert len(png) < 120_000, name


def test_a_picture_is_the_same_each_time(figures: dict[str, Figure]) -> None:
    for kind in ("png", "svg", "pdf"):
        assert draw_still(figures["scaling"], kind) == draw_still(figures["scaling"], kind)


def test_words_of_the_figure_are_in_its_svg(figures: dict[str, Figure]) -> None:
    svg = draw_still(figures["scaling"], "svg").decode()
    assert "ranks p" in svg
    assert "measured" in svg


def test_lines_below_a_frame_are_in_its_picture(figures: dict[str, Figure]) -> None:
    """What a verdict reads stands there; it is told in the picture that stays, and none of it is cut."""
    verdict = lk.judge([2, 4, 8, 16, 32], [1.0, 2.1, 3.9, 8.2, 16.1], "log p", unit="s")
    for figure in (figures["scaling"], lk.predict("p^2").beside(verdict)):
        said = [one.text for one in figure.layout.below if type(one).__name__ == "Title"]
        assert len(said) > 1 or figure is figures["scaling"]
        assert said
        svg = draw_still(figure, "svg").decode()
        texts = " ".join(unescape(one) for one in re.findall(r"<text[^>]*>([^<]*)</text>", svg))
        for line in said:
            assert all(word in texts for word in line.split()), line
        pixels = np.asarray(image.open(io.BytesIO(draw_still(figure, "png"))).convert("L"))
        assert (pixels[:, -3:] > 200).all(), "a line runs out of the picture"
        assert (pixels[-2:] > 200).all(), "a line runs out of the picture"


def test_a_mark_is_where_its_value_is() -> None:
    """Of marks at 0, 3 and 10, that at 3 lies at three tenths of the way up."""
    from bokeh.plotting import figure

    plot = figure(width=300, height=300, x_range=(-1, 11), y_range=(-1, 11), toolbar_location=None)
    for value, color in ((0.0, "#0000ff"), (3.0, "#ff0000"), (10.0, "#00ff00")):
        plot.scatter([5.0], [value], size=9, color=color, line_color=None)
    png = draw_still(Figure(plot, "", ""), "png")
    pixels = np.asarray(image.open(io.BytesIO(png)).convert("RGB")).astype(int)
    low, mark, high = (
        np.argwhere((pixels[..., band] > 180) & (pixels.sum(axis=2) < 400))[:, 0].mean() for band in (2, 0, 1)
    )
    assert (low - mark) / (low - high) == pytest.approx(0.3, abs=0.01)


def test_a_hatched_box_has_its_outline() -> None:
    from bokeh.plotting import figure

    plot = figure(width=300, height=300, x_range=(-1, 11), y_range=(-1, 11), toolbar_location=None)
    plot.hbar(
        y=[2.0, 8.0], left=1.0, right=9.0, height=2.0, fill_color="#e3e3e3", line_color="#ff0000",
        line_width=2, hatch_pattern="horizontal_line", hatch_color="#707070", hatch_scale=20,
    )  # fmt: skip
    pixels = np.asarray(image.open(io.BytesIO(draw_still(Figure(plot, "", ""), "png"))).convert("RGB"))
    red = (pixels[..., 0] > 180) & (pixels[..., 1:].max(axis=2) < 120)
    assert ((red.mean(axis=1) > 0.5).sum(), (red.mean(axis=0) > 0.25).sum()) >= (4, 2)


def test_on_the_time_line_of_delays_a_wait_lies_on_white() -> None:
    def program(comm: lk.MPI.Comm) -> None:
        if comm.rank == 0:
            lk.compute(seconds=1e-3)
            comm.send(1, 1)
        else:
            comm.recv(source=0)

    drawn = lk.plot.delays(lk.run(program, 2, "star:2", trace=True)).layout
    boxes = [one.glyph for one in drawn.renderers if type(one.glyph).__name__ == "HBar"]
    behind = [box for box in boxes if box.hatch_pattern is None and box.right == drawn.x_range.end]
    assert [box.fill_color for box in behind] == ["white"]


def test_the_notebook_gets_both_and_a_kernel_without_a_page_the_still_one(
    figures: dict[str, Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("jupyter_bokeh")
    monkeypatch.setenv(VARIABLE, "1")
    assert is_live()
    both, sizes = figures["scaling"]._repr_mimebundle_()
    assert {WIDGET, "image/png", "text/plain"} <= set(both)
    assert sizes["image/png"]["width"] == figures["scaling"].layout.width
    monkeypatch.setenv(VARIABLE, "0")
    assert not is_live()
    alone, _ = figures["scaling"]._repr_mimebundle_()
    assert set(alone) == {"image/png", "text/plain"}
    assert base64.b64decode(alone["image/png"])[:4] == b"\x89PNG"


def test_an_explorer_leaves_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("jupyter_bokeh")
    explorer = lk.explore.collective()
    monkeypatch.setenv(VARIABLE, "1")
    assert {WIDGET, "image/png"} <= set(explorer._repr_mimebundle_()[0])
    monkeypatch.setenv(VARIABLE, "0")
    assert WIDGET not in explorer._repr_mimebundle_()[0]


def test_several_pictures_become_one(figures: dict[str, Figure]) -> None:
    one, two = (
        image.open(io.BytesIO(base64.b64decode(still_bundle(chosen)[0]["image/png"])))
        for chosen in ([figures["scaling"]], [figures["scaling"], figures["sends"]])
    )
    assert two.height > one.height


@pytest.mark.parametrize("tick", [0, 1, 8, 1000, 65536, 100_000, 131072, 2.0**20, 1_500_000])
def test_counts_are_written_as_in_the_browser(tick: float) -> None:
    assert count_text(tick) == _javascript(COUNT_JS, tick=tick)


@pytest.mark.parametrize("tick", [0, 2e-6, 0.0002, 0.00087, 0.05, 0.125, 1 / 3, 0.999, 1, 1.5, 12])
def test_shares_are_written_as_in_the_browser(tick: float) -> None:
    assert share_text(tick) == _javascript(SHARE_JS, tick=tick)


@pytest.mark.parametrize("top", [1e-5, 0.00087, 0.013, 0.2, 1.0])
def test_no_two_ticks_of_shares_read_the_same(top: float) -> None:
    """A bar of colors up to 0.087 % once had three ticks "0 %"."""
    assert len({share_text(tick) for tick in np.linspace(0.0, top, 6)}) == 6


@pytest.mark.slow
@pytest.mark.parametrize("tick", [0, 1.2e-5, 3.5e-4, 0.02, 1, 12.5, 1500, 2.5e6, 1e-10])
@pytest.mark.parametrize("unit", ["s", "B", ""])
def test_values_are_written_as_in_the_browser(tick: float, unit: str) -> None:
    assert si_text(tick, unit) == _javascript(SI_JS, tick=tick, unit=unit).strip()


def _javascript(code: str, **names: object) -> str:
    """Run a formatter's own code, where there is something to run it."""
    import shutil
    import subprocess

    node = shutil.which("node")
    if node is None:
        pytest.skip("no node to run the browser's code")
    keys, values = ",".join(names), json.dumps(list(names.values()))
    script = f"process.stdout.write(String((function({keys}){{{code}}})(...{values})))"
    return subprocess.run([node, "-e", script], capture_output=True, text=True, check=True).stdout


def test_without_matplotlib_there_is_no_still_picture(
    figures: dict[str, Figure], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    assert still_bundle([figures["scaling"]]) == ({}, {})


def test_pages_hold_no_widget_of_a_saved_notebook() -> None:
    """The script that saves still pictures alone leaves all other outputs as they are."""
    import shutil
    import subprocess

    node = shutil.which("node")
    if node is None:
        pytest.skip("no node")
    source = (Path(lk.plot.__file__).parent / "js" / "picture.js").read_text("utf-8")
    begin = source.index("const WIDGET")
    end = source.index("// Keep the document in the page")
    outputs = [
        {"data": {WIDGET: {"model_id": "a"}, "image/png": "x"}},
        {"data": {WIDGET: {"model_id": "b"}}},
        {"output_type": "stream", "text": "hello"},
    ]
    book = {"cells": [{"outputs": outputs, "source": "1"}, {"source": "text"}], "nbformat": 4}
    script = f"""{source[begin:end]}
    const book = {json.dumps(book)}
    const live = {{toJSON: () => book}}
    const model = {{widget_manager: {{context: {{model: live}}}}}}
    saveStills(model); saveStills(model)
    process.stdout.write(JSON.stringify([live.toJSON(), book]))"""
    done = subprocess.run([node, "-e", script], capture_output=True, text=True, check=True)
    saved, live = json.loads(done.stdout)
    assert saved["cells"][0]["outputs"] == [{"data": {"image/png": "x"}}, *outputs[1:]]
    assert saved["cells"][1] == book["cells"][1]
    assert live == book
