"""Simulated machines: a specification, how many ranks fit on it, and the engine's own form of it."""

from __future__ import annotations

import os
import tomllib
from abc import ABC, abstractmethod
from base64 import b64encode
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from hashlib import sha256
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError, SuggestsNames
from labkit.local.costs import DEFAULT_CALIBRATION, REFERENCE_FLOPS_PER_S, KernelCosts, find_calibration
from labkit.machines import models, named
from labkit.machines import quantities as units
from labkit.machines.drawing import picture
from labkit.machines.mapping import BlockMapping, ListedMapping, RankMapping, mapping_of
from labkit.machines.measure import Bisection, Diameter, LinkKind, link_table
from labkit.machines.spec import ClusterSpec, MachineSpec, kinds, parse_spec
from labkit.machines.zones import Zone, ZonesSpec
from labkit.machines.zones.graph_spec import graph_zone
from labkit.text.files import text_of, toml_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Platform", "Shown", "graph", "platform"]


# The display of a machine: text, HTML with a picture, tables of its links.

#: A machine that grows is shown as it is for this many ranks.
_SHOWN_RANKS = 16

#: Links of the folded table.
_SHOWN_LINKS = 40

_CELL = "text-align:left;padding:2px 12px 2px 0"


class Shown(SuggestsNames, ABC):
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
        note = f"for {_SHOWN_RANKS} ranks"
    elif small != sized:
        note = f"the picture shows a smaller one, {small.size} of {small.hosts:,} hosts"
    return f"<div>{drawing}<div style='opacity:0.8'>{escape(note)}</div></div>"


def _as_image(drawing: str) -> str:
    """A drawing as a separate picture: pages that trust nobody show it, and would drop an ``<svg>``."""
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


class Platform(Shown):
    """A simulated machine.

    Parameters
    ----------
    spec : MachineSpec
        What it is made of.
    name : str, optional
        What to call it; default: its specification.
    source : str
        Where its numbers come from.
    mapping : RankMapping, optional
        How ranks are placed on its hosts; default: that of the specification, else block.
    facts : sequence of (str, str)
        Further rows of what it shows of itself: a heading and a text.
    host_speed : float, optional
        Flop/s that the host of the simulation counts as, where computation is measured; default: labkit's own
        reference, 1 Gflop/s.
    """

    _INSTEAD = MappingProxyType(
        {
            **dict.fromkeys(("plot", "draw", "show", "topology"), "labkit.plot.topology(platform)"),
            **dict.fromkeys(("run", "simulate"), "labkit.run(program, 8, on=platform)"),
            **dict.fromkeys(("size", "nodes", "n_hosts"), "hosts"),
        }
    )
    #: machines in bundles that were written before this was kept have the default
    host_speed: float | None = None

    def __init__(
        self,
        spec: MachineSpec,
        name: str | None = None,
        source: str = "",
        mapping: RankMapping | None = None,
        facts: Sequence[tuple[str, str]] = (),
        host_speed: float | None = None,
    ) -> None:
        self.description = spec
        self.name = name or str(spec)
        self.source = source
        self.facts = tuple(facts)
        self.host_speed = host_speed
        self._mapping = mapping_of(spec.mapping) if mapping is None and spec.mapping else mapping

    @property
    def spec(self) -> str:
        """The specification, as `labkit.platform` reads it."""
        return str(self.description)

    @property
    def hosts(self) -> int | None:
        """Number of hosts; None for a machine that grows with the ranks."""
        return self.description.hosts

    @property
    def model(self) -> models.NetworkModel:
        """The network model of a run that names none itself."""
        return models.get(self.description.model)

    def network(self, model: Any = None) -> models.NetworkModel:
        """Return the network model of a run.

        Parameters
        ----------
        model : str or NetworkModel, optional
            The one that the run names; None: the machine's own.

        Returns
        -------
        NetworkModel
        """
        return self.model if model is None else models.get(model)

    def digest(self, network: models.NetworkModel) -> str:
        """Return a digest of the machine's content, its mapping and the network model of a run.

        Parameters
        ----------
        network : NetworkModel
            Of the run.

        Returns
        -------
        str
        """
        parts = [self.description.content, repr(self.mapping), network.digest, repr(self.host_speed)]
        return sha256("\0".join(parts).encode()).hexdigest()

    def kernel_costs(self, given: object = None) -> KernelCosts:
        """Return what node-local work costs the ranks of a run.

        Parameters
        ----------
        given : str, path or KernelCosts, optional
            What the run names; None: the machine's own costs, unless the process uses others than the default
            (`labkit.local.use_calibration`).

        Returns
        -------
        KernelCosts
            Charged as measured on every core as fast as those of the machine's first host.

        Raises
        ------
        DataError
            It cannot be found or read.
        """
        costs, own = find_calibration(given), self.description.calibration
        if given is None and own is not None and costs.name == DEFAULT_CALIBRATION:
            costs = find_calibration(own)
        return replace(costs, reference_flops_per_s=self.description.speed)

    @property
    def lacks_costs(self) -> str:
        """The note for a machine with a speed and no node-local costs; else empty."""
        if self.description.calibration is not None or self.description.speed == REFERENCE_FLOPS_PER_S:
            return ""
        cpu = find_calibration(DEFAULT_CALIBRATION).machine["cpu"]
        return (
            f"{self.name} has no node-local costs: sorting, merging and the other kernels of "
            f"labkit.local cost what they do on one core of {cpu}, whatever the speed, because a peak flop "
            "rate does not say how fast a core sorts; calibration= names other costs"
        )

    @property
    def capacity(self) -> int | None:
        """Most ranks it holds; None for a machine that grows."""
        return None if self.hosts is None else self.hosts * self.description.cores

    @property
    def mapping(self) -> RankMapping:
        """How ranks are placed on its hosts."""
        return self._mapping or BlockMapping()

    def mapped(self, mapping: str | os.PathLike[str] | Sequence[int] | RankMapping | None) -> Platform:
        """Return the machine with its ranks placed so; itself for None.

        Parameters
        ----------
        mapping
            What `labkit.machines.mapping.mapping_of` reads: ``block``, ``cyclic``, ``random:7``,
            a list, a file.

        Returns
        -------
        Platform
            Another one; this one stays unchanged.

        Raises
        ------
        PlatformError
            It cannot be read.
        """
        if mapping is None:
            return self
        return Platform(
            self.description,
            self.name,
            self.source,
            mapping_of(mapping, self._host_number),
            self.facts,
            self.host_speed,
        )

    def shaped(self, shape: str | None) -> Platform:
        """Return the machine whose jobs get blocks of hosts of this shape; itself for None.

        Parameters
        ----------
        shape : str or None
            ``compact``, the sides of a block such as ``4x4x2``, or ``whole``: all hosts are the job's.

        Returns
        -------
        Platform

        Raises
        ------
        PlatformError
            It is no such shape, or the machine is no torus.
        """
        if shape is None:
            return self
        described = self.description
        if not isinstance(described, ClusterSpec) or "shape" not in described.options():
            raise PlatformError(
                f"shape={shape!r} is for a torus, and {self.name} is not a torus; leave it out",
                code="conflicting-options",
            )
        option = None if shape == "whole" else described.options()["shape"].read(str(shape))
        values: dict[str, Any] = {"shape": option}
        changed = replace(described, **values)
        return Platform(changed, self.name, self.source, self._mapping, self.facts, self.host_speed)

    def allocated(self, ranks: int) -> Platform:
        """Return the part of the machine that a job gets; the machine itself if that is all of it.

        Parameters
        ----------
        ranks : int
            At least 1.

        Returns
        -------
        Platform

        Raises
        ------
        PlatformError
            The ranks do not fit.
        """
        _check_ranks(ranks)
        described = self.description
        if self.hosts is None or described.allocated(1) is described:
            return self
        hosts = self.hosts_for(ranks)
        needed = self.mapping.job_hosts(int(ranks), described.cores)
        part = described.allocated(None if needed is None else min(needed, hosts))
        if part is described:
            return self
        facts = [("allocation", f"a block of {part.size} hosts of {described.size}"), *self.facts]
        return Platform(part, self.name, self.source, self._mapping, facts, self.host_speed)

    def _host_number(self, name: str) -> int | None:
        """Find a host by its name; where names are numbers, refuse other numbers: which they mean is open."""
        found = self.description.host_number(name)
        if found is None and name.isdecimal() and self.hosts is not None:
            some = {0, self.hosts // 2, self.hosts - 1}
            own = [one for one in map(self.description.host_name, some) if one.isdecimal()]
            if own:
                raise PlatformError(
                    f"no host of {self.name} is called {name!r}; its hosts have numbers as names, such as "
                    f"{own[0]!r}, so in a mapping a number is a name",
                    code="unknown-name",
                )
        return found

    def hosts_for(self, ranks: int) -> int:
        """Count the hosts of the machine for a number of ranks.

        Parameters
        ----------
        ranks : int
            At least 1.

        Returns
        -------
        int
            The hosts that it has then.

        Raises
        ------
        PlatformError
            Fewer ranks than one, or more than hosts times cores unless a mapping was asked for.
        """
        _check_ranks(ranks)
        cores = self.description.cores
        if self.hosts is None:
            least = max(-(-int(ranks) // cores), self.mapping.least_hosts(int(ranks)))
            return self.description.sized(least).hosts or 0
        if ranks > self.hosts * cores and self._mapping is None:
            hosts = "1 host" if self.hosts == 1 else f"{self.hosts} hosts"
            holds = f"{hosts}{f' of {cores} cores' if cores > 1 else ''} hold{'s' if self.hosts == 1 else ''}"
            needed = -(-int(ranks) // self.hosts)
            raise PlatformError(
                f"{ranks} ranks do not fit on {self.name}: {holds} {self.hosts * cores}; use at least "
                f"{-(-int(ranks) // cores)} hosts, or cores={needed} to put several ranks on "
                "a host, or a mapping to let ranks share cores",
                code="too-many-ranks",
            )
        return self.hosts

    def rank_hosts(self, ranks: int) -> NDArray[np.int32]:
        """Place the ranks as the mapping says.

        Parameters
        ----------
        ranks : int
            At least 1.

        Returns
        -------
        ndarray of int32, shape (ranks,)
            The host of each rank.

        Raises
        ------
        PlatformError
            They do not fit, or the mapping names a host that is not there.
        """
        part = self.allocated(ranks)
        return self.mapping.place(int(ranks), part.hosts_for(ranks), part.description.cores)

    def placement(self, ranks: int) -> dict[str, object]:
        """Describe where the ranks of a run are, as `Run.machine` keeps it.

        Parameters
        ----------
        ranks : int
            At least 1.

        Returns
        -------
        dict
            mapping, used_hosts, most_ranks_on_a_host; of a block of a torus also shape and allocation; of a
            list or file of hosts also rank_hosts, because nothing else could repeat it.
        """
        placed = self.rank_hosts(ranks)
        on_host = np.bincount(placed)
        described: dict[str, object] = {
            "mapping": str(self.mapping),
            "used_hosts": int(np.count_nonzero(on_host)),
            "most_ranks_on_a_host": int(on_host.max()),
        }
        allocation = dict(self.facts).get("allocation")
        if allocation is not None:
            described |= {"shape": self.description.size, "allocation": allocation}
        if isinstance(self.mapping, ListedMapping):
            described["rank_hosts"] = placed.tolist()
        return described

    def build(self, ranks: int) -> Any:
        """Compile the machine for the engine and place the ranks on it.

        Parameters
        ----------
        ranks : int
            At least 1 and at most `capacity`.

        Returns
        -------
        labkit._kernels.Platform
            With host_count, rank_hosts, route(src, dst).

        Raises
        ------
        PlatformError
            The ranks do not fit.
        """
        part = self.allocated(ranks)
        return part.description.sized(part.hosts_for(ranks)).build(self.rank_hosts(ranks).tolist())

    def sized(self, ranks: int) -> Platform:
        """Return the machine for a number of ranks: grown, or the part that the job gets.

        Parameters
        ----------
        ranks : int
            At least 1.

        Returns
        -------
        Platform
            With a number of hosts.

        Raises
        ------
        PlatformError
            The ranks do not fit.
        """
        if self.hosts is not None:
            self.hosts_for(ranks)
            return self.allocated(ranks)
        sized = self.description.sized(self.hosts_for(ranks))
        return Platform(sized, mapping=self._mapping, host_speed=self.host_speed)

    def _rows(self) -> list[tuple[str, str]]:
        rows = self.description.rows()
        rows += self._measures()
        if self._mapping is not None:
            rows.append(("ranks on hosts", str(self._mapping)))
        rows.append(("network model", f"{self.description.model}: {self.model.title}"))
        return rows + self._cost_rows() + list(self.facts)

    def _cost_rows(self) -> list[tuple[str, str]]:
        """Show what a core of the machine takes for its node-local work, and where the figures come from."""
        if self.description.calibration is None:
            return [("node-local costs", self.lacks_costs)] if self.lacks_costs else []
        costs = self.kernel_costs()
        keys, buckets = 10**6, 256
        shown = {
            "sort": costs.seconds("sort", 8, keys, keys),
            "merge of two runs": costs.seconds("merge", 8, keys, 2),
            f"partition into {buckets}": costs.seconds("distribute", 8, keys, buckets, buckets - 1),
            f"histogram of {buckets}": costs.seconds("histogram", 8, keys, buckets, buckets - 1),
        }
        memory = costs.memory_bytes_per_s
        if memory is not None:
            shown["copy"] = 2 * 8 * keys / memory
        texts = (f"{what} {seconds:.3g} s" for what, seconds in shown.items())
        rows = [
            ("node-local costs", f"{costs.name}: a core of {costs.machine['cpu']}"),
            ("seconds per 10^6 keys", f"{', '.join(texts)} (64-bit keys)"),
        ]
        if memory is not None:
            core, host = (units.format_bandwidth(memory * cores) for cores in (1, self.description.cores))
            rows.append(("bandwidth of memory", f"{host} a host, {core} a core while all of them copy"))
        return rows + [(f"core: {what}", text) for what, text in costs.facts]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Platform) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[MachineSpec, str, RankMapping | None, float | None]:
        return self.description, self.name, self._mapping, self.host_speed


def _check_ranks(ranks: object) -> None:
    if isinstance(ranks, bool) or not isinstance(ranks, int | np.integer) or ranks < 1:
        raise PlatformError(
            f"a platform runs a whole number of ranks from 1 on, got {ranks!r}", code="out-of-range"
        )


def platform(spec_or_file: str | os.PathLike[str] | Platform | Zone | object) -> Platform:
    """Make a simulated machine from a specification, a file, zones or a graph.

    Parameters
    ----------
    spec_or_file : str, path, Platform, Zone or graph
        ``star:64``, ``torus:8x8x8``, ``fattree:4x4:1x2:1x2`` (down : up : cables, from the hosts upwards) or
        ``dragonfly:4x4:3x4:5x1:2`` (groups x blue : chassis x black : routers x green : nodes); without a
        size they grow with the ranks; options behind commas as in
        ``star:64,bw=1.25GBps,lat=1us,speed=1Gf,model=lab``. Or a file: SimGrid's platform XML, or TOML with
        `spec` and, if wanted, `name` and `source`. Or a named machine such as ``graphene`` (see
        `labkit.machines.named.names`). Or a `labkit.Zone`, a list of edges (u, v), a graph of
        NetworkX (see `labkit.graph`, which takes options). A Platform is returned unchanged.

    Returns
    -------
    Platform

    Raises
    ------
    PlatformError
        Unknown or malformed; the message shows the place and what is allowed there.

    Examples
    --------
    >>> platform("star:64,lat=24us").hosts
    64
    >>> platform([("a", "switch"), ("b", "switch")]).hosts
    2
    """
    if isinstance(spec_or_file, Platform):
        return spec_or_file
    if isinstance(spec_or_file, Zone):
        return Platform(ZonesSpec(spec_or_file))
    if not isinstance(spec_or_file, str | os.PathLike):
        return graph(spec_or_file)
    text = os.fspath(spec_or_file)
    machine = text.partition(",")[0].strip().lower()
    if machine in named.names():
        return _named(machine, text)
    is_spec = text.partition(",")[0].partition(":")[0] in kinds()  # it may end in a model's file
    is_path = isinstance(spec_or_file, os.PathLike)
    if is_path or (not is_spec and (text.endswith((".toml", ".xml")) or os.path.isfile(text))):
        return _from_file(Path(text))
    return Platform(parse_spec(text))


def _named(name: str, text: str) -> Platform:
    """A named machine, with options behind commas where it is a cluster: they replace its own."""
    found = named.load_machine(name)
    described, changes = found.spec, text.partition(",")[2]
    if changes:
        if not isinstance(described, ClusterSpec):
            raise PlatformError(
                f"{text!r}: {name} is made of zones, which take no options; choose a network model with "
                "model= or --model, a mapping with mapping=",
                code="conflicting-options",
            )
        given = {option.partition("=")[0] for option in changes.split(",")}
        own = str(described).split(",")
        kept = [own[0], *(option for option in own[1:] if option.partition("=")[0] not in given)]
        described = parse_spec(",".join([*kept, changes]))
    title = f"{name}, {changes}" if changes else name
    return Platform(described, title, found.title, facts=[("machine", found.title), *found.facts])


def graph(edges: object, hosts: Iterable[Hashable] | None = None, **options: Any) -> Platform:
    """Make a simulated machine from a graph whose nodes are hosts and switches.

    Parameters
    ----------
    edges, hosts
        See `labkit.machines.zones.graph_spec.graph_zone`.
    **options
        bw, lat, sharing of the edges; speed, cores of the hosts; routing; name.

    Returns
    -------
    Platform

    Raises
    ------
    PlatformError
        Not a graph, or not a connected one.

    Examples
    --------
    >>> ring = graph([(i, (i + 1) % 6) for i in range(6)], bw="10Gbps", lat="2us")
    >>> ring.build(6).route(0, 3)
    (['0 - 1 up', '1 - 2 up', '2 - 3 up'], 6e-06)
    """
    if isinstance(edges, int | float | None):
        raise PlatformError(
            "a platform is a specification such as 'star:64', a file, a Zone or a graph; got "
            f"{type(edges).__name__}",
            code="wrong-type",
        )
    unknown = sorted(set(options) - {"bw", "lat", "sharing", "speed", "cores", "routing", "name"})
    if unknown:
        raise PlatformError(
            f"a graph has no option {unknown[0]!r}; allowed: bw, lat, sharing, speed, cores, routing, name",
            code="unknown-name",
        )
    described = ZonesSpec(graph_zone(edges, hosts, **options))
    if described.assembly.gap is not None:
        raise described.assembly.gap
    return Platform(described)


def _from_file(path: Path) -> Platform:
    text = "" if path.suffix == ".xml" else text_of(path, PlatformError)
    if path.suffix == ".xml" or text.lstrip().startswith("<"):
        from labkit.machines.xml.reader import read_platform

        described, name, read_over, host_speed = read_platform(path)
        facts = [("read over", ", ".join(read_over))] if read_over else []
        if host_speed is not None:
            facts.append(("measured computation", f"this host counts as {host_speed:g} flop/s"))
        return Platform(described, name, str(path), None, facts, host_speed)
    try:
        table = toml_of(text)
    except tomllib.TOMLDecodeError as error:
        raise PlatformError(
            f"{path}: neither SimGrid's platform XML nor a readable TOML platform file ({error})",
            code="malformed-file",
        ) from None
    unknown = sorted(set(table) - {"name", "spec", "source"})
    if unknown or not all(isinstance(value, str) for value in table.values()) or "spec" not in table:
        found = ", ".join(sorted(table)) or "nothing"
        raise PlatformError(
            f"{path}: a platform file has the texts spec (needed), name and source; found {found}",
            code="malformed-file",
        )
    return Platform(parse_spec(table["spec"]), table.get("name", path.stem), table.get("source", "").strip())
