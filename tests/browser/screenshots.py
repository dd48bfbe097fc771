"""Screenshots of notebooks, run in JupyterLab as a student sees them at 1366 x 768, in both themes.

``python tests/browser/screenshots.py [--stored] [--height PIXELS] [NOTEBOOK ...]``: page after page in
``build/screenshots/pages``, to be looked at. ``--stored`` shows the outputs in the file, without a kernel.
The README's picture is ``docs/first_screen.ipynb --height 1420``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from playwright.sync_api import sync_playwright

from labkit.plot.figure import find_browser
from tests.browser.conftest import FLAGS
from tests.browser.server import ROOT, Lab
from tests.browser.visitor import SHOTS, Visitor

PAGES = SHOTS / "pages"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
#: scrolls the notebook in front, and tells where it is, how much is seen and how much there is
SCROLL = """top => {
  const area = jupyterapp.shell.currentWidget.content
  const outer = area.outerNode ?? area.node
  if (top !== null) outer.scrollTop = top
  return [outer.scrollTop, outer.clientHeight, outer.scrollHeight]
}"""


def show(visitor: Visitor, name: str, is_stored: bool) -> None:
    """Open a notebook; run it unless its stored outputs are asked for."""
    options = "{path, kernel: {shouldStart: false}}" if is_stored else "{path}"
    front = visitor.page.evaluate("() => jupyterapp.shell.currentWidget.context.path")
    path = front.replace("00_start_here.ipynb", name)
    visitor.page.evaluate(
        f"path => jupyterapp.commands.execute('docmanager:open', {options}).then(() => null)", path
    )
    if not is_stored:
        visitor.wait_for_notebook(name)
        visitor.run_all()


def look(visitor: Visitor, name: str) -> None:
    """Take the pages of the notebook in front, in both themes."""
    page = visitor.page
    for theme, called in THEMES.items():
        page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", called)
        page.wait_for_function(
            f"() => document.body.dataset.jpThemeLight === '{str(theme == 'light').lower()}'"
        )
        top, number = 0, 0
        while True:
            page.evaluate(SCROLL, top)
            page.wait_for_timeout(900)
            at, high, whole = page.evaluate(SCROLL, None)
            number += 1
            visitor.shot(f"pages/{name.removesuffix('.ipynb')}_{theme}_{number:02d}")
            if at + high >= whole - 4:
                break
            top = at + high - 60


def main() -> int:
    """Take the screenshots."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("notebooks", nargs="*")
    parser.add_argument("--stored", action="store_true")
    parser.add_argument("--height", type=int, default=768)
    parser.add_argument("--width", type=int, default=1366)
    asked = parser.parse_args()
    names = [f"{Path(one).stem}.ipynb" for one in asked.notebooks]
    names = names or sorted(one.name for one in (ROOT / "notebooks").glob("*.ipynb"))
    PAGES.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="labkit-shots-"))
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(find_browser()), args=FLAGS)
        lab = Lab(folder)
        try:
            lab.start()
            for one in asked.notebooks:  # those that are no part of the course
                if Path(one).is_file() and not (lab.notebooks / Path(one).name).exists():
                    shutil.copy(one, lab.notebooks)
            for name in names:
                context = browser.new_context(viewport={"width": asked.width, "height": asked.height})
                visitor = Visitor(context, lab)
                try:
                    visitor.arrive()
                    show(visitor, name, asked.stored)
                    look(visitor, name)
                    print(name, flush=True)
                except AssertionError as error:
                    print(f"{name}: {error}", flush=True)
                finally:
                    visitor.close()
        finally:
            lab.end()
            browser.close()
            shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
