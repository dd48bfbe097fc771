"""reStructuredText: titles and tables, and docstrings whose layout is their own."""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable

__all__ = ["as_typed", "as_written", "table", "title"]

#: the bold heading that begins a paragraph, as in **Cost**: ...
_HEAD = re.compile(r"\*\*\w+\*\*")


def title(text: str, line: str = "=") -> list[str]:
    """Return a title; `line` says of which rank."""
    return [text, line * len(text), ""]


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Return a table; a cell may have several lines."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto", ""]
    for row in (head, *rows):
        for at, cell in enumerate(row):
            first, *rest = textwrap.dedent(cell).strip().splitlines() or [""]
            lines.append(f"   {'* -' if not at else '  -'} {first}")
            lines += [f"       {line}" if line else "" for line in rest]
    return [*lines, ""]


def as_written(text: str) -> list[str]:
    """Return a docstring's lines: paragraphs of prose as prose, those in columns as they were typed.

    Parameters
    ----------
    text : str
        Dedented; its first paragraph is prose.
    """
    first, *parts = [part for part in text.strip("\n").split("\n\n") if part.strip() != "::"]
    lines = [_escaped(" ".join(first.split())), ""]
    for is_prose, group in itertools.groupby(parts, key=_is_prose):
        if is_prose:
            for part in group:
                lines += [_escaped(re.sub("::$", ":", " ".join(part.split()))), ""]
        else:
            lines += as_typed("\n\n".join(group))
    return lines


def _is_prose(part: str) -> bool:
    typed = re.compile(r"[\s*|>\[-]|\w+(\(.*\))? *[:=] |.*  ")
    return bool(_HEAD.match(part)) or not any(map(typed.match, part.splitlines()))


def _escaped(text: str) -> str:
    """Take the formulas of a docstring as they are; its code and the bold heading are unchanged."""
    head = _HEAD.match(text)
    text = text[head.end() :] if head else text
    parts = re.split(r"(``.+?``|`[^`]+`)", text)
    parts[::2] = [re.sub(r"([\\*|]|(?<=\w)_(?!\w))", r"\\\1", part) for part in parts[::2]]
    parts[1::2] = [f"``{part.strip('`')}``" for part in parts[1::2]]
    return (head[0] if head else "") + "".join(parts)


def as_typed(text: str) -> list[str]:
    """Return a text's lines as a block in which nothing is changed."""
    return [".. code-block:: text", "", *textwrap.indent(text.rstrip(), "    ").splitlines(), ""]
