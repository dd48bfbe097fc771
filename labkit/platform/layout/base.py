"""The elements of a machine's drawing."""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["Layout", "Point"]

Point = tuple[float, float]


@dataclass
class Layout:
    """A drawing: named points, and each cable as one line or, round an end, two stubs.

    Attributes
    ----------
    hosts, switches : dict of str to (x, y)
    cables : dict
        (name, name), in rising order of drawing, to the lines that draw it.
    tints : dict
        Colours of cables, by their names as in `cables`; others are grey.
    notes : list of (x, y, text)
        What is written beside the drawing.
    said : str
        How to read it.
    links : dict
        Cable to the names of the links that it consists of, where these are not named after its ends.
    host_points : list of (str or None), or None
        The point of each host, None for one that is not drawn; None where they are named ``host 0``, ...
    is_tree : bool
        Rows from the hosts upwards, which may be stretched; everything else keeps its proportions.
    """

    hosts: dict[str, Point] = field(default_factory=dict)
    switches: dict[str, Point] = field(default_factory=dict)
    cables: dict[tuple[str, str], list[list[Point]]] = field(default_factory=dict)
    tints: dict[tuple[str, str], str] = field(default_factory=dict)
    notes: list[tuple[float, float, str]] = field(default_factory=list)
    links: dict[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    host_points: list[str | None] | None = None
    said: str = ""
    is_tree: bool = False

    def at(self, name: str) -> Point:
        """Where a host or switch is."""
        return self.hosts[name] if name in self.hosts else self.switches[name]

    def join(self, a: str, b: str) -> None:
        """Draw a cable as a straight line."""
        self.cables.setdefault((a, b), [[self.at(a), self.at(b)]])

    def bend(self, a: str, b: str, sag: Point, tint: str | None = None) -> None:
        """Draw a cable as a curve: its middle is moved aside, so as not to run over what is between."""
        (ax, ay), (bx, by) = self.at(a), self.at(b)
        steps = 8 if any(sag) else 1
        line = []
        for step in range(steps + 1):
            t = step / steps
            bulge = 4 * t * (1 - t)
            line.append((ax + t * (bx - ax) + bulge * sag[0], ay + t * (by - ay) + bulge * sag[1]))
        self.cables.setdefault((a, b), [line])
        if tint:
            self.tints[a, b] = tint

    def lines(self, a: str, b: str) -> list[list[Point]]:
        """The lines of the cable between two neighbours, or a straight one where none is drawn."""
        return self.cables.get((a, b)) or self.cables.get((b, a)) or [[self.at(a), self.at(b)]]
