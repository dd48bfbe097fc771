"""Figures as files: PNG and SVG hold the picture and its words; what is missing is said."""

from __future__ import annotations

import base64
import gzip
import io
import re
import stat
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from bokeh.plotting import figure as bokeh_figure
from PIL import Image

import labkit as lk
from labkit import plot
from labkit.errors import DataError
from labkit.plot import figure as figures
from labkit.plot.figure import VARIABLE, find_browser
from labkit.plot.still import described
from tests.support.browser import needs_browser
from tests.support.refusals import raises_code

KINDS = ("pdf", "png", "svg")
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def figure() -> plot.Figure:
    made = plot.topology("torus:4x4", route=(0, 10))
    made.alt += " </script> & <b>"  # words cannot break the page that draws them
    return made


@pytest.mark.slow
@needs_browser
def test_a_png_holds_the_picture_and_says_what_it_shows(figure: plot.Figure, tmp_path: Path) -> None:
    (tmp_path / "f.png").write_bytes(figures.draw_file(figure, "png"))
    with Image.open(tmp_path / "f.png") as picture:
        words = dict(picture.text)
        assert (words["Title"], words["Description"]) == (figure.reading, figure.alt)
        width, height = picture.size
        assert (width, height >= 2 * 520 + 2 * 18) == (2 * 760, True), "two pixels a point, and the reading"
        colors = {color for _, color in picture.convert("RGB").getcolors(1 << 24)}
        assert {(0, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colors, "hosts and the route are drawn"


@pytest.mark.slow
@needs_browser
def test_an_svg_is_made_of_lines_and_says_what_it_shows(figure: plot.Figure, tmp_path: Path) -> None:
    root = ET.fromstring(figures.draw_file(figure, "svg").decode())
    assert root.get("role") == "img"
    assert root.findtext(f"{SVG}title") == figure.reading
    assert root.findtext(f"{SVG}desc") == figure.alt
    assert len(root.findall(f".//{SVG}path")) >= 32
    assert not root.findall(f".//{SVG}image"), "nothing is rastered"
    written = " ".join("".join(text.itertext()) for text in root.findall(f"{SVG}g/{SVG}text"))
    assert written == figure.reading


@pytest.mark.slow
@needs_browser
def test_no_line_of_a_reading_ends_between_a_number_and_its_unit(tmp_path: Path) -> None:
    for before in range(8):  # wherever the line ends
        said = f"{'a' * before} 12 ms, then 256 ranks, 19 % and 1.5 µs; 64 times as fast, predicted 12 GB/s"
        drawing = bokeh_figure(width=200, height=80)
        drawing.line([0, 1], [0, 1])
        root = ET.fromstring(figures.draw_file(plot.Figure(drawing, said, "a line"), "svg").decode())
        lines = ["".join(text.itertext()) for text in root.findall(f"{SVG}g/{SVG}text")]
        assert len(lines) > 2, "the reading is longer than the picture is wide"
        assert " ".join(lines) == said.strip()
        assert not [line for line in lines if line[-1].isdigit()]


def test_a_page_keeps_numbers_with_their_units() -> None:
    drawing = bokeh_figure(width=200, height=80)
    drawing.line([0, 1], [0, 1])
    text = plot.render_page("one", [plot.Figure(drawing, "found 12 ms at 256 ranks", "a line")])
    caption = re.search(r"<figcaption[^>]*>(.*?)</figcaption>", text)
    assert caption is not None
    assert caption[1] == "found 12\xa0ms at 256\xa0ranks"


@pytest.mark.slow
@needs_browser
def test_grids_of_figures_are_drawn_whole_and_a_reading_inside_is_not_repeated(tmp_path: Path) -> None:
    p = [16, 32, 64, 128, 256]
    verdict = lk.judge(p, p, "p", unit="s")
    study = lk.sweep(lambda comm: comm.barrier(), ranks=[2, 4, 8], on="star", progress=False)
    grid = plot.compare({"left": {"one": study}, "right": {"one": study}})
    text = figures.draw_file(grid, "svg").decode()
    assert {">left</text>", ">right</text>"} <= set(re.findall(r">\w+</text>", text)), "both machines"
    root = ET.fromstring(figures.draw_file(plot.scaling(verdict), "svg").decode())
    assert not root.findall(f"{SVG}g/{SVG}text")


@pytest.mark.parametrize("width", [None, "single"])
def test_pictures_need_no_browser(
    figure: plot.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, width: str | None
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    first, second = (
        [
            path.read_bytes()
            for path in figure.save(*(tmp_path / f"{name}.{kind}" for kind in KINDS), width=width)
        ]
        for name in ("one", "two")
    )
    assert first == second  # no date in them
    pdf, png, svg = first
    assert pdf.startswith(b"%PDF-")
    assert len(pdf) > 5000
    assert b"/Type3" not in pdf
    with Image.open(io.BytesIO(png)) as picture:
        assert picture.text == {"Title": figure.reading, "Description": figure.alt}
    root = ET.fromstring(svg.decode())
    assert (root.get("role"), root.findtext(f"{SVG}title"), root.findtext(f"{SVG}desc")) == (
        "img",
        figure.reading,
        figure.alt,
    )


def test_what_matplotlib_does_not_draw_goes_to_the_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = bokeh_figure(width=200, height=80)
    drawing.wedge([0], [0], radius=1, start_angle=0, end_angle=1)
    figure = plot.Figure(drawing, "a wedge", "a wedge")
    made = base64.b64encode(b"<svg/>").decode()
    script = f"echo '<pre id=\"labkit-file\">{made}</pre>'"
    monkeypatch.setenv(VARIABLE, browser(tmp_path / "b", script))
    assert figure.save(tmp_path / "f.svg").read_bytes() == b"<svg/>"
    for path, width in ((tmp_path / "f.pdf", None), (tmp_path / "g.svg", "single")):
        with raises_code(DataError, "unsupported"):
            figure.save(path, width=width)
        assert not path.exists()


@pytest.mark.parametrize("width", ["singel", 0.5, 50, True, [3], float("nan")])
def test_another_width_is_refused_before_anything_is_written(
    figure: plot.Figure, tmp_path: Path, width: object
) -> None:
    with raises_code(DataError, "invalid-value", "single", "double", "inches"):
        figure.save(tmp_path / "f.pdf", width=width)
    with raises_code(DataError, "conflicting-options", "f.html"):
        figure.save(tmp_path / "f.pdf", tmp_path / "f.html", width="single")
    assert list(tmp_path.iterdir()) == []


def test_other_endings_are_refused(figure: plot.Figure, tmp_path: Path) -> None:
    for name in ("f.eps", "f", "png"):
        with raises_code(DataError, "unknown-format"):
            figure.save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_it_is_said_what_to_install(
    figure: plot.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "none"))
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with raises_code(DataError, "missing-package"):
        figure.save(tmp_path / "f.pdf")
    with raises_code(DataError, "missing-package", "LABKIT_BROWSER"):
        figure.save(tmp_path / "f.png")
    assert figure.save(tmp_path / "f.html").stat().st_size > 1_000_000


def browser(path: Path, script: str) -> str:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def test_a_browser_that_does_not_draw_is_named_with_its_words(
    figure: plot.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, browser(tmp_path / "b", "echo 'no display' >&2; exit 3"))
    with raises_code(DataError, "tool-failed"):
        figures.draw_file(figure, "svg")
    monkeypatch.setenv(VARIABLE, browser(tmp_path / "c", "echo '<pre id=\"labkit-file\">!no view</pre>'"))
    with raises_code(DataError, "tool-failed"):
        figures.draw_file(figure, "svg")
    monkeypatch.setattr(figures, "LIMIT_S", 0.2)
    monkeypatch.setenv(VARIABLE, browser(tmp_path / "d", "exec sleep 30"))
    with raises_code(DataError, "tool-failed"):
        figures.draw_file(figure, "svg")


def test_where_the_sandbox_fails_it_is_left_out(
    figure: plot.Figure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = base64.b64encode(b"<svg/>").decode()
    script = f'case "$*" in *--no-sandbox*) echo \'<pre id="labkit-file">{made}</pre>\';; *) exit 1;; esac'
    monkeypatch.setenv(VARIABLE, browser(tmp_path / "b", script))
    monkeypatch.setattr(figures.os, "geteuid", lambda: 1000, raising=False)
    assert figures.draw_file(figure, "svg") == b"<svg/>"


@pytest.mark.slow
@needs_browser
def test_the_buttons_of_a_page_save_both_formats(figure: plot.Figure, tmp_path: Path) -> None:
    """Run what the buttons run, in a saved page, and look at the files' first bytes."""
    page = figure.save(tmp_path / "f.html").read_text("utf-8")
    run = """<script>window.addEventListener("load", () => setTimeout(() => {
      const made = []
      HTMLAnchorElement.prototype.click = function () { made.push(this.download) }
      URL.createObjectURL = (blob) => { made.push(blob.type); return "#" }
      const buttons = [...document.querySelectorAll(".labkit-save button")]
      for (const button of buttons) button.click()
      const {tools} = Bokeh.documents[0].roots()[0].toolbar
      for (const tool of tools.filter((one) => one.type == "CustomAction")) tool.callback.execute(tool)
      setTimeout(() => { document.title = made.sort().join(" ") }, 1500)
    }, 1500))</script></body>"""
    (tmp_path / "g.html").write_text(page.replace("</body>", run), encoding="utf-8")
    command = [
        str(find_browser()),
        *figures._FLAGS,
        "--no-sandbox",
        f"--user-data-dir={tmp_path / 'u'}",
    ]
    done = subprocess.run([*command, (tmp_path / "g.html").as_uri()], capture_output=True, timeout=90)
    title = done.stdout.decode().split("<title>")[1].split("</title>")[0]
    name = figure.file_name()
    once = ["image/png", "image/svg+xml", f"{name}.png", f"{name}.svg"]
    assert title == " ".join(sorted(2 * once)), "by the buttons, and by the toolbar"


def test_the_description_of_a_png_survives_any_letter() -> None:
    out = io.BytesIO()
    Image.new("RGB", (2, 2)).save(out, "PNG")
    figure = plot.Figure(None, "p² log p ≈ µs", "→ 中")
    with Image.open(io.BytesIO(described(out.getvalue(), figure))) as picture:
        assert picture.text == {"Title": figure.reading, "Description": figure.alt}


def test_one_picture_of_a_kernel_brings_bokehjs_along(figure: plot.Figure) -> None:
    pytest.importorskip("anywidget")
    pytest.importorskip("jupyter_bokeh")
    from labkit.plot import widget

    if widget._Holder.picture is not None:
        widget._Holder.picture.close()
    first, second = figure.widget(), plot.topology("star:3").widget()
    assert b"Bokeh Contributors" in gzip.decompress(first.library)
    assert (first.holder, second.library, second.holder) == ("", b"", first.model_id)
    sent: list[object] = []
    second.send = lambda content, buffers=None: sent.append((content, buffers))
    second._answer(second, {"kind": "bokehjs"}, [])
    assert sent == [({"kind": "bokehjs"}, [first.library])]
    first.close()
    assert plot.topology("star:2").widget().library, "the next one has it"
    second.show(figure)
    assert (second.reading, second.alt, second.is_said) == (figure.reading, figure.alt, False)
