"""The display of a machine: text, HTML with a picture, tables of its links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64encode
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

from labkit.errors import PlatformError
from labkit.platform import quantities as units
from labkit.platform.drawing import picture
from labkit.platform.measure import Bisection, Diameter, LinkKind, link_table
from labkit.platform.spec.machine import MachineSpec

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Shown"]

#: A machine that grows is shown as it is for so many ranks.
_SHOWN_RANKS = 16
#: Links of the folded table.
_SHOWN_LINKS = 40
_CELL = "text-align:left;padding:2px 12px 2px 0"


class Shown(ABC):
    """The part of a `labkit.platform.Platform` that looks at it."""

    description: MachineSpec
    name: str
    source: str

    @property
    @abstractmethod
    def spec(self) -> str:
        """The specification, as `labkit.platform` reads it."""

    @property
    @abstractmethod
    def hosts(self) -> int | None:
        """Number of hosts; None for a machine that grows with the ranks."""

    @abstractmethod
    def sized(self, ranks: int) -> Shown:
        """Return the machine of a fixed size; itself if it has one."""

    @abstractmethod
    def build(self, ranks: int) -> Any:
        """Build it in the engine."""

    @abstractmethod
    def _rows(self) -> list[tuple[str, str]]:
        """What it shows of itself: headings and texts."""

    @cached_property
    def diameter(self) -> Diameter | None:
        """Links and latency between the hosts farthest apart; None for one host, and while it grows."""
        return self.description.diameter() if self.hosts else None

    @cached_property
    def bisection(self) -> Bisection | None:
        """The least bandwidth between two halves of the hosts; None if nothing fills, and while it grows."""
        return self.description.bisection() if self.hosts else None

    def link_kinds(self) -> list[LinkKind]:
        """Count the links by kind; of a machine that grows, those for 16 ranks."""
        return self._sized.description.link_kinds()

    def links(self, ranks: int | None = None) -> pd.DataFrame:
        """Tabulate the links.

        Parameters
        ----------
        ranks : int, optional
            Fixes the size of a machine that grows; default 16.

        Returns
        -------
        pandas.DataFrame
            A row per link: link (its name), kind, bytes_per_s, latency_s, sharing.

        Raises
        ------
        PlatformError
            More than 2^21 links, or ranks that do not fit.
        """
        one = self._sized if ranks is None else self.sized(ranks)
        return link_table(one.description.build([0]))

    @property
    def _sized(self) -> Shown:
        return self.sized(_SHOWN_RANKS) if self.hosts is None else self

    def _measures(self) -> list[tuple[str, str]]:
        rows = []
        if self.diameter is not None:
            rows.append(("diameter", str(self.diameter)))
        if self.bisection is not None:
            rows.append(("bisection", str(self.bisection)))
        return rows

    def __repr__(self) -> str:
        named = "" if self.name == self.spec else f", name={self.name!r}"
        rows = self._rows()
        width = max(len(what) for what, _ in rows)
        return "\n".join(
            [f"Platform({self.spec!r}{named})", *(f"  {what:<{width}}  {text}" for what, text in rows)]
        )

    def _repr_html_(self) -> str:
        rows = _table(None, [(f"<b>{escape(what)}</b>", escape(text)) for what, text in self._rows()])
        source = f"<div style='opacity:0.8'>{escape(self.source)}</div>" if self.source else ""
        return (
            f"<div class='labkit-platform'><div><b>{escape(self.name)}</b> (simulated)</div>{source}"
            f"<div style='display:flex;flex-wrap:wrap;gap:24px;align-items:center'>{_drawn(self)}{rows}</div>"
            f"{_links_html(self._sized, self.hosts is None)}</div>"
        )


def _drawn(one: Shown) -> str:
    """The picture, and what of it is smaller than the machine; nothing for machines without one."""
    sized = one._sized.description
    try:
        small = sized.smaller()
        drawing = _as_image(picture(small.lay_out()))
    except PlatformError:
        return ""
    note = ""
    if one.hosts is None:
        note = f"as it is for {_SHOWN_RANKS} ranks"
    elif small != sized:
        note = f"drawn is a smaller sibling, {small.size} of {small.hosts:,} hosts"
    return f"<div>{drawing}<div style='opacity:0.8'>{escape(note)}</div></div>"


def _as_image(drawing: str) -> str:
    """A drawing as a picture of its own: pages that trust nobody show it, and would drop an ``<svg>``."""
    said = drawing.partition('aria-label="')[2].partition('"')[0]
    code = b64encode(drawing.encode()).decode()
    return f'<img alt="{said}" title="{said}" src="data:image/svg+xml;base64,{code}">'


def _links_html(sized: Shown, is_growing: bool) -> str:
    kinds = sized.link_kinds()
    head = ("kind", "links", "bandwidth", "latency", "sharing")
    bandwidth, time = units.format_bandwidth, units.format_time
    cells = [
        (escape(k.kind), f"{k.count:,}", bandwidth(k.bytes_per_s), time(k.latency_s), k.sharing)
        for k in kinds
    ]
    table = _table(head, cells)
    total = sum(kind.count for kind in kinds)
    for_ranks = f" (for {_SHOWN_RANKS} ranks)" if is_growing else ""
    folded = ""
    if total <= 1 << 16:
        frame = sized.links()
        first = [
            (escape(link), escape(kind), bandwidth(rate), time(delay), sharing)
            for link, kind, rate, delay, sharing in frame.head(_SHOWN_LINKS).itertuples(index=False)
        ]
        more = f"<div>… and {total - len(first):,} more in links()</div>" if total > len(first) else ""
        one_by_one = _table(("link", "kind", "bandwidth", "latency", "sharing"), first)
        folded = f"<details><summary>one by one</summary>{one_by_one}{more}</details>"
    return f"<details><summary>{total:,} links{for_ranks}</summary>{table}{folded}</details>"


def _table(head: tuple[str, ...] | None, rows: list[Any]) -> str:
    titles = "".join(f"<th scope='col' style='{_CELL}'>{escape(title)}</th>" for title in head or ())
    body = "".join(
        "<tr>" + "".join(f"<td style='{_CELL}'>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table>{f'<thead><tr>{titles}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"
