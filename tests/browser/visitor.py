"""A user at the browser, who keeps an eye on requests that leave the machine and on the console's errors."""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path

from tests.browser.server import ROOT, Lab

SHOTS = ROOT / "build" / "screenshots"
LIGHT = "JupyterLab Light"

#: console messages that are no fault of a notebook: a pattern, and why it is tolerated
TOLERATED = {
    r"Failed to load resource.*404.*": "JupyterLab asks for settings and workspaces that do not exist yet",
    r"Failed to load resource.*net::ERR_FILE_NOT_FOUND": "the page that redirects has no icon",
}


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

    def save(self) -> None:
        """Save the notebook in front, as the keyboard does."""
        self.page.evaluate("() => jupyterapp.commands.execute('docmanager:save').then(() => null)")

    # --- JupyterLab -----------------------------------------------------------------------------------

    def arrive(self) -> None:
        """Open the address that the server handed to the browser, or in a page that has it the start page."""
        if self.start is None:
            self.page.goto(self.lab.address.read_text().strip())
        else:
            self.page.evaluate(
                "path => jupyterapp.commands.execute('docmanager:open', {path}).then(() => null)", self.start
            )
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

    def stored_pictures(self) -> list[int]:
        """Return the numbers of the cells whose output holds a picture."""
        return [cell["index"] for cell in self.page.evaluate(f"({CELLS})()") if cell["hasPicture"]]

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


#: runs code in the kernel of the notebook in front, and returns what it prints
ASK = """async code => {
  const kernel = jupyterapp.shell.currentWidget.sessionContext.session.kernel
  let said = ""
  const future = kernel.requestExecute({code})
  future.onIOPub = (message) => { if (message.header.msg_type === "stream") said += message.content.text }
  await future.done
  return said
}"""

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
      hasPicture: outputs.some((one) => one.data && "image/png" in one.data),
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

#: whether a canvas holds more than one color
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
