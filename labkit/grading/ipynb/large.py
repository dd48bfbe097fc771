"""A notebook's JSON; of a large one only what grading needs is ever built: its cells' kinds, texts and marks.

Sixteen million empty lists in an output are 48 MB of text, and 1 GB as objects of Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from labkit.errors import DataError

__all__ = ["read_notebook"]

#: a text of so many characters is at most some 100 MB as objects
_SMALL = 4 << 20
#: of lines of a cell, as JSON: more than the code that may be handed in takes
_MOST_LINES = 8 << 20
_MOST_WORD = 1 << 16

_SPACE = re.compile(r"[ \t\r\n]*+")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.S)
_SCALAR = re.compile(r"[-+.\w]++")
#: what stands between two brackets; empty ones are none
_BETWEEN = re.compile(r'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+"|\[\s*+\]|\{\s*+\})*+', re.S)
_Visit = Callable[[int], int]


def read_notebook(text: str) -> Any:
    """Return the value of a notebook's JSON; of a large one its cells only, without outputs.

    Notebooks of formats 2 and 3 become such of format 4, as Jupyter upgrades them.
    """
    if len(text) <= _SMALL:
        return _upgraded(json.loads(text))
    try:
        return _Reader(text).read()
    except IndexError:
        raise ValueError("the JSON ends early") from None


def _upgraded(book: Any) -> Any:
    """Return a notebook whose cells lie in worksheets, and whose code in `input`, as one of format 4."""
    if not isinstance(book, dict) or "cells" in book or not isinstance(book.get("worksheets"), list):
        return book
    cells = []
    for sheet in book["worksheets"]:
        for cell in sheet.get("cells", []) if isinstance(sheet, dict) else []:
            is_code = isinstance(cell, dict) and cell.get("cell_type") == "code" and "source" not in cell
            cells.append({**cell, "source": cell.get("input", "")} if is_code else cell)
    return {**book, "cells": cells, "nbformat": 4}


class _Reader:
    """Goes through the text; positions are those of characters in it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._found: dict[str, Any] = {}
        self._parts: dict[str, tuple[int, int]] = {}

    def read(self) -> dict[str, Any]:
        self._object(self._after(0), {"cells": self._cells})
        return self._found

    def _cells(self, at: int) -> int:
        if self.text[at] != "[":
            self._found["cells"] = None
            return self._end(at)
        self._found["cells"] = []
        return self._list(at, self._one)

    def _one(self, at: int) -> int:
        """Read a cell."""
        self._parts = {}
        names = ("cell_type", "source")
        end = self._object(at, {**{name: self._kept(name) for name in names}, "metadata": self._metadata})
        cell: dict[str, Any] = {}
        if "cell_type" in self._parts:
            cell["cell_type"] = self._word("cell_type")
        if "source" in self._parts:
            cell["source"] = self._lines(cell.get("cell_type") == "code")
        if "nbgrader" in self._parts:
            cell["metadata"] = {"nbgrader": self._word("nbgrader")}
        self._found["cells"].append(cell)
        return end

    def _metadata(self, at: int) -> int:
        return self._object(at, {"nbgrader": self._kept("nbgrader")})

    def _kept(self, name: str) -> _Visit:
        """Return what notes where a value is."""

        def note(at: int) -> int:
            end = self._end(at)
            self._parts[name] = at, end
            return end

        return note

    def _word(self, name: str) -> Any:
        """Return a short value; None for a long one."""
        begin, end = self._parts[name]
        return json.loads(self.text[begin:end]) if end - begin <= _MOST_WORD else None

    def _lines(self, is_code: bool) -> Any:
        """Return a cell's text: one string, or a list of lines, unless these are too many."""
        begin, end = self._parts["source"]
        if self.text[begin] == '"' or end - begin <= _MOST_LINES:
            return json.loads(self.text[begin:end])
        if is_code:
            raise DataError(f"a code cell has more than {_MOST_LINES >> 20} MiB")
        return ""

    # --- JSON: each returns the position behind what begins at `at` -----------------------------------

    def _after(self, at: int) -> int:
        """Skip blanks."""
        found = _SPACE.match(self.text, at)
        return at if found is None else found.end()

    def _end(self, at: int) -> int:
        """Skip a value."""
        if self.text[at] not in "[{":
            found = (_STRING if self.text[at] == '"' else _SCALAR).match(self.text, at)
            if found is None:
                raise ValueError(f"no value at character {at}")
            return found.end()
        depth, at = 1, at + 1
        while depth:
            found = _BETWEEN.match(self.text, at)
            at = at if found is None else found.end()
            if self.text[at] == '"':
                raise ValueError(f"a text without an end at character {at}")
            depth += 1 if self.text[at] in "[{" else -1
            at += 1
        return at

    def _object(self, at: int, visits: dict[str, _Visit]) -> int:
        """Go through an object: `visits` are called where the values of their keys begin."""
        if self.text[at] != "{":
            return self._end(at)

        def member(at: int) -> int:
            end = self._end(at)
            is_key = self.text[at] == '"' and end - at <= _MOST_WORD
            key = json.loads(self.text[at:end]) if is_key else ""
            at = self._after(end)
            if self.text[at] != ":":
                raise ValueError(f"no colon at character {at}")
            return visits.get(key, self._end)(self._after(at + 1))

        return self._list(at, member)

    def _list(self, at: int, visit: _Visit) -> int:
        """Go through a list, or an object's members: `visit` is called where each begins."""
        at = self._after(at + 1)
        if self.text[at] in "]}":
            return at + 1
        while True:
            at = self._after(visit(at))
            if self.text[at] in "]}":
                return at + 1
            if self.text[at] != ",":
                raise ValueError(f"no comma at character {at}")
            at = self._after(at + 1)
