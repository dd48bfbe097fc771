"""JupyterLab as a user gets it from ``labkit lab``, in a browser that leaves no request out of sight.

The server runs on a working copy of the course, with a home of its own; it opens the browser as it would for
a user, by the address it hands to ``$BROWSER``. Whatever was started is ended, also when a test fails.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / "build" / "screenshots"
MARK = "LABKIT_BROWSER_TEST"
START_S, END_S = 120, 30
VIEWPORT = {"width": 1400, "height": 1000}
LIGHT = "JupyterLab Light"
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip

#: console messages that are no fault of a notebook: a pattern, and why it is tolerated
TOLERATED = {
    r"Failed to load resource.*404.*": "JupyterLab asks for settings and workspaces that do not exist yet",
    r"Failed to load resource.*net::ERR_FILE_NOT_FOUND": "the page that redirects has no icon",
}


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
    from labkit.errors import LabkitError
    from labkit.plot.export import find_browser

    try:
        program = find_browser()
    except LabkitError as error:
        pytest.skip(f"needs a Chromium or Chrome: {error}")
    with sync_api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(program), args=FLAGS)
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
        name = re.sub(r"\W+", "_", request.node.name)
        with contextlib.suppress(Exception):  # the browser may be what failed
            one.shot(f"{name}_end")
        try:
            one.leave()
        except Exception:
            guests.send_away()
        if request.session.testsfailed > failed:
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
        visitor.page.evaluate(f"() => jupyterapp.commands.execute('docmanager:open', {{path: '{name}'}})")
        visitor.wait_for_notebook(name)
        visitor.run_all()
        visitor.wait_for_canvas(0)
        return visitor

    yield show
    for path in paths:
        path.unlink()


ASK = """async code => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
  let said = ""
  const future = kernel.requestExecute({code})
  future.onIOPub = (message) => { if (message.header.msg_type === "stream") said += message.content.text }
  await future.done
  return said
}"""


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


class Lab:
    """A server of one's own.

    Parameters
    ----------
    folder : Path
        For the working copy, the home and the log.
    python : str
        The interpreter whose labkit is served.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python
        self.notebooks = folder / "course"
        self.mark = uuid.uuid4().hex
        self.address = folder / "address"
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it opens its address."""
        opener = self.folder / "opener"
        opener.write_text(
            f'#!/bin/sh\necho "$1" > {self.address}.part && mv {self.address}.part {self.address}\n'
        )
        opener.chmod(0o755)
        home = self.folder / "home"
        home.mkdir()
        kept = {
            name: os.environ[name]
            for name in ("PATH", "LANG", "LD_LIBRARY_PATH", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH")
            if name in os.environ
        }
        environment = {**kept, "HOME": str(home), "BROWSER": f"{opener} %s", MARK: self.mark}
        command = [self.python, "-m", "labkit", "lab", "--notebooks", str(ROOT / "notebooks")]
        command += ["--work", str(self.notebooks)]
        options = ["--", "--port=0", "--LabApp.expose_app_in_browser=True"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command + options, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self.address.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"labkit lab opened no page:\n{self.log.read_text()}")
            time.sleep(0.05)

    def end(self) -> None:
        """End the server, its kernels, and all that they started."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        for number in self.alive():
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(END_S)

    def forget(self) -> None:
        """Forget which notebooks were open: the next visitor starts as the first did."""
        shutil.rmtree(self.folder / "home" / ".jupyter" / "lab" / "workspaces", ignore_errors=True)

    def alive(self) -> list[int]:
        """Return the processes that have this server's mark in their environment."""
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() in place.read_bytes():
                    found.append(int(place.parent.name))
        return found


class Visitor:
    """A user at the browser.

    Parameters
    ----------
    context : playwright BrowserContext
    lab : Lab
    """

    def __init__(self, context, lab: Lab) -> None:
        self.context = context
        self.lab = lab
        self.messages: list[str] = []
        self.foreign: list[str] = []
        self.start: str | None = None  # the start page's path, once it was seen
        context.route("**/*", self._route)
        context.on("console", self._heard)
        context.on("weberror", lambda error: self.messages.append(f"uncaught: {error.error}"))
        self.page = context.new_page()
        self.page.set_default_timeout(60_000)
        self.page.on("websocket", lambda socket: self._look(socket.url))

    def _look(self, address: str) -> bool:
        is_here = re.match(
            r"(https?|wss?)://(127\.0\.0\.1|localhost|\[::1\])[:/]|data:|blob:|file:|about:", address
        )
        if not is_here:
            self.foreign.append(address)
        return bool(is_here)

    def _route(self, route) -> None:
        if self._look(route.request.url):
            route.continue_()
        else:
            route.abort()  # seen, noted, and not let out

    def _heard(self, message) -> None:
        if message.type == "error":
            self.messages.append(message.text)

    def check(self) -> None:
        """Nothing left the machine, and the console holds no error that is not tolerated."""
        assert not self.foreign, f"requests that leave the machine: {self.foreign}"
        errors = [text for text in self.messages if not any(re.search(p, text) for p in TOLERATED)]
        assert not errors, "\n".join(errors)

    def close(self) -> None:
        """End the kernels of this visit, and the page."""
        with contextlib.suppress(Exception):
            self.page.evaluate("() => jupyterapp.serviceManager.sessions.shutdownAll()")
        self.context.close()
        self.lab.forget()

    def shot(self, name: str) -> Path:
        """Keep a screenshot."""
        SHOTS.mkdir(parents=True, exist_ok=True)
        path = SHOTS / f"{name}.png"
        self.page.screenshot(path=str(path))
        return path

    # --- JupyterLab -----------------------------------------------------------------------------------

    def arrive(self) -> None:
        """Open the address that the server handed to the browser, or in a page that has it the start page."""
        if self.start is None:
            self.page.goto(self.lab.address.read_text().strip())
        else:
            self.page.evaluate("path => jupyterapp.commands.execute('docmanager:open', {path})", self.start)
        self.wait_for_notebook("00_start_here.ipynb")
        self.start = self.page.evaluate("() => jupyterapp.shell.currentWidget.context.path")

    def leave(self) -> None:
        """Close what is open, as it is in its file, end its kernels, and take the light theme again."""
        if self.start is None:
            return
        self.page.evaluate(LEAVE, LIGHT)
        self.page.wait_for_function("() => document.body.dataset.jpThemeLight === 'true'")

    def wait_for_notebook(self, name: str) -> None:
        """Wait until a notebook is the one in front, and its kernel is ready."""
        self.page.wait_for_function(
            """name => {
                 const front = window.jupyterapp?.shell?.currentWidget
                 return front?.context?.path?.endsWith(name) && front.context.isReady
                   && front.sessionContext?.session?.kernel?.status === "idle"
               }""",
            arg=name,
        )

    def menu(self, *names: str) -> None:
        """Choose from the menu bar."""
        bar, *inside = names
        self.page.locator(".lm-MenuBar-itemLabel", has_text=re.compile(f"^{bar}$")).click()
        for name in inside:
            label = re.compile(f"^{re.escape(name)}")
            self.page.locator(".lm-Menu-itemLabel:visible", has_text=label).first.click()

    def ask(self, code: str) -> str:
        """Run code in the notebook's kernel, and return what it prints."""
        return self.page.evaluate(ASK, code)

    def run_all(self, limit_s: float = 300) -> None:
        """Run all cells by the menu, and wait until the last has ended; a cell that fails is shown."""
        self.menu("Edit", "Clear Outputs of All Cells")
        self.page.wait_for_function(f"() => ({CELLS})().every((cell) => cell.count === null)")
        self.menu("Run", "Run All Cells")
        self.page.wait_for_function(
            f"""() => {{
                  const cells = ({CELLS})()
                  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
                  const isDone = cells.every((cell) => cell.count !== null && !cell.isRunning)
                  return cells.some((cell) => cell.error) || kernel.status === "idle" && isDone
                }}""",
            timeout=limit_s * 1000,
        )
        wrong = [cell["error"] for cell in self.page.evaluate(f"({CELLS})()") if cell["error"]]
        assert not wrong, wrong[0]

    def scroll_to(self, index: int) -> None:
        """Bring a cell into view, as a reader does; cells far away are not drawn by JupyterLab."""
        self.page.evaluate(
            "index => jupyterapp.shell.currentWidget.content.scrollToItem(index, 'start')", index
        )

    def figure_cells(self) -> list[int]:
        """Return the numbers of the cells whose output holds a widget."""
        return [cell["index"] for cell in self.page.evaluate(f"({CELLS})()") if cell["hasWidget"]]

    def cell(self, index: int):
        """Return a cell's output area."""
        return self.page.locator(
            f'.jp-NotebookPanel:visible .jp-Cell[data-windowed-list-index="{index}"] .jp-Cell-outputArea'
        )

    def canvases(self, index: int) -> int:
        """Count the canvases of a cell's output on which something is drawn."""
        return sum(canvas.evaluate(IS_DRAWN) for canvas in self.cell(index).locator("canvas").all())

    def pictures(self, index: int) -> list[str]:
        """Return what is drawn on the canvases of a cell's output."""
        found = [canvas for canvas in self.cell(index).locator("canvas").all() if canvas.evaluate(IS_DRAWN)]
        return [canvas.evaluate("canvas => canvas.toDataURL()") for canvas in found]

    def wait_until(self, holds, what: str, limit_s: float = 60) -> None:
        """Wait until something holds; a moment in which the page is redrawn counts as not yet."""
        deadline = time.monotonic() + limit_s
        while True:
            with contextlib.suppress(Exception):
                if holds():
                    return
            assert time.monotonic() < deadline, f"waited {limit_s:g} s for {what}"
            self.page.wait_for_timeout(100)

    def wait_for_canvas(self, index: int, limit_s: float = 60) -> int:
        """Scroll to a cell, and wait until at least one canvas of it is drawn."""
        self.scroll_to(index)
        self.wait_until(
            lambda: self.canvases(index) > 0, f"a canvas of cell {index} with anything on it", limit_s
        )
        return self.canvases(index)


#: the code cells of the notebook in front
CELLS = """() => {
  const found = []
  jupyterapp.shell.currentWidget.content.widgets.forEach((cell, index) => {
    if (cell.model.type !== "code") return
    const outputs = cell.model.outputs.toJSON()
    const failed = outputs.find((one) => one.output_type === "error")
    found.push({
      index, count: cell.model.executionCount, isRunning: cell.model.executionState === "running",
      error: failed ? failed.ename + ": " + failed.evalue : null,
      hasWidget: outputs.some((one) => one.data && "application/vnd.jupyter.widget-view+json" in one.data),
    })
  })
  return found
}"""

#: closes all documents, without a question about what is not saved, and ends all kernels
LEAVE = """async (theme) => {
  for (const dialog of document.querySelectorAll(".jp-Dialog")) dialog.remove()
  document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape", keyCode: 27}))
  const open = [...jupyterapp.shell.widgets("main")]
  const ended = open.map((one) => one.context?.sessionContext?.shutdown().catch(() => undefined))
  await Promise.all(ended)
  for (const one of open) {
    if (one.context) one.context.model.dirty = false
    one.dispose()
  }
  await jupyterapp.serviceManager.sessions.shutdownAll()
  await jupyterapp.serviceManager.kernels.shutdownAll()
  await jupyterapp.commands.execute("apputils:change-theme", {theme})
}"""

#: whether a canvas holds more than one colour
IS_DRAWN = """canvas => {
  if (!canvas.width || !canvas.height) return false
  const context = canvas.getContext("2d")
  if (!context) return false
  const pixels = new Uint32Array(context.getImageData(0, 0, canvas.width, canvas.height).data.buffer)
  const first = pixels[0]
  let others = 0
  for (let i = 0; i < pixels.length; i += 7) if (pixels[i] !== first && ++others > 50) return true
  return false
}"""
