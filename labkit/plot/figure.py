"""A figure with its words: the picture, the one-line reading, and the alternative text."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["Figure"]


@dataclass(repr=False)
class Figure:
    """A Bokeh layout that shows itself in notebooks and saves itself as a page that works offline.

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

    layout: Any
    reading: str
    alt: str
    has_words: bool = False

    def __repr__(self) -> str:
        """Say what the figure shows."""
        return f"Figure: {self.reading}"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        """Show the picture: as a widget where jupyter_bokeh is installed, else as a framed page."""
        bundle: dict[str, Any] = {"text/plain": f"{self!r}\n{self.alt}"}
        try:
            BokehModel = importlib.import_module("jupyter_bokeh.widgets").BokehModel  # noqa: N806
        except ImportError:
            page = escape(self.to_page(), quote=True)
            height = int(getattr(self.layout, "height", 0) or 560) + 60
            bundle["text/html"] = (
                f'<iframe srcdoc="{page}" title="{escape(self.alt, quote=True)}" '
                f'style="width:100%;height:{height}px;border:0"></iframe>'
            )
            return bundle
        widget = BokehModel(self.layout)
        shown = widget._repr_mimebundle_(include=include, exclude=exclude)
        data = shown[0] if isinstance(shown, tuple) else shown
        return {**(data or {}), **bundle}

    def to_page(self, title: str = "labkit") -> str:
        """Return a standalone HTML page, everything it needs inside."""
        from labkit.plot.page import render_page

        return render_page(title, [self])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a standalone HTML page.

        Parameters
        ----------
        path : path
            The file.

        Returns
        -------
        Path
        """
        target = Path(path)
        from labkit.plot.page import render_page

        # The reading is said once: by the picture, or else as the page's heading instead of a caption.
        heading = "labkit" if self.has_words else self.reading
        target.write_text(render_page(heading, [replace(self, has_words=True)]), encoding="utf-8")
        return target
