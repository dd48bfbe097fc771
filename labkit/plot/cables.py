"""Cables of a drawing: the one that a link is part of, the hops of a route."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from labkit.platform.drawing import Layout

__all__ = ["Cable", "Cables"]

Cable = tuple[str, str]
#: a cable's name: host, switch or router, direction, another one
_NODE = r"(\d+|host \d+|switch [\d.]+|router [\d.]+)"
_CABLE = re.compile(rf"{_NODE} (?:->|-) {_NODE}")


class Cables:
    """The cables of a drawn machine.

    Parameters
    ----------
    layout : Layout
    """

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._of_link: dict[str, Cable] = {}
        self._at: dict[str, list[tuple[str, frozenset[str]]]] = {}
        for (a, b), links in layout.links.items():
            for link in links:
                self._of_link.setdefault(link, (a, b))
            for here, there in ((a, b), (b, a)):
                self._at.setdefault(here, []).append((there, frozenset(links)))

    def host(self, number: int) -> str | None:
        """Name the point of a host; None if it is not drawn."""
        points = self._layout.host_points
        return f"host {number}" if points is None else points[number]

    def of_link(self, link: str) -> Cable | None:
        """Name the two ends of the cable that a link is a part of; None if it is not drawn."""
        if self._layout.host_points is not None:
            return self._of_link.get(link)
        if found := _CABLE.match(link):
            a, b = (end if " " in end else f"host {end}" for end in found.groups())
            return a, b
        role, _, host = link.partition(" ")
        return (f"host {host}", "switch") if role in ("up", "down", "link") else None

    def loads(self, values: Iterable[tuple[str, float]]) -> dict[Cable, float]:
        """Return the largest value of the links of each cable (its ends in the order of the alphabet)."""
        found: dict[Cable, float] = {}
        for link, value in values:
            ends = self.of_link(link)
            if ends is not None:
                key = min(ends, ends[::-1])
                found[key] = max(found.get(key, 0.0), value)
        return found

    def hops(self, links: Sequence[str], src: int, dst: int) -> list[Cable]:
        """Return the drawn hops of a route, given its links, in order.

        Links that are not drawn are passed over; the last hop leads to the destination where it is drawn.
        """
        if self._layout.host_points is None:
            return self._named_hops(links, src)
        here = self.host(src)
        if here is None:
            return []
        hops: list[Cable] = []
        place = 0
        while place < len(links):
            reach, there = self._farthest(links, place, here)
            hub = here.rpartition(" ")[0]
            if not reach and (here, hub) in self._layout.cables and self._farthest(links, place, hub)[0]:
                there = hub  # out of a zone whose inner links are not drawn
            if there:
                hops.append((here, there))
                here = there
            place += reach or not there
        target = self.host(dst)
        if target is not None and here != target:
            hops += self._way(here, target)
        return hops

    def _farthest(self, links: Sequence[str], place: int, here: str) -> tuple[int, str]:
        """How many of the next links one cable at a point takes, and where it leads."""
        runs = ((_run(links, place, own), there) for there, own in self._at.get(here, []))
        reach, there = max(runs, default=(0, ""), key=lambda one: one[0])
        return (reach, there) if reach else (0, "")

    def _way(self, here: str, target: str) -> list[Cable]:
        """Go on to a host of the same zone, or over that zone."""
        cables = self._layout.cables
        if (here, target) in cables or (target, here) in cables:
            return [(here, target)]
        middle = target.rpartition(" ")[0]
        if (target, middle) in cables and (here, middle) in cables:
            return [(here, middle), (middle, target)]
        return []

    def _named_hops(self, links: Sequence[str], src: int) -> list[Cable]:
        hops: list[Cable] = []
        here = f"host {src}"
        for name in links:
            if found := _CABLE.match(name):
                ends = [end if " " in end else f"host {end}" for end in found.groups()]
                there = ends[1] if ends[0] == here else ends[0]
            elif name.startswith(("up ", "link ")) and here != "switch":
                there = "switch"
            elif name.startswith(("down ", "link ")):
                there = f"host {name.split()[1]}"
            else:
                continue
            hops.append((here, there))
            here = there
        return hops


def _run(links: Sequence[str], place: int, own: frozenset[str]) -> int:
    """How many links from here on belong to the cable."""
    count = 0
    while place + count < len(links) and links[place + count] in own:
        count += 1
    return count
