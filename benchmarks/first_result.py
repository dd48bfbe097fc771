"""From ``labkit lab`` to the first result in a browser: ``python benchmarks/first_result.py``.

``--python /some/clone/.venv/bin/python`` measures another installation; playwright is needed here only. The
clock runs from the start of the command to the moment when the page shows the results of the first cell
that runs on 16 ranks: server, page, kernel, import of labkit and simulation included. Promise: ten seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from labkit.plot.figure import find_browser

PROMISE_S = 10.0
_spec = importlib.util.spec_from_file_location(
    "browser_tests", Path(__file__).parents[1] / "tests" / "browser" / "conftest.py"
)
assert _spec is not None
assert _spec.loader is not None
tools = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(tools)


def measure(python: str, folder: Path) -> dict[str, float]:
    """Return the seconds from the start of the command to each thing that a student sees."""
    seen = {}
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=str(find_browser()), args=tools.FLAGS)
        lab = tools.Lab(folder, python)
        began = time.monotonic()
        try:
            lab.start()
            seen["page opened"] = time.monotonic() - began
            visitor = tools.Visitor(browser.new_context(viewport={"width": 1400, "height": 1000}), lab)
            # A user's requests do not pass through Python one by one, as those of the tests do.
            visitor.context.unroute_all()
            visitor.arrive()
            seen["start page with its kernel"] = time.monotonic() - began
            visitor.menu("Edit", "Clear Outputs of All Cells")
            visitor.menu("Run", "Run All Cells")
            results = visitor.page.locator(".jp-OutputArea-output", has_text="16 ranks on torus")
            results.first.wait_for(timeout=120_000)
            seen["first result"] = time.monotonic() - began
            visitor.close()
        finally:
            lab.end()
            browser.close()
    return seen


def main() -> int:
    """Measure and print; return 0 whatever came out, as the clock is that of a busy machine."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    print(f"load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    last = []
    for number in range(arguments.repeats):
        with tempfile.TemporaryDirectory(prefix="labkit-first-") as name:
            seen = measure(arguments.python, Path(name))
        last.append(seen["first result"])
        words = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in seen.items())
        print(f"run {number + 1}: {words}", flush=True)
    verdict = "kept" if min(last) <= PROMISE_S else "NOT kept"
    print(f"first result: {min(last):.1f} to {max(last):.1f} s; promise of {PROMISE_S:.0f} s {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
