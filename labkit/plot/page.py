"""Pages: prose, tables, verdicts and figures in one HTML file that needs nothing else."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import pandas as pd
from bokeh.embed import components
from bokeh.model import Model as BokehModel
from bokeh.resources import Resources

__all__ = ["Pictured", "page", "render_page"]

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; color: #222;
       background: #fff; max-width: 58rem; margin: 0 auto; padding: 2rem 1.2rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; }
h2 { font-size: 1.3rem; margin: 2.2rem 0 .4rem; padding-top: .8rem; border-top: 1px solid #ddd; }
h3 { font-size: 1.08rem; margin: 1.4rem 0 .3rem; }
p { margin: .5rem 0; } code { background: #f3f3f3; padding: 0 .25em; border-radius: 3px; }
pre { background: #f6f6f6; padding: .7rem 1rem; overflow-x: auto; border-radius: 4px; }
table { border-collapse: collapse; font-size: .93rem; } .scroll { overflow-x: auto; }
table.dataframe { border: 0; margin: .5rem 0; } table.dataframe th, table.dataframe td
  { border: 0; border-bottom: 1px solid #e4e4e4; padding: .2rem .8rem .2rem 0; text-align: left; }
figure { margin: 1rem 0; overflow-x: auto; } figcaption { color: #444; font-size: .92rem; }
.labkit-save button { font: inherit; font-size: .8rem; margin-left: .5em; padding: 0 .4em; cursor: pointer;
  color: #444; background: none; border: 1px solid #bbb; border-radius: 3px; }
footer { margin-top: 3rem; color: #666; font-size: .85rem; border-top: 1px solid #ddd; padding-top: .6rem; }
@media print { .labkit-save { display: none; } h2 { break-after: avoid; } figure { break-inside: avoid; } }
"""
#: a figure's buttons; they find its picture when they are used
_BUTTONS = """
document.addEventListener("DOMContentLoaded", () => {
  for (const caption of document.querySelectorAll("figcaption[data-root]")) {
    const find = () => Bokeh.index.get_by_id(caption.dataset.root)
    const alt = caption.previousElementSibling.getAttribute("aria-label")
    const reading = caption.textContent
    caption.append(labkitButtons(find, {reading, alt, title: reading || alt, name: caption.dataset.name}))
  }
})
"""


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
    """
    target = Path(path)
    text = render_page(title, items)
    with tempfile.NamedTemporaryFile(
        "w", dir=target.parent, prefix=f".{target.name}.", delete=False, encoding="utf-8"
    ) as stream:
        try:
            stream.write(text)
            stream.close()
            umask = os.umask(0)
            os.umask(umask)
            os.chmod(stream.name, 0o666 & ~umask)
            os.replace(stream.name, target)
        except BaseException:
            os.unlink(stream.name)
            raise
    return target


def render_page(title: str, items: Iterable[Any], has_heading: bool = True) -> str:
    """Return the page of `page` as text; without its title as heading where the items say enough."""
    listed = list(items)
    layouts = [_layout(item) for item in listed if _layout(item) is not None]
    head, divs = "", []
    if layouts:
        drawing, drawn = components(tuple(layouts))
        divs = list(drawn)
        export = (Path(__file__).with_name("js") / "export.js").read_text("utf-8")
        head = f"{Resources(mode='inline', components=['bokeh']).render()}{drawing}"
        head += f"<script>\n{export}\n{_BUTTONS}</script>"
    pictures = iter(divs)
    body = "\n".join(_item(item, pictures) for item in listed)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n{head}\n</head>\n<body>\n"
        f"<main>\n{f'<h1>{escape(title)}</h1>' if has_heading else ''}\n{body}\n</main>\n"
        f"<footer>Made with labkit. This page holds everything it shows and works offline.</footer>\n"
        f"</body>\n</html>\n"
    )


def _layout(item: Any) -> Any:
    if isinstance(item, Pictured):
        return item.layout
    return item if isinstance(item, BokehModel) else None


def _item(item: Any, pictures: Any) -> str:
    if isinstance(item, Pictured):
        alt, name = escape(item.alt, quote=True), item.file_name()
        reading = "" if item.has_words else escape(item.reading)
        caption = f'<figcaption data-root="{item.layout.id}" data-name="{name}">{reading}</figcaption>'
        return f'<figure><div role="img" aria-label="{alt}">{next(pictures)}</div>{caption}</figure>'
    if isinstance(item, BokehModel):
        return f"<figure>{next(pictures)}</figure>"
    if isinstance(item, str):
        return _prose(item)
    if isinstance(item, pd.DataFrame):
        return f'<div class="scroll">{item.to_html(index=False, border=0)}</div>'
    if hasattr(item, "_repr_html_"):
        return f'<div class="scroll">{item._repr_html_()}</div>'
    return f"<pre>{escape(str(item))}</pre>"


def _prose(text: str) -> str:
    parts = []
    for block in re.split(r"\n\s*\n", text.strip()):
        line = " ".join(part.strip() for part in block.splitlines())
        level = len(line) - len(line.lstrip("#"))
        inner = escape(line.lstrip("#").strip(), quote=False)
        inner = re.sub(r"`([^`]+)`", r"<code>\1</code>", inner)
        inner = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", inner)
        tag = f"h{min(level + 1, 4)}" if level else "p"
        parts.append(f"<{tag}>{inner}</{tag}>")
    return "\n".join(parts)
