"""Pages: prose, tables, verdicts and figures in one HTML file that needs nothing else."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd
from bokeh.embed import components
from bokeh.model import Model as BokehModel
from bokeh.resources import Resources
from markupsafe import Markup

from labkit.html import render
from labkit.plain import replace_file
from labkit.plot.style import unbroken

__all__ = ["Pictured", "page", "render_page"]


@runtime_checkable
class Pictured(Protocol):
    """A picture with its words: `labkit.plot.Figure`."""

    layout: Any
    reading: str
    alt: str
    has_words: bool

    def file_name(self) -> str:
        """Return a name for its files."""


def page(title: str, items: Iterable[Any], path: str | os.PathLike[str]) -> Path:
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


def render_page(title: str, items: Iterable[Any], has_heading: bool = True) -> str:
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
        export=Markup((Path(__file__).parents[1] / "js" / "export.js").read_text("utf-8")),
        items=[_item(item, pictures) for item in listed],
    )


def _layout(item: Any) -> Any:
    if isinstance(item, Pictured):
        return item.layout
    return item if isinstance(item, BokehModel) else None


def _item(item: Any, pictures: Iterator[Markup]) -> Markup:
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
