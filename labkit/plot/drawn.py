"""A figure: the layout, the caption, and the alternative text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from labkit.errors import SuggestsNames

__all__ = ["Drawn"]


@dataclass(repr=False)
class Drawn(SuggestsNames):
    """A Bokeh layout, and what it says as text: the attributes of `labkit.plot.figure.Figure`."""

    layout: Any
    reading: str
    alt: str
    has_words: bool = False

    def words(self) -> dict[str, str]:
        """Return what a file of it says: reading ("" where the picture holds it), alt, title, file name.

        Returns
        -------
        dict of str to str
            By the names that the page's script knows.
        """
        reading = "" if self.has_words else self.reading
        return {"reading": reading, "alt": self.alt, "title": self.reading, "name": self.file_name()}

    def file_name(self) -> str:
        """Return a name for its files, made of the first words of the reading.

        Returns
        -------
        str
            Of letters, digits and hyphens, without an ending.
        """
        words = re.findall(r"[a-z0-9]+", self.reading.lower())[:6]
        return "-".join(words)[:48] or "labkit"
