"""What a student sees: the start page, the way into the course, every notebook run, sliders moved."""

from __future__ import annotations

import json
import re
import shutil
import time
from pathlib import Path

import pytest

from tests.browser.server import ROOT


def _drawn(path: Path) -> set[str]:
    """Return which figures and explorers a notebook shows, by their names in its code."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    return set(re.findall(r"\b(?:plot|explore)\.\w+", code))


DRAWN = {path.name: _drawn(path) for path in sorted(ROOT.glob("notebooks/*.ipynb"))}


def _enough() -> list[str]:
    """Return notebooks that together show every figure and explorer of the course."""
    left, chosen = set().union(*DRAWN.values()), []
    while left:
        chosen.append(max(DRAWN, key=lambda name: len(DRAWN[name] & left)))
        left -= DRAWN[chosen[-1]]
    return sorted(chosen)


#: run here; `make notebooks` runs every one and compares what its cells print
RUN = _enough()
#: where they are then: `make test-long` compares these files, and runs the notebooks no more
SAVED = ROOT / "build" / "saved-notebooks"


def test_two_clicks_lead_from_the_start_page_into_the_course(visitor):
    visitor.arrive()
    page = visitor.page
    assert page.locator(".jp-Dialog").count() == 0
    assert page.locator(".jp-toast-message, .Toastify__toast").count() == 0
    visitor.shot("start_page")
    page.locator(".jp-RenderedMarkdown a", has_text="1. One program, two machines").first.click()
    visitor.wait_for_notebook("01_one_program_two_machines.ipynb")
    assert page.locator(".jp-NotebookPanel:visible h1").first.inner_text().startswith("1. One program")
    changed = "() => [...jupyterapp.shell.widgets('main')].map((one) => one.context.model.dirty)"
    assert page.evaluate(changed) == [False, False], "who only looks is not asked to save"
    visitor.shot("course_opened")


@pytest.mark.parametrize("name", [name for name in DRAWN if name not in RUN])
def test_a_notebook_opens_by_its_link_with_its_pictures(visitor, name):
    """As a reader sees it before any cell has run."""
    open_by_its_link(visitor, name)
    stored = visitor.stored_pictures()
    assert stored, "no picture is stored in this notebook"
    index = stored[-1]
    visitor.scroll_to(index)
    visitor.wait_until(lambda: visitor.cell(index).locator("img").first.evaluate(IS_LOADED), "a picture")
    assert "Error displaying widget" not in visitor.page.inner_text("body")
    visitor.shot(f"{name.removesuffix('.ipynb')}_opened")


@pytest.mark.parametrize("name", RUN)
def test_every_figure_of_the_course_is_drawn(visitor, name):
    """From the start page by its link, all cells by the menu; every figure has something on its canvas."""
    open_by_its_link(visitor, name)
    began = time.monotonic()
    visitor.run_all()
    print(f"{name}: all cells in {time.monotonic() - began:.1f} s")
    cells = visitor.figure_cells()
    assert cells, "no figure in this notebook"
    for index in cells:
        drawn = visitor.wait_for_canvas(index)
        visitor.shot(f"{name.removesuffix('.ipynb')}_cell_{index:02d}")
        print(f"{name}, cell {index}: {drawn} canvases drawn")
    visitor.save()
    SAVED.mkdir(parents=True, exist_ok=True)
    shutil.copy(visitor.lab.notebooks / name, SAVED)


def open_by_its_link(visitor, name):
    visitor.arrive()
    if name != "00_start_here.ipynb":
        visitor.page.locator(f'.jp-RenderedMarkdown a[href*="{name}"]').first.click()
        visitor.wait_for_notebook(name)


#: whether a picture came, and has a size
IS_LOADED = "image => image.complete && image.naturalWidth > 100"


def test_a_slider_draws_anew(visitor):
    visitor.arrive()
    visitor.run_all()
    index = visitor.figure_cells()[-1]
    visitor.wait_for_canvas(index)
    before = visitor.pictures(index)
    area = visitor.cell(index)
    shown = area.locator(".widget-readout").first
    text = shown.inner_text()
    handle = area.locator(".widget-slider .noUi-handle").first
    handle.focus()
    for _ in range(2):
        handle.press("ArrowRight")
    visitor.wait_until(lambda: shown.inner_text() != text, "the slider's number to change")
    visitor.wait_until(lambda: visitor.pictures(index) not in ([], before), "another picture")
    visitor.shot("slider_moved")


def test_a_bundle_finds_the_notebook_that_it_is_made_in(visitor):
    visitor.arrive()
    code = (
        "import labkit as lk\n"
        "def program(comm):\n    comm.barrier()\n"
        "made = lk.sweep(program, [2, 4], 'star', progress=False).bundle('mine.zip')\n"
        "assert 'notebook/00_start_here.ipynb' in made.files, made.files\n"
        "assert lk.verify('mine.zip').outcome == 'same'\n"
    )
    ended = visitor.page.evaluate(
        """async code => {
          const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
          const reply = await kernel.requestExecute({code}).done
          return reply.content.status + " " + (reply.content.evalue ?? "")
        }""",
        code,
    )
    assert ended == "ok ", ended


def test_nothing_of_a_server_is_left(chromium, tmp_path, make_server, make_visitor):
    """Ended as a user ends it, by a signal, neither the server nor a kernel stays."""
    server = make_server(tmp_path)
    try:
        server.start()
        context = chromium.new_context()
        one = make_visitor(context, server)
        one.arrive()
        assert len(server.alive()) >= 2  # the server and a kernel
        context.close()
        server.process.terminate()
        server.process.wait(30)
        deadline = time.monotonic() + 30
        while server.alive() and time.monotonic() < deadline:
            time.sleep(0.1)
        assert server.alive() == []
    finally:
        server.end()
