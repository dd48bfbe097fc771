"""Figures: pictures that show and save themselves."""

from __future__ import annotations

import base64
import json
import math
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, overload, runtime_checkable

import pandas as pd
from bokeh.document import Document
from bokeh.embed import components
from bokeh.model import Model as BokehModel
from bokeh.resources import Resources
from markupsafe import Markup

from labkit.checks import echo
from labkit.errors import DataError, nearest
from labkit.plot.still import can_draw, described, draw_still, has_matplotlib, is_live, still_bundle
from labkit.plot.style import Drawn, dress, unbroken
from labkit.process.folders import private_folder
from labkit.text.files import replace_file, writing
from labkit.text.html import render

if TYPE_CHECKING:
    from labkit.plot.widget import Picture

__all__ = ["VARIABLE", "WIDTHS", "Figure", "check_files", "find_browser", "page", "render_page"]


# PNG and SVG files of figures, drawn by a browser without a window.
#
# Only the program is needed, no driver and no Python package: the browser opens a page that holds the figure
# and everything it needs, lets BokehJS draw it, and prints the page back with the finished file inside.

LIMIT_S = 90

Target: TypeAlias = str | os.PathLike[str]
#: inches of a column, and of the text of a page with two, in IEEE's journals and proceedings
WIDTHS: Mapping[str, float] = MappingProxyType({"single": 3.5, "double": 7.16})
#: inches that a figure may be wide
_NARROWEST, _WIDEST = 2.0, 20.0
_PAGES = ("html", "htm")
_KINDS = (*_PAGES, "pdf", "png", "svg")

_FLAGS = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--hide-scrollbars",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--force-device-scale-factor=2",
    "--window-size=1600,1200",
    "--virtual-time-budget=30000",
    "--dump-dom",
)

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

# Pages: prose, tables, verdicts and figures in one HTML file that needs nothing else.


@runtime_checkable
class Pictured(Protocol):
    """A picture with its description: `labkit.plot.Figure`."""

    layout: Any
    reading: str
    alt: str
    has_words: bool

    def file_name(self) -> str:
        """Return a name for its files."""


def page(title: str, items: Iterable[object], path: str | os.PathLike[str]) -> Path:
    """Write a standalone page.

    Parameters
    ----------
    title : str
        The title, plain text.
    items : iterable
        In order: prose (a text; blank lines part paragraphs, ``#`` and ``##`` begin headings,
        ``code`` in backquotes, ``**strong**``), figures of this package, Bokeh models, data frames,
        and anything with ``_repr_html_`` (runs, studies, models, verdicts, tables).
    path : path
        The file; it is replaced only when the new page is complete.

    Returns
    -------
    Path

    Raises
    ------
    OSError
        It cannot be written.
    """
    return replace_file(path, render_page(title, items).encode("utf-8"))


def render_page(title: str, items: Iterable[object], has_heading: bool = True) -> str:
    """Return the page of `page` as text; without its title as heading where the items say enough.

    Parameters
    ----------
    title, items
        As in `page`.
    has_heading : bool
        Whether the title is written above the items.

    Returns
    -------
    str
        HTML.
    """
    listed = list(items)
    layouts = [layout for item in listed if (layout := _layout(item)) is not None]
    drawing, drawn = components(tuple(layouts)) if layouts else ("", [])
    pictures = map(Markup, drawn)
    return render(
        "plot/templates/page.html.j2",
        title=title,
        has_heading=has_heading,
        drawing=Markup(Resources(mode="inline", components=["bokeh"]).render() + drawing if layouts else ""),
        export=Markup((Path(__file__).parent / "js" / "export.js").read_text("utf-8")),
        items=[_item(item, pictures) for item in listed],
    )


def _layout(item: object) -> Any:
    if isinstance(item, Pictured):
        return item.layout
    return item if isinstance(item, BokehModel) else None


def _item(item: object, pictures: Iterator[Markup]) -> Markup:
    """Return an item as HTML; `format` of a `Markup` escapes what it puts in."""
    if isinstance(item, Pictured):
        reading = "" if item.has_words else unbroken(item.reading)
        return _FIGURE.format(item.alt, next(pictures), item.layout.id, item.file_name(), reading)
    if isinstance(item, BokehModel):
        return Markup("<figure>{}</figure>").format(next(pictures))
    if isinstance(item, str):
        return _prose(item)
    if isinstance(item, pd.DataFrame):
        return _SCROLL.format(Markup(item.to_html(index=False, border=0)))
    if hasattr(item, "_repr_html_"):
        return _SCROLL.format(Markup(item._repr_html_()))
    return Markup("<pre>{}</pre>").format(item)


_FIGURE = Markup(
    '<figure><div role="img" aria-label="{}">{}</div>'
    '<figcaption data-root="{}" data-name="{}">{}</figcaption></figure>'
)

_SCROLL = Markup('<div class="scroll">{}</div>')


def _prose(text: str) -> Markup:
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()):
        line = " ".join(part.strip() for part in block.splitlines())
        level = len(line) - len(line.lstrip("#"))
        inner = escape(line.lstrip("#").strip(), quote=False)
        inner = re.sub(r"`([^`]+)`", r"<code>\1</code>", inner)
        inner = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", inner)
        tag = f"h{min(level + 1, 4)}" if level else "p"
        parts.append(f"<{tag}>{inner}</{tag}>")
    return Markup("\n".join(parts))


# The browser of this machine, which draws figures to files and prints reports.

#: a browser, where the usual names and places do not find it
VARIABLE = "LABKIT_BROWSER"

_NAMES = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "headless_shell",
    "microsoft-edge",
    "msedge",
)

_PLACES = (
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
)

#: where playwright keeps the browsers that it installs
_PLAYWRIGHT = (".cache/ms-playwright", "Library/Caches/ms-playwright", "AppData/Local/ms-playwright")


def find_browser() -> str | None:
    """Return the path of a Chromium or Chrome, or None.

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


def draw_file(figure: Drawn, kind: Literal["png", "svg"] | str, beside: Path | None = None) -> bytes:
    """Draw a figure and return the file's bytes."""
    browser = find_browser()
    if browser is None:
        raise DataError(
            f"to save a figure as .{kind} a Chromium or Chrome is needed, and none was found: install one "
            "(Debian: apt install chromium; anywhere: pip install playwright, then playwright install "
            f"chromium), or name it in {VARIABLE}; .html needs none, and the buttons under a figure in a "
            "notebook save PNG and SVG without it",
            code="missing-package",
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
    return described(made, figure, dpi=(192, 192)) if kind == "png" else made


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
            raise DataError(
                f"the browser {browser} could not be started: {error}", code="not-started"
            ) from None
        found = re.search(rf'<pre id="{_MARK}">([^<]*)</pre>', done.stdout.decode("utf-8", "replace"))
        if found and not found[1].startswith("!"):
            return base64.b64decode(found[1])
        said = found[1][1:] if found else _last_line(done.stderr)
    raise DataError(
        f"{browser} did not draw the figure ({said or 'it said nothing'}); name another Chromium or Chrome "
        f"in {VARIABLE}, or save as .html",
        code="tool-failed",
    )


def _last_line(text: bytes) -> str:
    lines = [line.strip() for line in text.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][:200] if lines else ""


@dataclass(repr=False)
class Figure(Drawn):
    """A Bokeh layout that shows itself in notebooks and saves itself as a picture or a page.

    Attributes
    ----------
    layout : bokeh LayoutDOM
        The picture.
    reading : str
        What it shows, in one sentence.
    alt : str
        The alternative text: a description for readers who do not see the picture.
    has_words : bool
        Whether the picture holds its reading already.
    """

    _INSTEAD = MappingProxyType(
        dict.fromkeys(
            ("savefig", "write", "export", "write_image", "to_png"), 'save("figure.png"), .svg or .html'
        )
    )

    def __post_init__(self) -> None:
        """Give the toolbars their save buttons."""
        if self.layout is not None:
            dress(self.layout, self.words())

    def __getstate__(self) -> dict[str, object]:
        """Write the picture in Bokeh's JSON: its objects have functions, which cannot be pickled."""
        state = vars(self).copy()
        if self.layout is not None:
            state["layout"] = _said(self.layout)
        return state

    def __setstate__(self, state: Mapping[str, object]) -> None:
        """Build the picture from its JSON."""
        vars(self).update(state)
        if self.layout is not None:
            self.layout = _built(self.layout)

    def __repr__(self) -> str:
        """Return as text what the figure shows."""
        return f"Figure: {self.reading}"

    def widget(self) -> Picture:
        """Return the figure as a notebook widget, to be laid out with others or updated from Python.

        Returns
        -------
        labkit.plot.widget.Picture
            Live: changes travel both ways.

        Raises
        ------
        ImportError
            jupyter_bokeh or anywidget is not installed (labkit's extra ``lab`` has them).
        """
        from labkit.plot.widget import Picture

        return Picture(
            self.layout, reading=self.reading, alt=self.alt, is_said=self.has_words, name=self.file_name()
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> object:
        """Show the picture live where a notebook's page can, and a still one that stays in its file.

        Without matplotlib there is no still one, without the extra ``lab`` a framed page instead of a widget.
        """
        still, sizes = still_bundle([self])
        bundle: dict[str, object] = {"text/plain": f"{self!r}\n{self.alt}", **still}
        if still and not is_live():
            return bundle, sizes
        try:
            shown = self.widget()._repr_mimebundle_(include=include, exclude=exclude)
        except ImportError:
            page = escape(self.to_page(), quote=True)
            height = int(getattr(self.layout, "height", 0) or 560) + 60
            bundle["text/html"] = (
                f'<iframe srcdoc="{page}" title="{escape(self.alt, quote=True)}" '
                f'style="width:100%;height:{height}px;border:0"></iframe>'
            )
            return bundle, sizes
        data = shown[0] if isinstance(shown, tuple) else shown
        return {**(data or {}), **bundle}, sizes

    def to_page(self) -> str:
        """Return a standalone HTML page, everything it needs inside.

        Returns
        -------
        str
            HTML, with BokehJS inside.
        """
        return render_page(self.reading, [self], has_heading=False)

    @overload
    def save(self, path: Target, *, width: str | float | None = None) -> Path: ...

    @overload
    def save(
        self, path: Target, another: Target, /, *more: Target, width: str | float | None = None
    ) -> list[Path]: ...

    def save(self, path: Target, *more: Target, width: str | float | None = None) -> Path | list[Path]:
        """Write the figure to one or several files, in the formats that their suffixes name.

        Parameters
        ----------
        path, *more : path
            ``.html``: a page that works offline, with hover and zoom. ``.pdf``, ``.svg`` and ``.png``: the
            picture with its reading beneath and the alternative text inside, drawn by matplotlib. A figure
            with parts that matplotlib does not draw is drawn by a Chromium or Chrome of this machine, to
            ``.png`` or ``.svg``.
        width : str or float, optional
            For a paper: ``"single"`` (a column of IEEE's, 3.5 in), ``"double"`` (both, 7.16 in), or inches.
            Letters have 6 to 9 points, a PNG 300 dots per inch. The reading is left to the paper's caption.

        Returns
        -------
        Path or list of Path
            A list for several.

        Raises
        ------
        DataError
            Another suffix or width, a figure that cannot be drawn here, or a file that cannot be written.
        """
        inches = check_files((path, *more), width)
        targets = [Path(one) for one in (path, *more)]
        for target in targets:
            with writing(target):
                replace_file(target, self._content(_kind(target), inches, target.parent))
        return targets[0] if len(targets) == 1 else targets

    def _content(self, kind: str, inches: float | None, beside: Path) -> str | bytes:
        """Return the content of a file."""
        if kind in _PAGES:
            return self.to_page()
        if has_matplotlib() and can_draw(self):
            if inches is None:
                return draw_still(self, kind, 2.0, colors=0)
            from labkit.plot.column import draw_column  # matplotlib takes long to load

            return draw_column(self, kind, inches)
        if kind == "pdf" or inches is not None:
            raise DataError(
                "only a browser draws all of this figure; save it as .png, .svg or .html without a width"
                if has_matplotlib()
                else "a .pdf and a figure with a width are drawn by matplotlib: pip install matplotlib",
                code="unsupported" if has_matplotlib() else "missing-package",
            )
        return draw_file(self, kind, beside=beside)


def width_in_inches(width: object) -> float:
    """Return a width in inches: a name of `WIDTHS`, or a number.

    Raises
    ------
    DataError
        Neither, or too narrow or too wide for a figure.

    Examples
    --------
    >>> width_in_inches("single"), width_in_inches(5)
    (3.5, 5.0)
    """
    names = ", ".join(f'"{name}" ({inches:g} in)' for name, inches in WIDTHS.items())
    allowed = f"width is {names} or a number of inches from {_NARROWEST:g} to {_WIDEST:g}"
    if isinstance(width, str) and width in WIDTHS:
        return WIDTHS[width]
    try:
        inches = float(str(width))
    except ValueError:
        inches = math.nan
    if not _NARROWEST <= inches <= _WIDEST:
        guess = nearest(width, WIDTHS) if isinstance(width, str) else ""
        raise DataError(f"{allowed}, got {echo(width)}{guess}", code="invalid-value")
    return inches


def check_files(paths: Iterable[Target], width: object = None) -> float | None:
    """Refuse files or a width that no figure has; return the width in inches.

    Raises
    ------
    DataError
        No file, another suffix, another width, or a page with a width.
    """
    names = [os.fspath(path) for path in paths]
    inches = None if width is None else width_in_inches(width)
    for name in names:
        if _kind(name) not in _KINDS:
            raise DataError(
                f"a figure is saved as .html, .pdf, .png or .svg; got {name!r}", code="unknown-format"
            )
        if inches is not None and _kind(name) in _PAGES:
            raise DataError(
                f"width is for .pdf, .png and .svg; save {name!r} without it, "
                "because a page adapts to its window",
                code="conflicting-options",
            )
    return inches


def _kind(path: Target) -> str:
    return Path(path).suffix.lower().lstrip(".")


def _said(layout: Any) -> object:
    """Return the JSON of a layout, which stays in its document if it has one."""
    document = layout.document
    if document is not None and layout in document.roots:
        return document.to_json(deferred=False), document.roots.index(layout)
    document = Document()
    document.add_root(layout)
    try:
        return document.to_json(deferred=False), 0
    finally:
        document.remove_root(layout)


def _built(said: Any) -> object:
    """Return the layout of such JSON, in no document."""
    json, place = said
    document = Document.from_json(json)
    layout = document.roots[place]
    document.remove_root(layout)
    return layout
