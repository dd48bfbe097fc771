"""Figures: pictures that show and save themselves."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bokeh.document import Document

from labkit.errors import DataError
from labkit.plain import replace_file
from labkit.plot.drawn import Drawn
from labkit.plot.files.export import draw_file
from labkit.plot.files.html_page import render_page
from labkit.plot.still import is_live, still_bundle
from labkit.plot.tools import dress

__all__ = ["Figure"]


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
        The alternative text: what a reader who does not see the picture needs to know.
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

    def __getstate__(self) -> dict[str, Any]:
        """Say the picture in Bokeh's JSON: it is made of objects with functions, which cannot be pickled."""
        state = vars(self).copy()
        if self.layout is not None:
            state["layout"] = _said(self.layout)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Build the picture from its JSON."""
        vars(self).update(state)
        if self.layout is not None:
            self.layout = _built(self.layout)

    def __repr__(self) -> str:
        """Say what the figure shows."""
        return f"Figure: {self.reading}"

    def widget(self) -> Any:
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

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        """Show the picture live where a notebook's page can, and a still one that stays in its file.

        Without matplotlib there is no still one, without the extra ``lab`` a framed page instead of a widget.
        """
        still, sizes = still_bundle([self])
        bundle: dict[str, Any] = {"text/plain": f"{self!r}\n{self.alt}", **still}
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

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the figure to a file; the name's ending says as what.

        Parameters
        ----------
        path : path
            ``.html``: a page that works offline, with hover and zoom. ``.png`` and ``.svg``: the picture
            with its reading beneath and the alternative text inside, drawn by a Chromium or Chrome of
            this machine; the buttons under the picture save the same without one.

        Returns
        -------
        Path

        Raises
        ------
        DataError
            Another ending, or no browser that could draw it.
        """
        target = Path(path)
        kind = target.suffix.lower().lstrip(".")
        if kind in ("html", "htm"):
            replace_file(target, self.to_page())
        elif kind in ("png", "svg"):
            replace_file(target, draw_file(self, kind, beside=target.parent))
        else:
            raise DataError(f"a figure is saved as .html, .png or .svg; got {os.fspath(path)!r}")
        return target


def _said(layout: Any) -> Any:
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


def _built(said: Any) -> Any:
    """Return the layout of such JSON, in no document."""
    json, place = said
    document = Document.from_json(json)
    layout = document.roots[place]
    document.remove_root(layout)
    return layout
