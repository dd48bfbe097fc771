"""Output of ranks: in rank order, equal texts grouped, long ones folded."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from labkit.text.html import PRE
from labkit.text.units import ranks_text

__all__ = ["Block", "Piece", "blocks_of", "clean", "printed_html", "printed_text"]

#: whether it went to standard error, and the text
Piece = tuple[bool, str]

#: blocks that stand open; the others are folded together
OPEN_BLOCKS = 8
#: lines of a block that stand open; a longer one is folded to its first line
OPEN_LINES = 12
#: lines and characters of a block that are shown at all
MOST_LINES, MOST_CHARACTERS = 400, 20_000
#: blocks that are shown at all
MOST_BLOCKS = 64
#: the same of the text form, which cannot be folded
TEXT_LINES, TEXT_BLOCKS = 40, 16

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")
_LABEL = "opacity:0.7;min-width:6.5em;flex:none;padding-right:1em"
_PRE = (
    f"{PRE};margin:0;padding:0;background:none;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,13px)"
)
_ERROR = "border-left:3px solid #d55e00;padding-left:6px"


def clean(text: str) -> str:
    """Take out what moves a terminal's cursor, confuses a reader or cannot be written (half a character)."""
    if text.isprintable():
        return text
    return "".join(c if c in "\n\t" or c.isprintable() else _shown(c) for c in text)


def _shown(character: str) -> str:
    return " " if unicodedata.category(character) == "Zs" else "?"


@dataclass(frozen=True)
class Block:
    """What some ranks printed, all of them the same.

    `ranks`: In order.
    `pieces`: What they printed, in order; True: on standard error.
    `is_result`: Whether it is not what they printed but what came out.
    """

    ranks: tuple[int, ...]
    pieces: tuple[Piece, ...]
    is_result: bool = False

    @property
    def label(self) -> str:
        """Name the ranks."""
        return ranks_text(list(self.ranks))

    def lines(self) -> list[Piece]:
        """Return the lines, without what moves a cursor or changes a color."""
        found = []
        for is_error, text in self.pieces:
            for line in text.replace("\r\n", "\n").removesuffix("\n").split("\n"):
                shown = line.rstrip("\r").rpartition("\r")[2]  # a progress bar writes over itself
                found.append((is_error, _CONTROL.sub("", shown)))
        return found


def blocks_of(printed: Iterable[Sequence[Piece]], is_result: bool = False) -> list[Block]:
    """Put ranks that printed the same together, in the order of the first of them."""
    groups: dict[tuple[Piece, ...], list[int]] = {}
    for rank, pieces in enumerate(printed):
        if pieces:
            groups.setdefault(tuple(pieces), []).append(rank)
    return [Block(tuple(ranks), pieces, is_result) for pieces, ranks in groups.items()]


def _cut(lines: list[Piece], most: int) -> tuple[list[Piece], str]:
    """Keep the first lines, and say what is left out."""
    kept: list[Piece] = []
    left = MOST_CHARACTERS
    for is_error, line in lines[:most]:
        if left <= 0:
            break
        kept.append((is_error, line[:left]))
        left -= len(line) + 1
    missing = len(lines) - len(kept)
    if missing:
        return kept, f"… {missing:,} more line{'s' if missing != 1 else ''}"
    cut = sum(len(line) for _, line in lines) - sum(len(line) for _, line in kept)
    return kept, f"… {cut:,} more characters" if cut else ""


def printed_text(blocks: Sequence[Block], where: str = "output") -> str:
    """Write blocks as text: a label before each line."""
    shown = blocks[:TEXT_BLOCKS]
    width = max((len(block.label) for block in shown), default=0)
    lines = []
    for block in shown:
        label = f"{block.label:<{width}}"
        kept, more = _cut(block.lines(), TEXT_LINES)
        plain = "=" if block.is_result else "|"
        lines += [f"{label} {'!' if is_error else plain} {line}".rstrip() for is_error, line in kept]
        if more:
            lines.append(f"{label} {plain} {more} in {where}[{block.ranks[0]}]")
    if len(blocks) > len(shown):
        ranks = sum(len(block.ranks) for block in blocks[len(shown) :])
        lines.append(f"… and {ranks} more rank{'s' if ranks != 1 else ''} in {where}")
    return "\n".join(lines)


def printed_html(blocks: Sequence[Block], where: str = "output") -> str:
    """Write blocks as HTML without scripts: the first ones open, the others and long ones folded."""
    if not blocks:
        return ""
    parts = [_block_html(block, where) for block in blocks[:OPEN_BLOCKS]]
    rest = blocks[OPEN_BLOCKS:]
    if rest:
        ranks = sum(len(block.ranks) for block in rest)
        inner = [_block_html(block, where) for block in rest[: MOST_BLOCKS - OPEN_BLOCKS]]
        if len(blocks) > MOST_BLOCKS:
            hidden = sum(len(block.ranks) for block in blocks[MOST_BLOCKS:])
            inner.append(f"<div style='opacity:0.7'>… and {hidden} more ranks in {escape(where)}</div>")
        parts.append(f"<details><summary>{ranks} more ranks</summary>{''.join(inner)}</details>")
    return "".join(parts)


def _block_html(block: Block, where: str) -> str:
    lines = block.lines()
    kept, more = _cut(lines, MOST_LINES)
    body = _lines_html(kept)
    if more:
        body += f"<div style='opacity:0.7'>{more} in {escape(where)}[{block.ranks[0]}]</div>"
    if len(lines) > OPEN_LINES:
        first = escape(lines[0][1][:80])
        head = f"<span style='{_PRE}'>{first}</span> … {len(lines):,} lines"
        body = f"<details><summary>{head}</summary>{body}</details>"
    sign = "<div style='opacity:0.7;padding-right:0.5em'>=</div>" if block.is_result else ""
    return (
        f"<div style='display:flex;margin:1px 0'><div style='{_LABEL}'>{escape(block.label)}</div>"
        f"{sign}<div style='flex:auto;min-width:0'>{body}</div></div>"
    )


def _lines_html(lines: Sequence[Piece]) -> str:
    """Write lines, those of standard error marked by color and by their title."""
    parts = []
    at = 0
    while at < len(lines):
        end = at
        while end < len(lines) and lines[end][0] == lines[at][0]:
            end += 1
        text = escape("\n".join(line for _, line in lines[at:end]))
        if lines[at][0]:
            head = "<span style='color:#d55e00;font-weight:600'>stderr</span> "
            parts.append(f"<pre style='{_PRE};{_ERROR}' title='standard error'>{head}{text}</pre>")
        else:
            parts.append(f"<pre style='{_PRE}'>{text}</pre>")
        at = end
    return "".join(parts)
