"""PNG and SVG files of figures, drawn by a browser without a window.

Only the program is needed, no driver and no Python package: the browser opens a page that holds the figure
and everything it needs, lets BokehJS draw it, and prints the page back with the finished file inside.
"""

from __future__ import annotations

import base64
import json
import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from labkit.errors import DataError
from labkit.plot.files.browser import VARIABLE, find_browser
from labkit.plot.files.html_page import render_page
from labkit.plot.still import with_words
from labkit.process.folders import private_folder

if TYPE_CHECKING:
    from labkit.plot.drawn import Drawn

__all__ = ["draw_file"]

LIMIT_S = 90
_FLAGS = (
    "--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
    "--force-device-scale-factor=2", "--window-size=1600,1200", "--virtual-time-budget=30000", "--dump-dom",
)  # fmt: skip
_MARK = "labkit-file"
_RUN = """
function labkitTry() {
  const view = Bokeh.index.roots[0]
  if (view == null || !Bokeh.documents.every((one) => one.is_idle)) return setTimeout(labkitTry, 50)
  const out = document.createElement("pre")
  out.id = "%(mark)s"
  try {
    const made = labkitExport(view, "%(kind)s", %(words)s)
    const bytes = "%(kind)s" == "svg" ? new TextEncoder().encode(made) : null
    out.textContent = bytes == null ? made.split(",")[1]
      : btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""))
  } catch (error) { out.textContent = "!" + error }
  document.body.append(out)
}
window.addEventListener("load", () => setTimeout(labkitTry, 200))
"""


def draw_file(figure: Drawn, kind: Literal["png", "svg"] | str, beside: Path | None = None) -> bytes:
    """Draw a figure and return the file's bytes.

    Parameters
    ----------
    figure : Drawn
    kind : "png" or "svg"
        PNG has two pixels per point of the figure.
    beside : Path, optional
        A folder that the browser may read, where it does not see the system's temporary ones.

    Raises
    ------
    DataError
        No browser, or one that does not draw; the message says what to install.
    """
    browser = find_browser()
    if browser is None:
        raise DataError(
            f"to save a figure as .{kind} a Chromium or Chrome is needed, and none was found: install one "
            "(Debian: apt install chromium; anywhere: pip install playwright, then playwright install "
            f"chromium), or name it in {VARIABLE}; .html needs none, and the buttons under a figure in a "
            "notebook save PNG and SVG without it"
        )
    page = render_page(figure.reading, [figure], has_heading=False)
    safe = json.dumps(figure.words()).replace("</", "<\\/")
    run = _RUN % {"mark": _MARK, "kind": kind, "words": safe}
    page = page.replace("</body>", f"<script>{run}</script>\n</body>")
    # A browser in a snap sees no temporary folders.
    where = str(beside) if beside is not None and "snap" in Path(browser).resolve().parts else None
    with private_folder(where) as folder:
        source = folder / "figure.html"
        source.write_text(page, encoding="utf-8")
        made = _print_page(browser, source, folder)
    return with_words(made, figure, dpi=(192, 192)) if kind == "png" else made


def _print_page(browser: str, source: Path, folder: Path) -> bytes:
    """Let the browser open the page, and take the file out of what it prints."""
    said = ""
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    # Chromium's sandbox does not work for root, nor in many containers; the page is our own.
    for sandbox in ((), ("--no-sandbox",))[is_root:]:
        command = [browser, *_FLAGS, *sandbox, f"--user-data-dir={folder / 'profile'}", source.as_uri()]
        try:
            done = subprocess.run(
                command, capture_output=True, timeout=LIMIT_S, check=False, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            said = f"it did not end within {LIMIT_S} s"
            continue
        except OSError as error:
            raise DataError(f"the browser {browser} could not be started: {error}") from None
        found = re.search(rf'<pre id="{_MARK}">([^<]*)</pre>', done.stdout.decode("utf-8", "replace"))
        if found and not found[1].startswith("!"):
            return base64.b64decode(found[1])
        said = found[1][1:] if found else _last_line(done.stderr)
    raise DataError(
        f"{browser} did not draw the figure ({said or 'it said nothing'}); name another Chromium or Chrome "
        f"in {VARIABLE}, or save as .html"
    )


def _last_line(text: bytes) -> str:
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""
