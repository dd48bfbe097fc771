"""The common part of the specifications of clusters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

from labkit.errors import PlatformError
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.measure import BOTH, INTO, OUT, Bisection, Diameter, LinkKind
from labkit.machines.spec.machine import MachineSpec
from labkit.machines.spec.options import OPTIONS, SHARINGS, Option, one_of, parse_mapping
from labkit.machines.xml.elements import cluster_element, digits_of, whole_file

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["KINDS", "MAX_DRAWN_HOSTS", "MAX_HOSTS", "MAX_LINKS", "ClusterSpec", "LinksOfCables"]

#: Most hosts of any machine, and most links of a torus or fat tree (a link takes about 100 bytes).
MAX_HOSTS = 2**20
MAX_LINKS = 2**24
#: Beyond these a smaller sibling is drawn.
MAX_DRAWN_HOSTS, MAX_DRAWN_CABLES = 600, 3000

#: Topologies that a specification may name: every class of one is put here when it is defined.
KINDS: dict[str, type[ClusterSpec]] = {}


class LinksOfCables(NamedTuple):
    """Links that cables of one kind consist of: what for, how many, and how many times `bw` they have."""

    kind: str
    digits_of: int
    width: int = 1


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(MachineSpec):
    """Equal hosts and the cables between them: what a topology is derived from.

    A topology says its size (`size`, `parse_size`, `hosts`, `grown`; `engine_size` for the engine) and
    what it is made of (`shape_rows`, `cable_links`); it is drawn by `lay_out` and `halved`, and measured by
    `longest_route` and `narrowest_cut`. SimGrid's name for it is `SIMGRID`, its size there `simgrid_size`. A
    class with a KIND is known to `labkit.platform` from its definition on.

    Attributes
    ----------
    FORM : str
        How its size is written, for messages.
    EXAMPLE : (str, str)
        A size, and how to read it.
    OWN_OPTIONS : dict of str to Option
        Options behind commas that only it takes: fields of the class.
    OWN_OPTIONS_BEHIND : str
        The option behind which they are written.
    SIMGRID : str or None
        The topology's name in SimGrid's ``<cluster>``; None where SimGrid has none.
    bw, lat : float
        Bandwidth (bytes/s) and latency (s) of a cable, per direction unless sharing is "shared".
    speed : float
        Flop/s of one core.
    cores : int
        Ranks a host may hold.
    sharing : str
        "splitduplex" (a cable is two links, one per direction), "shared" (one link for both directions) or
        "fatpipe" (one link that never fills: each flow alone is bounded by it).
    limiter : float or None
        Bytes/s that all messages through one node share, or None.
    loopback_bw, loopback_lat : float or None
        The link of a message between two ranks of one host; None: the topology's own rule.
    mapping : str or None
        How ranks are placed on hosts, as `labkit.machines.mapping.mapping_of` reads it without files; None is
        "block", and more ranks than cores are refused then.
    model : str
        Name of the network model of a run that names none itself.
    calibration : str or None
        Name or file of the node-local costs of its cores; None: the default.
    """

    FORM: ClassVar[str]
    EXAMPLE: ClassVar[tuple[str, str]]
    OWN_OPTIONS: ClassVar[dict[str, Option]] = {}
    OWN_OPTIONS_BEHIND: ClassVar[str] = "loopback_lat"
    SIMGRID: ClassVar[str | None] = None
    #: hosts of the largest machine that is drawn as it is
    MOST_DRAWN: ClassVar[int] = MAX_DRAWN_HOSTS
    #: how SimGrid writes its size, for messages
    SIMGRID_SIZE: ClassVar[str] = ""
    LIMITED: ClassVar[str] = "limiter per host"

    bw: float = 1.25e9
    lat: float = 1e-6
    speed: float = 1e9
    cores: int = 1
    sharing: str = "splitduplex"
    limiter: float | None = None
    loopback_bw: float | None = None
    loopback_lat: float | None = None
    mapping: str | None = None
    model: str = models.DEFAULT
    calibration: str | None = None

    def __init_subclass__(cls, **options: object) -> None:
        """Make a new topology known.

        Raises
        ------
        PlatformError
            Its name is taken by one of labkit's own.
        """
        super().__init_subclass__(**options)
        kind = cls.__dict__.get("KIND")
        if kind is None:
            return
        taken = KINDS.get(kind)
        if taken and taken.__module__.startswith("labkit.machines.") and taken.__module__ != cls.__module__:
            raise PlatformError(
                f"a topology {kind!r} is there already, in {taken.__module__}", code="name-taken"
            )
        KINDS[kind] = cls

    def __post_init__(self) -> None:
        """Refuse what no cluster can be, whoever built it."""
        self._needs_partner("loopback_lat", "loopback_bw")
        if self.cores < 1:
            raise PlatformError(f"{self.KIND} needs cores >= 1, got {self.cores}", code="out-of-range")
        self._check_rates("bw", "speed", "limiter", "loopback_bw")
        self._check_delays("lat", "loopback_lat")
        one_of("sharing", self.sharing, SHARINGS)
        models.get(self.model)
        if self.mapping is not None:
            parse_mapping(self.mapping)

    def _needs_partner(self, name: str, partner: str) -> None:
        if getattr(self, name) is not None and getattr(self, partner) is None:
            raise PlatformError(
                f"{self.KIND} has {name} but no {partner}; give {partner}=..., or leave {name} out",
                code="missing-key",
            )

    def _check_rates(self, *names: str) -> None:
        for name in names:
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < float("inf"):
                raise PlatformError(
                    f"{self.KIND} needs {name} > 0 and finite, got {rate}", code="out-of-range"
                )

    def _check_delays(self, *names: str) -> None:
        for name in names:
            delay = getattr(self, name)
            if delay is not None and not 0 <= delay < float("inf"):
                raise PlatformError(
                    f"{self.KIND} needs {name} >= 0 and finite, got {delay}", code="out-of-range"
                )

    def _check_size(self) -> None:
        """Refuse a machine that no memory holds, before anything is built."""
        hosts = self.hosts or 0
        self._check_hosts(hosts)
        links = sum(count for _, count, _ in self.cable_links()) + hosts * (self.loopback_bw is not None)
        links += self.limited_nodes() * (self.limiter is not None)
        if links > MAX_LINKS:
            raise PlatformError(
                f"{self.KIND} has {links:,} links (limiters and loopbacks included); at most 2^24 = "
                f"{MAX_LINKS:,} are allowed",
                code="out-of-range",
            )

    def _check_hosts(self, hosts: int) -> None:
        if hosts > MAX_HOSTS:
            raise PlatformError(
                f"{self.KIND} has {hosts:,} hosts; at most 2^20 = {MAX_HOSTS:,} are allowed",
                code="out-of-range",
            )

    @classmethod
    def options(cls) -> dict[str, Option]:
        """List the options this topology takes, in the order in which they are written."""
        found: dict[str, Option] = {}
        for name, option in OPTIONS.items():
            found |= {name: option} | (cls.OWN_OPTIONS if name == cls.OWN_OPTIONS_BEHIND else {})
        return found

    @property
    @abstractmethod
    def size(self) -> str | None:
        """The size as written behind the colon; None for a machine that grows."""

    @classmethod
    @abstractmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read what stands behind the colon as arguments of the class.

        Raises
        ------
        Misplaced
            It cannot be read; the offset is that of the place in `text`.
        """

    @classmethod
    @abstractmethod
    def grown(cls, hosts: int) -> dict[str, Any]:
        """Find the smallest size of an unsized machine for a number of hosts, as arguments of the class."""

    def sized(self, hosts: int) -> Self:
        """Return the machine itself or, if it grows, the smallest one that is large enough."""
        if self.hosts is not None:
            return self
        self._check_hosts(hosts)
        return replace(self, **self.grown(hosts))

    def engine_size(self) -> dict[str, Any]:
        """Give the size of a sized machine as `labkit._kernels.topology` takes it, by name."""
        raise NotImplementedError(type(self))

    def build(self, rank_hosts: Sequence[int]) -> _kernels.Platform:
        """Compile it for the engine, which knows the topology by its KIND."""
        from labkit import _kernels

        loopback = None if self.loopback_bw is None else (self.loopback_bw, self.loopback_lat or 0.0)
        common = {"limiter": self.limiter, "loopback": loopback}
        common |= {name: getattr(self, name) for name in ("bw", "lat", "speed", "cores", "sharing")}
        return _kernels.topology(self.KIND, list(rank_hosts), **self.engine_size(), **common)

    @abstractmethod
    def shape_rows(self) -> list[tuple[str, str]]:
        """Describe the shape for people: pairs of a heading and a text."""

    # --- links and measures -------------------------------------------------------------------------

    @abstractmethod
    def cable_links(self) -> list[LinksOfCables]:
        """List the links that the cables of a sized machine consist of, by their kinds (`link_names`)."""

    def limited_nodes(self) -> int:
        """Count the nodes that have a limiter, where there are any: the hosts, and what else there is."""
        return self.hosts or 0

    def extra_links(self) -> list[LinkKind]:
        """List further links of a sized machine: neither cables nor limiters nor loopbacks."""
        return []

    def link_kinds(self, built: _kernels.Platform | None = None) -> list[LinkKind]:
        """Count the links by kind: by formulas, whatever the size."""
        del built
        how = "fatpipe" if self.sharing == "fatpipe" else "shared"
        kinds = [
            LinkKind(kind, count, self.bw * width, self.lat, how)
            for kind, count, width in self.cable_links()
            if count
        ]
        if self.limiter is not None:
            kinds.append(LinkKind("limiters", self.limited_nodes(), self.limiter, 0.0, "shared"))
        if self.loopback_bw is not None:
            delay = self.loopback_lat or 0.0
            kinds.append(LinkKind("loopbacks", self.hosts or 0, self.loopback_bw, delay, "fatpipe"))
        return kinds + self.extra_links()

    def host_cables(self, per_host: int = 1) -> list[LinksOfCables]:
        """List the links of the hosts' own cables."""
        kinds = (OUT, INTO) if self.links_per_cable == 2 else (BOTH,)
        return [LinksOfCables(kind, (self.hosts or 0) * per_host) for kind in kinds]

    def own_links(self, host: int) -> tuple[str, ...]:
        """Name the links that belong to one host alone, where it has its own."""
        del host
        return ()

    def longest_route(self) -> int | None:
        """Count the cables between the hosts farthest apart; None has the routes looked at."""
        return None

    def narrowest_cut(self) -> Bisection | None:
        """Find the least cut between two halves of 2 hosts or more; None without a rule."""
        return None

    def cut(self, cables: float, where: str = "", is_exact: bool = True) -> Bisection:
        """Describe a cut through `cables` cables."""
        what = f"{cables:,.6g} cable{'s' if cables != 1 else ''}{where}"
        return Bisection(cables * self.bw, is_exact, what, self.links_per_cable == 2)

    def diameter(self) -> Diameter | None:
        """Find the diameter by the topology's rule."""
        links = self.longest_route() if (self.hosts or 0) > 1 else None
        return super().diameter() if links is None else Diameter(links, links * self.lat)

    def bisection(self) -> Bisection | None:
        """Find the bisection bandwidth by the topology's rule."""
        return None if (self.hosts or 0) < 2 or self.sharing == "fatpipe" else self.narrowest_cut()

    # --- drawings -----------------------------------------------------------------------------------

    @abstractmethod
    def halved(self) -> Self:
        """Return a smaller sibling of a sized machine that is too large to be drawn."""

    def smaller(self) -> Self:
        """Halve the machine until it can be drawn."""
        small = self
        while (small.hosts or 0) > self.MOST_DRAWN or small.cable_count() > MAX_DRAWN_CABLES:
            small = small.halved()
        return small

    def cable_count(self) -> int:
        """Count the cables of a sized machine, as drawn."""
        return sum(count for _, count, _ in self.cable_links()) // self.links_per_cable

    # --- SimGrid's XML ------------------------------------------------------------------------------

    def simgrid_size(self) -> dict[str, str]:
        """Give the attributes of SimGrid's ``<cluster>`` that only this topology has.

        Raises
        ------
        PlatformError
            SimGrid has no such machine.
        """
        if self.SIMGRID is None:
            raise PlatformError(f"SimGrid has no {self.KIND}", code="no-counterpart")
        numbers = (self.size or "").replace("x", ",").replace(":", ";")
        return {"topology": self.SIMGRID, "topo_parameters": numbers}

    @classmethod
    def from_simgrid(cls, given: dict[str, str], hosts: int) -> dict[str, Any]:
        """Read those attributes (all of ``<cluster>`` are given) as arguments of the class.

        Raises
        ------
        PlatformError
            They cannot be read.
        """
        del hosts
        text = "".join(given["topo_parameters"].split())
        why = "numbers with , and ; between them, at most 64"
        if not set(text) - set("0123456789,;") and text.count(",") + text.count(";") < 64:
            try:
                return cls.parse_size(text.replace(",", "x").replace(";", ":"))
            except PlatformError:
                why = cls.SIMGRID_SIZE
        raise PlatformError(f"topo_parameters {text[:60]!r} of a {cls.SIMGRID} are {why}")

    def xml(self) -> str:
        """Write a file of this cluster alone, its hosts named host-0, host-1, ...

        A torus, fat tree or dragonfly is wrapped in a zone, because some versions of SimGrid want that.
        """
        is_flat = self.SIMGRID == "FLAT"
        radical = [(0, (self.hosts or 1) - 1)]
        indent = "  " if is_flat else "    "
        attributes = self.xml_attributes()
        cluster = cluster_element(attributes, self.model, self.KIND, "host-", "", radical, indent=indent)
        return whole_file(cluster if is_flat else f'  <zone id="all" routing="Full">\n{cluster}  </zone>\n')

    def xml_attributes(self) -> dict[str, str]:
        """Return what SimGrid's ``<cluster>`` says of its hosts, links and size."""
        attributes = {
            "speed": f"{digits_of(self.speed)}f",
            "core": str(self.cores),
            "bw": f"{digits_of(self.bw)}Bps",
            "lat": f"{digits_of(self.lat)}s",
            "sharing_policy": self.sharing.upper(),
        }
        if self.limiter is not None:
            attributes["limiter_link"] = f"{digits_of(self.limiter)}Bps"
        if self.loopback_bw is not None:
            attributes["loopback_bw"] = f"{digits_of(self.loopback_bw)}Bps"
            attributes["loopback_lat"] = f"{digits_of(self.loopback_lat or 0.0)}s"
        return attributes | self.simgrid_size()

    # --- names and texts ----------------------------------------------------------------------------

    def host_number(self, name: str) -> int | None:
        """Give the number of a host from its name in host files, ``host-7``; None for any other name."""
        digits = name.removeprefix("host-")
        is_good = digits != name and digits.isascii() and digits.isdigit() and len(digits) < 10
        return int(digits) if is_good else None

    def host_name(self, number: int) -> str:
        """Give the name of a host in host files, ``host-7``."""
        return f"host-{number}"

    def rows(self) -> list[tuple[str, str]]:
        """Describe the shape, the hosts and the links for people."""
        rows = [
            *self.shape_rows(),
            ("cores per host", f"{self.cores}, {units.format_speed(self.speed)} each"),
            ("links", f"{units.format_bandwidth(self.bw)}, {units.format_time(self.lat)}, {self.sharing}"),
        ]
        if self.limiter is not None:
            rows.append((self.LIMITED, units.format_bandwidth(self.limiter)))
        if self.loopback_bw is not None:
            delay = units.format_time(self.loopback_lat or 0.0)
            rows.append(("loopback", f"{units.format_bandwidth(self.loopback_bw)}, {delay}"))
        return rows

    @property
    def links_per_cable(self) -> int:
        """Two when each direction has its own."""
        return 2 if self.sharing == "splitduplex" else 1

    def __str__(self) -> str:
        """The specification that reads back as this one; options at their default are left out."""
        defaults = {f.name: f.default for f in fields(self)}
        options = [
            f"{name}={option.write(getattr(self, name))}"
            for name, option in self.options().items()
            if getattr(self, name) != defaults[name]
        ]
        return ",".join([self.KIND if self.size is None else f"{self.KIND}:{self.size}", *options])
