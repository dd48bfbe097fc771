"""Small pieces of HTML that every rich display uses; they inherit a notebook's colors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

__all__ = [
    "MATCH_COLORS",
    "MATCH_SIGNS",
    "PRE",
    "SI_UNITS",
    "badge",
    "escape",
    "number",
    "properties",
    "prose",
    "quantity",
    "render",
    "table",
    "titled_block",
]

#: Okabe-Ito colors; the sign and the text show the same without color
MATCH_COLORS = {
    "exact": "#00795a",
    "approximate": "#0067a5",
    "bound": "#2f6f80",
    "none": "#b54700",
    "undecided": "#5f5f5f",
}
MATCH_SIGNS = {"exact": "✓", "approximate": "≈", "bound": "≤", "none": "✗", "undecided": "?"}
#: units that take prefixes
SI_UNITS = ("s", "B", "B/s", "flop", "Hz")
_PREFIXES = (
    (1e12, "T"),
    (1e9, "G"),
    (1e6, "M"),
    (1e3, "k"),
    (1.0, ""),
    (1e-3, "m"),
    (1e-6, "µ"),
    (1e-9, "n"),
)
#: a noun that ends as plurals do; bias, axis, loss and radius are singular
_PLURAL = re.compile(r"[a-z]{3,}(?<![aisu])s")
#: an option of a command line: browsers break lines behind its hyphens
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]*")
#: of preformatted text: whole words, where JupyterLab breaks lines inside them
PRE = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"
_TABLE = '<table style="border-collapse:collapse;margin:4px 0">'
_CELL = "padding:2px 12px 2px 0;text-align:left;vertical-align:baseline;border:0;background:none"
_HEAD = "padding:2px 12px 4px 0;text-align:left;font-weight:600;border:0;border-bottom:1px solid #8888"


def quantity(value: float, unit: str = "", digits: int = 4) -> str:
    """Return a value with its unit and an SI prefix where the unit takes one; of one thing, its singular.

    Examples
    --------
    >>> quantity(193.8e-6, "s"), quantity(3, "rules"), quantity(1, "rules"), quantity(1, "times as long")
    ('193.8 µs', '3 rules', '1 rule', '1 times as long')
    """
    if unit not in SI_UNITS or value == 0:
        is_whole = float(value).is_integer() and abs(value) < 1e15
        rounded = value if is_whole and abs(value) >= 1e3 else float(f"{value:.{digits}g}")
        shown = number(rounded, max(digits, 4) if is_whole else digits)
        named = _singular(unit) if shown == "1" else unit
        return f"{shown}{f' {named}' if named else ''}"
    for scale, prefix in _PREFIXES:
        if abs(value) >= 0.99995 * scale:
            return f"{number(float(f'{value / scale:.{digits}g}'), digits)} {prefix}{unit}"
    scale, prefix = (1e-12, "p") if unit == "s" else (1.0, "")
    return f"{value / scale:.{digits}g} {prefix}{unit}"


def _singular(unit: str) -> str:
    """Return the singular of a plural noun; a factor (times), a unit and a name stay unchanged."""
    if not _PLURAL.fullmatch(unit) or unit == "times":
        return unit
    if unit.endswith("ies"):
        return f"{unit[:-3]}y"
    return unit[:-2] if unit.endswith(("ches", "shes", "sses", "xes")) else unit[:-1]


def number(value: float, digits: int = 6) -> str:
    """Return a number as text, large ones in full: ``0.25``, ``1024``, ``120,000``; never ``1.2e+05``.

    Examples
    --------
    >>> number(120000.0), number(1024), number(0.25), number(2.5e7), number(2048.4, 3)
    ('120,000', '1024', '0.25', '25,000,000', '2050')
    """
    if 1e4 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(value) < 1e15 else text


def prose(text: str) -> str:
    """Return a sentence as HTML in which no line ends inside an option.

    Examples
    --------
    >>> prose("a < b (--compute measured)")
    'a &lt; b (<span style="white-space:nowrap">--compute</span> measured)'
    """
    return _OPTION.sub(r'<span style="white-space:nowrap">\g<0></span>', escape(text))


def badge(match: str) -> str:
    """Return a verdict as a colored sign with its text."""
    return (
        f'<span style="background:{MATCH_COLORS[match]};color:#fff;border-radius:4px;padding:1px 8px;'
        f'font-weight:600;white-space:nowrap">{MATCH_SIGNS[match]}&nbsp;{match}</span>'
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; the cells are HTML already."""
    top = "".join(f'<th style="{_HEAD}">{h}</th>' for h in head)
    body = "".join("<tr>" + "".join(f'<td style="{_CELL}">{c}</td>' for c in row) + "</tr>" for row in rows)
    return f"{_TABLE}<thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>"


def properties(rows: Iterable[tuple[str, str]]) -> str:
    """Return a table of names and values; the values are HTML already."""
    head = f"{_CELL};font-weight:normal;opacity:.75;white-space:nowrap"
    body = "".join(
        f'<tr><th scope="row" style="{head}">{escape(name)}</th><td style="{_CELL}">{value}</td></tr>'
        for name, value in rows
    )
    return f"{_TABLE}<tbody>{body}</tbody></table>"


def titled_block(title: str, inner: str) -> str:
    """Return a block with a title; the inside is HTML already."""
    return (
        '<div style="border-left:3px solid #8888;padding:2px 0 2px 12px;margin:6px 0">'
        f'<div style="font-weight:600">{title}</div>{inner}</div>'
    )


def render(template: str, **values: object) -> str:
    """Fill in a template, such as ``plot/templates/page.html.j2``; texts are escaped, `Markup` is not."""
    return str(_templates().get_template(template).render(values))


@cache
def _templates() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # late: it takes a while to load

    return Environment(
        loader=FileSystemLoader(Path(__file__).parents[1]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
