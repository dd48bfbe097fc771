"""The topology explorer's content, without a widget: picture, facts, route, hot links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.models import ColorBar, LinearColorMapper, NumeralTickFormatter, TapTool

from labkit.html import escape, properties, quantity, table
from labkit.jupyter.explorers.patterns import Load, link_facts, loads, pairs
from labkit.platform.drawing import Layout
from labkit.platform.platform import Platform, platform
from labkit.platform.spec import kinds
from labkit.plot.cables import Cables
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, heading, whole_ticker, wrap
from labkit.plot.topology_figure import draw_layout, way

__all__ = ["TopologyView", "look", "spec_of"]

#: hosts of a machine that grows
_GROWN = 16
_SIZE = 1e6


@dataclass(frozen=True)
class TopologyView:
    """A machine as it is shown.

    Attributes
    ----------
    machine : Platform
    figure : Figure
    facts : list of (str, str)
        Hosts, links, diameter, bisection.
    route : list of (str, float, float)
        Link, bytes/s and seconds of latency, in order.
    load : Load
    hosts : list of int or None
        The host's number of each point of the drawing, in the order in which it draws them.
    """

    machine: Platform
    figure: Figure
    facts: list[tuple[str, str]]
    route: list[tuple[str, float, float]]
    load: Load
    hosts: list[int]

    def html(self) -> str:
        """Return facts, route and hot links as tables."""
        parts = [properties((name, escape(text)) for name, text in self.facts)]
        if self.route:
            rows = [[escape(n), quantity(bw, "B/s"), quantity(lat, "s")] for n, bw, lat in self.route]
            parts.append(table(["link of the route", "bandwidth", "latency"], rows))
        if self.load.hottest:
            rows = [
                [escape(link), f"{count:,}", quantity(seconds * _SIZE, "s", 3)]
                for link, count, seconds in self.load.hottest[:6]
            ]
            parts.append(table(["hot link", "messages", "time, 1 MB each"], rows))
        return "".join(parts)


def spec_of(kind: str, shape: str, options: str = "") -> str:
    """Put a specification together; a kind that is no topology is a machine's name."""
    spec = f"{kind}:{shape.strip()}" if kind in kinds() and shape.strip() else kind
    extra = options.strip().strip(",")
    return f"{spec},{extra}" if extra else spec


def sized(machine: str | Platform) -> Platform:
    """Return a machine with a size: one that grows has 16 hosts.

    Raises
    ------
    PlatformError
        Not a machine.
    """
    whole = platform(machine)
    return whole.sized(_GROWN) if whole.hosts is None else whole


def look(
    machine: str | Platform, route: Sequence[int] | None = None, pattern: str = "none", shift: int = 1,
    seed: int = 0, width: int = 560, height: int = 430,
) -> TopologyView:  # fmt: skip
    """Look at a machine.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
    route : (int, int), optional
    pattern, shift, seed
        See `patterns.pairs`.
    width, height : int
        Pixels of the picture.

    Raises
    ------
    PlatformError
        Not a machine, or no such hosts.
    DataError
        A pattern that does not fit.
    """
    whole = sized(machine)
    drawn = whole.description.smaller()
    layout, built = drawn.lay_out(), whole.description.build([0])
    is_whole = drawn == whole.description
    cables = Cables(layout)
    reading = whole.name if is_whole else f"{whole.name}; drawn is a smaller sibling, {drawn.size}"
    links: list[tuple[str, float, float]] = []
    hops = []
    if route is not None:
        found, text = way(whole, built, cables, (int(route[0]), int(route[1])))
        hops = found if is_whole else []
        reading += f". {text.removesuffix('.')}"
        links = _links(built, built.route(*route)[0]) if route[0] != route[1] else []
    load = loads(built, pairs(pattern, built.host_count, shift, seed))
    if load.hottest:
        link, count, seconds = load.hottest[0]
        reading += (
            f". {pattern}: {link} carries {count:,} of {load.messages:,} messages; with 1 MB each it alone "
            f"needs {quantity(seconds * _SIZE, 's', 3)}"
        )
    figure = _draw(layout, cables, load if is_whole else Load(0, {}, []), hops, width, height)
    name = whole.name if is_whole else f"{drawn.size}, a smaller one of this kind: {whole.name} is too large"
    for line in reversed(wrap(name, width // 8)):
        figure.add_layout(heading(line, 14), "above")
    alt = f"Picture of a machine. {reading}. {layout.said}"
    facts = _facts(whole, built)
    numbers = {cables.host(i): i for i in range(len(layout.host_points or layout.hosts))}
    hosts = [numbers[name] for name in layout.hosts] if is_whole else []
    return TopologyView(whole, Figure(figure, f"{reading}.", alt), facts, links, load, hosts)


def _facts(machine: Platform, built: Any) -> list[tuple[str, str]]:
    facts = [("hosts", f"{built.host_count:,}")]
    kinds = machine.link_kinds()
    facts.append(("links", f"{sum(kind.count for kind in kinds):,}"))
    facts += [(kind.kind, f"{kind.count:,}, {quantity(kind.bytes_per_s, 'B/s')}") for kind in kinds[:4]]
    far, cut = machine.diameter, machine.bisection
    if far is not None:
        at_least = "" if far.is_exact else "at least "
        facts.append(("diameter", f"{at_least}{far.links} links, {quantity(far.latency_s, 's', 6)}"))
    if cut is not None:
        at_most, ways = "" if cut.is_exact else "at most ", "each way" if cut.is_each_way else "both ways"
        facts.append(("bisection", f"{at_most}{quantity(cut.bytes_per_s, 'B/s')} {ways}, {cut.cut}"))
    return facts


def _links(built: Any, names: Sequence[str]) -> list[tuple[str, float, float]]:
    known = link_facts(built, names)
    return [(name, *known[name][:2]) for name in names]


def _draw(
    layout: Layout, cables: Cables, load: Load, hops: list[tuple[str, str]], width: int, height: int
) -> Any:
    values = cables.loads((link, float(count)) for link, count in load.crossed.items())
    if not values:
        fig = draw_layout(layout, width, height, hops=hops)
    else:
        mapper = LinearColorMapper(palette=HEAT, low=0.0, high=max(values.values()))
        fig = draw_layout(
            layout, width, height, lambda a, b: values.get(min((a, b), (b, a)), 0.0), mapper,
            hops=hops, form="0,0",
        )  # fmt: skip
        bar = ColorBar(
            color_mapper=mapper, title="messages in a cable's busier direction", height=10,
            formatter=NumeralTickFormatter(format="0,0"), title_text_font=FONT,
            ticker=whole_ticker(5),
            major_label_text_font=FONT, title_text_font_style="normal",
        )  # fmt: skip
        fig.add_layout(bar, "below")
    (hosts,) = fig.select({"name": "hosts"})
    hosts.nonselection_glyph = hosts.selection_glyph = None
    tap = TapTool(renderers=[hosts])
    fig.add_tools(tap)
    fig.toolbar.active_tap = tap
    return fig
