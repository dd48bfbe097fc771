"""A star: every host hangs on one switch (SimGrid's flat cluster)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.machines import quantities as units
from labkit.machines.drawing import Layout, circle
from labkit.machines.measure import Bisection, Diameter, LinkKind
from labkit.machines.spec.cluster import ClusterSpec, LinksOfCables
from labkit.machines.spec.options import BANDWIDTH, TIME, Misplaced, Option, choice, one_of, parse_count
from labkit.machines.xml.elements import digits_of

__all__ = ["StarSpec"]

BACKBONE_SHARINGS = ("shared", "fatpipe")


@dataclass(frozen=True, kw_only=True)
class StarSpec(ClusterSpec):
    """A star: every host hangs on one switch by its own cable.

    Unsized, it has as many hosts as the ranks need. Without a loopback, a message within a host goes up to
    the switch and down again. The other attributes are those of `ClusterSpec`.

    Attributes
    ----------
    hosts : int or None
        How many; None grows with the ranks of a run.
    bb_bw, bb_lat, bb_sharing
        The backbone that every message crosses; None: no backbone.
    """

    KIND: ClassVar[str] = "star"
    FORM: ClassVar[str] = "star or star:HOSTS"
    EXAMPLE: ClassVar[tuple[str, str]] = ("16", "hosts")
    OWN_OPTIONS: ClassVar[dict[str, Option]] = {
        "bb_bw": BANDWIDTH._replace(lacks="backbone"),
        "bb_lat": TIME._replace(lacks="backbone"),
        "bb_sharing": choice("bb_sharing", BACKBONE_SHARINGS, "backbone"),
    }
    OWN_OPTIONS_BEHIND: ClassVar[str] = "sharing"
    SIMGRID: ClassVar[str | None] = "FLAT"

    hosts: int | None = None
    bb_bw: float | None = None
    bb_lat: float | None = None
    bb_sharing: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no star can be."""
        self._needs_partner("bb_lat", "bb_bw")
        self._needs_partner("bb_sharing", "bb_bw")
        if self.hosts is not None:
            if self.hosts < 1:
                raise PlatformError(f"star needs hosts >= 1, got {self.hosts}", code="out-of-range")
            self._check_size()
        self._check_rates("bb_bw")
        self._check_delays("bb_lat")
        if self.bb_sharing is not None:
            one_of("bb_sharing", self.bb_sharing, BACKBONE_SHARINGS)
        super().__post_init__()

    @property
    def size(self) -> str | None:
        """The number of hosts, as text."""
        return None if self.hosts is None else str(self.hosts)

    @classmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read the number of hosts."""
        try:
            return {"hosts": parse_count(text)}
        except PlatformError as error:
            raise Misplaced(0, f"number of hosts: {error}; leave ':' out to let it grow") from None

    @classmethod
    def grown(cls, hosts: int) -> dict[str, Any]:
        """Return the arguments of a star with exactly this number of hosts."""
        return {"hosts": hosts}

    def engine_size(self) -> dict[str, Any]:
        """Hosts and backbone."""
        backbone = None
        if self.bb_bw is not None:
            backbone = (self.bb_bw, self.bb_lat or 0.0, self.bb_sharing == "fatpipe")
        return {"hosts": self.hosts, "backbone": backbone}

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts and backbone."""
        rows = [
            ("shape", "a star: every host on one switch"),
            ("hosts", "as many as the ranks need" if self.hosts is None else f"{self.hosts:,}"),
        ]
        if self.bb_bw is not None:
            lat = units.format_time(self.bb_lat or 0.0)
            rows.append(
                ("backbone", f"{units.format_bandwidth(self.bb_bw)}, {lat}, {self.bb_sharing or 'shared'}")
            )
        return rows

    def cable_links(self) -> list[LinksOfCables]:
        """One cable a host."""
        return self.host_cables()

    def extra_links(self) -> list[LinkKind]:
        """The backbone."""
        if self.bb_bw is None:
            return []
        return [LinkKind("the backbone", 1, self.bb_bw, self.bb_lat or 0.0, self.bb_sharing or "shared")]

    def own_links(self, host: int) -> tuple[str, ...]:
        """Every link but the backbone."""
        return f"up {host}", f"down {host}", f"link {host}", f"limiter {host}"

    def diameter(self) -> Diameter | None:
        """Two cables, and the backbone."""
        if (self.hosts or 0) < 2:
            return None
        backbone = self.bb_bw is not None
        return Diameter(2 + backbone, 2 * self.lat + (self.bb_lat or 0.0) * backbone)

    def narrowest_cut(self) -> Bisection:
        """Half of the hosts' cables, or the backbone: all messages of both directions share it."""
        half = (self.hosts or 0) // 2
        both_ways = half * self.bw * self.links_per_cable
        if self.bb_bw is not None and self.bb_sharing != "fatpipe" and self.bb_bw < both_ways:
            return Bisection(self.bb_bw, True, "the backbone", False)
        return self.cut(half, " of the hosts")

    def alike_pair(self) -> StarSpec | None:
        """Two hosts, unless all share a backbone."""
        return None if self.bb_bw is not None else replace(self, hosts=2)

    def halved(self) -> StarSpec:
        """As many as can be distinguished on a circle."""
        return replace(self, hosts=64)

    def lay_out(self) -> Layout:
        """Hosts on a circle round the switch."""
        backbone = ", and the backbone in the switch" if self.bb_bw is not None else ""
        layout = Layout(said=f"Every message crosses the cables of its two hosts{backbone}.")
        layout.switches["switch"] = (0.0, 0.0)
        for i, point in enumerate(circle(self.hosts or 1)):
            layout.hosts[f"host {i}"] = point
            layout.join(f"host {i}", "switch")
        return layout

    def simgrid_size(self) -> dict[str, str]:
        """The backbone: a flat cluster is SimGrid's default."""
        if self.bb_bw is None:
            return {}
        return {
            "bb_bw": f"{digits_of(self.bb_bw)}Bps",
            "bb_lat": f"{digits_of(self.bb_lat or 0.0)}s",
            "bb_sharing_policy": (self.bb_sharing or "shared").upper(),
        }

    @classmethod
    def from_simgrid(cls, given: dict[str, str], hosts: int) -> dict[str, Any]:
        """Read the backbone; "shared" and 0 are what it is when it says nothing."""
        if not given["bb_bw"]:
            if given["bb_lat"] and units.parse_time(given["bb_lat"], True) > 0:
                raise PlatformError(
                    "bb_lat without bb_bw: a backbone needs a bandwidth, too", code="missing-key"
                )
            return {"hosts": hosts}
        sharing = one_of("bb_sharing_policy", given["bb_sharing_policy"][:40], ("SHARED", "FATPIPE")).lower()
        return {
            "hosts": hosts,
            "bb_bw": units.parse_bandwidth(given["bb_bw"], True),
            "bb_lat": units.parse_time(given["bb_lat"] or "0", True) or None,
            "bb_sharing": None if sharing == "shared" else sharing,
        }
