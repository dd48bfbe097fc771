"""The browser of this machine, which draws figures to files and prints reports."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

__all__ = ["VARIABLE", "find_browser"]

#: a browser, where the usual names and places do not find it
VARIABLE = "LABKIT_BROWSER"
_NAMES = (
    "chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "headless_shell",
    "microsoft-edge", "msedge",
)  # fmt: skip
_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)
#: where playwright keeps the browsers that it installs
_PLAYWRIGHT = (".cache/ms-playwright", "Library/Caches/ms-playwright", "AppData/Local/ms-playwright")


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome, None if there is none.

    The environment variable ``LABKIT_BROWSER`` goes before the usual names and places.
    """
    if given := os.environ.get(VARIABLE):
        return shutil.which(given)
    for name in (*_NAMES, *_PLACES):
        if found := shutil.which(name):
            return found
    return next(_of_playwright(), None)


def _of_playwright() -> Iterator[str]:
    folders = [Path.home() / place for place in _PLAYWRIGHT]
    if given := os.environ.get("PLAYWRIGHT_BROWSERS_PATH"):
        folders.insert(0, Path(given))
    names = ("chrome", "headless_shell", "Chromium", "chrome.exe")
    for folder in folders:
        for installed in sorted(folder.glob("chromium*"), reverse=True):
            for name in names:
                yield from (str(one) for one in installed.glob(f"*/**/{name}") if os.access(one, os.X_OK))
