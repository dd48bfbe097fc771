"""Links of the site: whatever a page points to is there, and nothing is fetched from elsewhere."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: what a browser loads by itself, by tag and attribute
_LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("iframe", "src"), ("source", "src")}
_FROM_CSS = re.compile(r"""(?:@import\s+|url\()\s*["']?((?:https?:)?//[^"')\s]+)""")


class _Page(HTMLParser):
    """Collects what a page points to, and the places in it."""

    def __init__(self) -> None:
        super().__init__()
        self.targets: list[tuple[str, bool]] = []
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Keep what an element says."""
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.places.add(value)
            elif name in ("href", "src") and value:
                if (tag, name) == ("link", "href") and ("rel", "canonical") in attributes:
                    continue
                self.targets.append((value, (tag, name) in _LOADED))


def broken_links(site: Path) -> list[str]:
    """Return what is wrong with the links of a folder of pages.

    Parameters
    ----------
    site : Path
        The folder; pages below it count.

    Returns
    -------
    list of str
        A sentence for each fault: a file or a place in a page that is not there, or something that a page
        would fetch over the network. Links that a reader may follow to other sites are not tried.
    """
    pages = {path: _read(path) for path in sorted(site.rglob("*.html"))}
    faults = []
    for path, page in pages.items():
        where = path.relative_to(site)
        for target, is_loaded in page.targets:
            parts = urlsplit(target)
            if parts.scheme in ("data", "mailto", "javascript", "blob"):
                continue
            if parts.scheme or parts.netloc:
                if is_loaded:
                    faults.append(f"{where} fetches {target}")
                continue
            file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not file.is_file():
                faults.append(f"{where} points to {target}, which is not there")
            elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].places:
                faults.append(f"{where} points to {target}: no such place in that page")
    for path in sorted(site.rglob("*.css")):
        found = _FROM_CSS.findall(path.read_text("utf-8"))
        faults += [f"{path.relative_to(site)} fetches {one}" for one in found]
    return faults


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    return page


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]).resolve())
    print("\n".join(found) or "every link leads somewhere, and nothing is fetched")
    sys.exit(bool(found))
