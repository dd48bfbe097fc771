"""JupyterLab as a user gets it from ``labkit lab``, in a browser that leaves no request out of sight."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.browser.server import Lab
from tests.browser.visitor import Visitor

VIEWPORT = {"width": 1400, "height": 1000}
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.slow)
            # asyncio of playwright and of what it starts may leave a warning at the very end
            item.add_marker(pytest.mark.filterwarnings("ignore::ResourceWarning"))


@pytest.fixture(scope="session")
def chromium():
    """Return a running Chromium; skip with what is missing."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    pytest.importorskip("jupyterlab", reason="needs JupyterLab: pip install 'labkit[lab]'")
    from labkit.plot.figure import find_browser

    program = find_browser()
    if program is None:
        pytest.skip("no Chromium or Chrome here")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def lab(chromium, tmp_path_factory) -> Iterator[Lab]:
    """Start ``labkit lab`` as a user does."""
    server = Lab(tmp_path_factory.mktemp("lab"))
    try:
        server.start()
        yield server
    finally:
        server.end()


@pytest.fixture
def make_server():
    """Return the class of servers, for a test that ends its own."""
    return Lab


@pytest.fixture
def make_visitor():
    """Return the class of visitors."""
    return Visitor


@pytest.fixture(scope="session")
def guests(chromium, lab) -> Iterator[Guests]:
    """Return who opens JupyterLab for the tests, one visitor for many."""
    several = Guests(chromium, lab)
    yield several
    several.send_away()


@pytest.fixture
def visitor(guests, request) -> Iterator[Visitor]:
    """Be at JupyterLab with nothing open; a test that failed leaves its page to nobody."""
    failed = request.session.testsfailed
    one = guests.come()
    try:
        yield one
        one.check()
    finally:
        has_failed = request.session.testsfailed > failed
        if has_failed:
            name = re.sub(r"\W+", "_", request.node.name)
            with contextlib.suppress(Exception):  # the browser may be what failed
                one.shot(f"{name}_end")
        try:
            one.leave()
        except Exception:
            guests.send_away()
        if has_failed:
            guests.send_away()


@pytest.fixture
def show_cells(visitor, lab) -> Iterator[Callable[[str, list[str]], Visitor]]:
    """Return what runs cells in a notebook of their own; the first one shows a picture."""
    paths = []

    def show(name: str, cells: list[str]) -> Visitor:
        made = [
            {"cell_type": "code", "id": f"c{i}", "metadata": {}, "source": source, "outputs": [],
             "execution_count": None}
            for i, source in enumerate(cells)
        ]  # fmt: skip
        kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
        notebook = {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
        paths.append(lab.notebooks / name)
        paths[-1].write_text(json.dumps(notebook))
        visitor.arrive()
        visitor.page.evaluate(
            f"() => jupyterapp.commands.execute('docmanager:open', {{path: '{name}'}}).then(() => null)"
        )
        visitor.wait_for_notebook(name)
        visitor.run_all()
        visitor.wait_for_canvas(0)
        return visitor

    yield show
    for path in paths:
        path.unlink()


class Guests:
    """A browser profile and its page, handed from one test to the next: loading JupyterLab takes seconds."""

    def __init__(self, chromium, lab: Lab) -> None:
        self.chromium = chromium
        self.lab = lab
        self.one: Visitor | None = None

    def come(self) -> Visitor:
        """Return the visitor that is there, or a new one in a fresh profile."""
        if self.one is None:
            self.one = Visitor(self.chromium.new_context(viewport=VIEWPORT), self.lab)
        self.one.messages.clear()
        self.one.foreign.clear()
        self.one.page.set_viewport_size(VIEWPORT)
        return self.one

    def send_away(self) -> None:
        """End the visit; the next one starts afresh."""
        if self.one is not None:
            self.one.close()
        self.one = None
