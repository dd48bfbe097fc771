"""The topology explorer: choose a machine, look at routes, bisection and hot links."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ipywidgets as w
import numpy as np
from bokeh.models import ColorBar, LinearColorMapper, NumeralTickFormatter, TapTool
from numpy.typing import NDArray

from labkit.errors import DataError, LabkitError
from labkit.jupyter.explorers.base import Explorer, Select, dropdown, number_field, text
from labkit.machines import named
from labkit.machines.drawing import Layout
from labkit.machines.platform import Platform, platform
from labkit.machines.spec import kinds
from labkit.plot.figure import Figure
from labkit.plot.style import FONT, HEAT, heading, whole_ticker, wrap
from labkit.plot.topology_figure import Cables, draw_layout, way
from labkit.text.html import escape, properties, quantity, table

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["PATTERNS", "TopologyExplorer", "loads", "look", "pairs", "refused", "topology"]

_GIVEN = "as given"

# The topology explorer's content, without a widget: picture, facts, route, hot links.

#: hosts of a machine that grows
_GROWN = 16

_SIZE = 1e6


# Communication patterns, and the links that they make hot.

#: name -> what it is
PATTERNS = {
    "none": "no messages",
    "ring": "every host to the next one",
    "shift": "every host to the one that is some places further",
    "halo": "every host to its four neighbors in a grid of hosts, row by row",
    "transpose": "host (row, column) of a square grid to (column, row)",
    "random pairs": "every host to one other, drawn at random",
    "all to all": "every host to every other",
}

#: pairs whose routes are looked up
MOST_PAIRS = 70_000

Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Load:
    """The number of times that a pattern crosses each link.

    Attributes
    ----------
    messages : int
        Of the pattern.
    crossed : dict of str to int
        Link to the messages that cross it.
    hottest : list of (str, int, float)
        Links, the messages on each, and the seconds that each needs for one byte of all of them; the
        slowest first.
    """

    messages: int
    crossed: dict[str, int]
    hottest: list[tuple[str, int, float]]


def refused(hosts: int) -> dict[str, str]:
    """Return the patterns that this many hosts cannot do, each with the reason.

    Examples
    --------
    >>> refused(12)
    {'transpose': '12 hosts are no square'}
    """
    if hosts < 2:
        return {name: "one host has no other" for name in PATTERNS if name != "none"}
    found = {}
    if round(hosts**0.5) ** 2 != hosts:
        found["transpose"] = f"{hosts:,} hosts are no square"
    if hosts * hosts > MOST_PAIRS:
        found["all to all"] = f"{hosts:,} hosts are too many (most: {int(MOST_PAIRS**0.5)})"
    return found


def pairs(pattern: str, hosts: int, shift: int = 1, seed: int = 0) -> Pairs:
    """Return the messages of a pattern.

    Parameters
    ----------
    pattern : str
        A key of `PATTERNS`.
    hosts : int
    shift : int
        For "shift".
    seed : int
        For "random pairs": every host sends and receives once, none to itself where that can be.

    Returns
    -------
    array of int64, shape (messages, 2)
        Sender and receiver of each; messages of a host to itself are left out.

    Raises
    ------
    DataError
        Unknown, too many messages, or hosts that are no square for a transpose.
    """
    every = np.arange(hosts)
    if pattern not in PATTERNS:
        raise DataError(f"a pattern is one of {', '.join(PATTERNS)}; got {pattern!r}", code="unknown-name")
    if pattern == "none":
        return np.empty((0, 2), np.int64)
    if pattern == "all to all":
        if hosts * hosts > MOST_PAIRS:
            raise DataError(
                f"all to all on {hosts:,} hosts has {hosts * (hosts - 1):,} messages; at most "
                f"{int(MOST_PAIRS**0.5)} hosts are supported: choose a smaller machine of the same kind",
                code="out-of-range",
            )
        found = np.stack([np.repeat(every, hosts), np.tile(every, hosts)], 1)
    elif pattern == "halo":
        rows = max(d for d in range(1, int(hosts**0.5) + 1) if hosts % d == 0)
        row, column = np.divmod(every, hosts // rows)
        columns = hosts // rows
        ways = [((row + a) % rows) * columns + (column + b) % columns for a, b in _NEIGHBORS]
        found = np.unique(np.concatenate([np.stack([every, way], 1) for way in ways]), axis=0)
    else:
        found = np.stack([every, _targets(pattern, hosts, shift, seed)], 1)
    kept: Pairs = found[found[:, 0] != found[:, 1]]
    return kept


_NEIGHBORS = ((0, 1), (0, -1), (1, 0), (-1, 0))


def _targets(pattern: str, hosts: int, shift: int, seed: int) -> Pairs:
    every = np.arange(hosts)
    if pattern in ("ring", "shift"):
        return np.asarray((every + (1 if pattern == "ring" else shift)) % hosts, np.int64)
    if pattern == "transpose":
        side = round(hosts**0.5)
        if side * side != hosts:
            raise DataError(
                f"a transpose needs a square number of hosts; {hosts} is not a square", code="out-of-range"
            )
        row, column = np.divmod(every, side)
        return np.asarray(column * side + row, np.int64)
    # One cycle through all hosts in random order: a permutation without a fixed point.
    order = np.argsort(np.random.PCG64(seed).random_raw(hosts), kind="stable")
    target: Pairs = np.empty(hosts, np.int64)
    target[order] = np.roll(order, -1)
    return target


def link_facts(built: _kernels.Platform, names: Iterable[str]) -> dict[str, tuple[float, float, str]]:
    """Return bytes/s, seconds of latency and policy of some links, by name."""
    wanted = set(names)
    found = {}
    for i in range(built.link_count if wanted else 0):
        if built.link_name(i) in wanted:
            name, *facts = built.link(i)
            found[name] = tuple(facts)
            if len(found) == len(wanted):  # of a large machine mostly the first ones
                break
    return found


def loads(built: _kernels.Platform, chosen: Pairs) -> Load:
    """Count the routes of messages that cross each link.

    Parameters
    ----------
    built : labkit._kernels.Platform
    chosen : array, shape (messages, 2)

    Returns
    -------
    Load
        Loopbacks are left out.
    """
    crossed: Counter[str] = Counter()
    for a, b in chosen.tolist():
        with contextlib.suppress(ValueError):  # not every pair of hosts of a file need be joined
            crossed.update(built.route(a, b)[0])
    if not crossed:
        return Load(len(chosen), {}, [])
    facts = link_facts(built, crossed)
    rate = {link: bytes_per_s for link, (bytes_per_s, _, policy) in facts.items() if policy != "fatpipe"}
    hottest = [(link, count, count / rate[link]) for link, count in crossed.items() if link in rate]
    hottest.sort(key=lambda one: (-one[2], one[0]))
    return Load(len(chosen), dict(crossed), hottest)


@dataclass(frozen=True)
class TopologyView:
    """The display of a machine.

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
    machine: str | Platform,
    route: Sequence[int] | None = None,
    pattern: str = "none",
    shift: int = 1,
    seed: int = 0,
    width: int = 560,
    height: int = 430,
) -> TopologyView:
    """Look at a machine."""
    whole = sized(machine)
    drawn = whole.description.smaller()
    layout, built = drawn.lay_out(), whole.description.build([0])
    is_whole = drawn == whole.description
    cables = Cables(layout)
    reading = whole.name if is_whole else f"{whole.name}; the picture shows a smaller one, {drawn.size}"
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
            f". {pattern}: {link} carries {count:,} of {load.messages:,} messages, which take "
            f"{quantity(seconds * _SIZE, 's', 3)} there if each has 1 MB"
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


def _facts(machine: Platform, built: _kernels.Platform) -> list[tuple[str, str]]:
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


def _links(built: _kernels.Platform, names: Sequence[str]) -> list[tuple[str, float, float]]:
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
            layout,
            width,
            height,
            lambda a, b: values.get(min((a, b), (b, a)), 0.0),
            mapper,
            hops=hops,
            form="0,0",
        )
        bar = ColorBar(
            color_mapper=mapper,
            title="messages in a cable's busier direction",
            height=10,
            formatter=NumeralTickFormatter(format="0,0"),
            title_text_font=FONT,
            ticker=whole_ticker(5),
            major_label_text_font=FONT,
            title_text_font_style="normal",
        )
        fig.add_layout(bar, "below")
    (hosts,) = fig.select({"name": "hosts"})
    hosts.nonselection_glyph = hosts.selection_glyph = None
    tap = TapTool(renderers=[hosts])
    fig.add_tools(tap)
    fig.toolbar.active_tap = tap
    return fig


class TopologyExplorer(Explorer):
    """A machine to play with; see `topology`.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
        Where to begin.

    Attributes
    ----------
    kind, shape, options, source, target, pattern, shift, seed : widgets
        The controls, each with a `value`.
    view : TopologyView
        What is shown.
    """

    view: TopologyView

    def __init__(self, machine: str | Platform | Sequence[object] = "torus:4x4") -> None:
        super().__init__("Topology")
        known = [*kinds(), *named.names()]
        kind, shape, options = _taken_apart(machine)
        self._given = None if kind in known else platform(machine)
        if self._given is not None:
            known, kind = [_GIVEN, *known], _GIVEN
        self.kind = dropdown("machine", known, kind, "a topology, or a machine that exists")
        self.shape = text("shape", shape, tip="its size; how to write it stands below")
        self.options = text("options", options, "bw=1.25GBps", "behind commas, as in star:64,bw=1GBps")
        self._hint = w.HTML()
        self.source = number_field("from host", 0, 0, 1 << 20, "or click a host, then another one")
        self.target = number_field("to host", min(1, _hosts(machine) - 1), 0, 1 << 20)
        self.pattern = Select("pattern", list(PATTERNS), "none", "messages that make links hot")
        self.shift = number_field("shift by", 1, -(1 << 20), 1 << 20)
        self.seed = number_field("seed", 0, 0, 2**31 - 1)
        self._facts = w.HTML(layout=w.Layout(min_width="18em"))
        self._clicks = 0
        self.kind.observe(self._chosen, "value")
        self._show_needed()
        place = w.VBox()
        self.start(
            [
                self.kind,
                self.shape,
                self._hint,
                self.options,
                self.source,
                self.target,
                self.pattern,
                self.shift,
                self.seed,
            ],
            place,
            self._facts,
        )
        place.children = self.pictures()

    def compute(self) -> None:
        """Draw the machine that the controls describe."""
        self._show_needed()
        machine = sized(
            self._given
            if self._given is not None and self.kind.value == _GIVEN
            else spec_of(self.kind.value, self.shape.value, self.options.value)
        )
        self.pattern.refuse(refused(machine.hosts or 1))
        try:
            view = look(
                machine,
                (self.source.value, self.target.value),
                self.pattern.value,
                self.shift.value,
                self.seed.value,
            )
        except LabkitError:  # what is asked of the machine does not fit; the machine is shown all the same
            self._show(look(machine))
            self.is_current = True
            raise
        self._show(view)

    def _show(self, view: TopologyView) -> None:
        self.view = view
        self.picture("machine", view.figure)
        self._facts.value = view.html()
        self._listen(view)

    def click(self, point: int) -> None:
        """Choose the host of a point of the drawing: the first click where from, the next one where to.

        Parameters
        ----------
        point : int
            Its number in the drawing, from 0 on.
        """
        host = self.view.hosts[point]
        self._clicks += 1
        self.set(**({"source": host} if self._clicks % 2 else {"target": host}))

    def _listen(self, view: TopologyView) -> None:
        (hosts,) = view.figure.layout.select({"name": "hosts"})
        selected = hosts.data_source.selected

        def tapped(_: str, __: object, points: list[int]) -> None:
            # A change may arrive twice; after the first time another picture is shown.
            if points and view is self.view:
                self.click(points[0])

        if view.hosts:
            selected.on_change("indices", tapped)

    def _chosen(self, change: Any) -> None:
        """Another kind: begin with an example of its shape."""
        with self.quiet():
            self.shape.value = _example(change["new"])[0]
            self.options.value = ""
            self.source.value, self.target.value = 0, 1

    def _show_needed(self) -> None:
        kind, pattern = self.kind.value, self.pattern.value
        self.shape.layout.display = "" if kind in kinds() else "none"
        self.options.layout.display = "none" if kind == _GIVEN else ""
        hint = f'<div style="opacity:.75;margin-left:8em;line-height:1.2">{_example(kind)[1]}</div>'
        self._hint.value = hint
        self.shift.layout.display = "" if pattern == "shift" else "none"
        self.seed.layout.display = "" if pattern == "random pairs" else "none"


def _example(kind: str) -> tuple[str, str]:
    """An example of a topology's shape, and how to read it; nothing for a machine."""
    return kinds()[kind].EXAMPLE if kind in kinds() else ("", "")


def _hosts(machine: str | Platform | Sequence[object]) -> int:
    """Count the hosts; a machine that grows has some."""
    return platform(machine).hosts or 2


def _taken_apart(machine: str | Platform | Sequence[object]) -> tuple[str, str, str]:
    """Kind, shape and options of a specification."""
    spec = machine.spec if isinstance(machine, Platform) else str(machine)
    head, _, options = spec.partition(",")
    kind, _, shape = head.partition(":")
    return (kind, shape or _example(kind)[0], options) if kind in kinds() else (head, "", options)


def topology(machine: str | Platform | Sequence[object] = "torus:4x4") -> TopologyExplorer:
    """Explore a machine: its picture, diameter, bisection and links, routes, and what makes links hot.

    Parameters
    ----------
    machine : Platform or what `labkit.platform` reads
        Where to begin.

    Returns
    -------
    TopologyExplorer
        A widget: the last line of a cell shows it.

    Raises
    ------
    PlatformError
        Not a machine.

    Examples
    --------
    >>> from labkit.jupyter import explorers
    >>> explorer = explorers.topology("torus:4x4")
    >>> explorer.set(source=0, target=10, pattern="all to all")
    >>> explorer.view.load.messages
    240
    >>> explorer.set(shape="4y4")
    >>> explorer.problem[:40]
    "platform 'torus:4y4', at character 7: ho"
    """
    return TopologyExplorer(machine)
