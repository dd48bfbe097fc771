"""The common part of the specifications of clusters."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform import models
from labkit.platform import quantities as units
from labkit.platform.spec.machine import MachineSpec
from labkit.platform.spec.options import OPTIONS, SHARINGS, one_of, parse_mapping

__all__ = ["MAX_HOSTS", "MAX_LINKS", "ClusterSpec"]

#: Most hosts of any machine, and most links of a torus or fat tree (a link takes about 100 bytes).
MAX_HOSTS = 2**20
MAX_LINKS = 2**24


@dataclass(frozen=True, kw_only=True)
class ClusterSpec(MachineSpec):
    """Equal hosts and the cables between them, whatever the topology.

    Attributes
    ----------
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
        How ranks are placed on hosts: "block", "cyclic" or "random:SEED"; None is "block", and more ranks
        than cores are refused then.
    model : str
        Name of the network model of a run that names none itself.
    """

    #: how its size is written, for messages
    FORM: ClassVar[str]

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

    def __post_init__(self) -> None:
        """Refuse what no cluster can be, whoever built it."""
        self._needs_partner("loopback_lat", "loopback_bw")
        if self.cores < 1:
            raise PlatformError(f"{self.KIND} needs cores >= 1, got {self.cores}")
        self._check_rates("bw", "speed", "limiter", "loopback_bw")
        self._check_delays("lat", "loopback_lat")
        one_of("sharing", self.sharing, SHARINGS)
        models.get(self.model)
        if self.mapping is not None:
            parse_mapping(self.mapping)

    def _needs_partner(self, name: str, partner: str) -> None:
        if getattr(self, name) is not None and getattr(self, partner) is None:
            raise PlatformError(
                f"{self.KIND} has {name} but no {partner}; give {partner}=..., or leave {name} out"
            )

    def _check_rates(self, *names: str) -> None:
        for name in names:
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < float("inf"):
                raise PlatformError(f"{self.KIND} needs {name} > 0 and finite, got {rate}")

    def _check_delays(self, *names: str) -> None:
        for name in names:
            delay = getattr(self, name)
            if delay is not None and not 0 <= delay < float("inf"):
                raise PlatformError(f"{self.KIND} needs {name} >= 0 and finite, got {delay}")

    def _check_size(self, hosts: int, links: int) -> None:
        """Refuse a machine that no memory holds, before anything is built."""
        if hosts > MAX_HOSTS:
            raise PlatformError(f"{self.KIND} has {hosts:,} hosts; at most 2^20 = {MAX_HOSTS:,} are allowed")
        if links > MAX_LINKS:
            raise PlatformError(
                f"{self.KIND} has {links:,} links (limiters and loopbacks included); at most 2^24 = "
                f"{MAX_LINKS:,} are allowed"
            )

    @classmethod
    def options(cls) -> list[str]:
        """List the options this topology takes, in the order in which they are written."""
        own = {f.name for f in fields(cls)}
        return [name for name in OPTIONS if name in own]

    @property
    @abstractmethod
    def size(self) -> str | None:
        """The size as it is written behind the colon; None for a machine that grows."""

    @classmethod
    @abstractmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read what stands behind the colon as arguments of the class.

        Raises
        ------
        Misplaced
            It cannot be read; the offset is that of the place in `text`.
        """

    @abstractmethod
    def shape_rows(self) -> list[tuple[str, str]]:
        """Describe the shape for people: pairs of a heading and a text."""

    @abstractmethod
    def xml_attributes(self) -> dict[str, str]:
        """Give the attributes of SimGrid's ``<cluster>`` that say the topology."""

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
            what = "limiter per node" if self.KIND == "fattree" else "limiter per host"
            rows.append((what, units.format_bandwidth(self.limiter)))
        if self.loopback_bw is not None:
            delay = units.format_time(self.loopback_lat or 0.0)
            rows.append(("loopback", f"{units.format_bandwidth(self.loopback_bw)}, {delay}"))
        return rows

    def common(self) -> dict[str, Any]:
        """Give the arguments that every builder of `labkit._kernels` takes."""
        return {
            "bw": self.bw,
            "lat": self.lat,
            "speed": self.speed,
            "cores": self.cores,
            "sharing": self.sharing,
            "limiter": self.limiter,
            "loopback": None if self.loopback_bw is None else (self.loopback_bw, self.loopback_lat or 0.0),
        }

    @property
    def links_per_cable(self) -> int:
        """Two when each direction has its own."""
        return 2 if self.sharing == "splitduplex" else 1

    def __str__(self) -> str:
        """The specification that reads back as this one; options at their default are left out."""
        defaults = {f.name: f.default for f in fields(self)}
        options = [
            f"{name}={OPTIONS[name].write(getattr(self, name))}"
            for name in self.options()
            if getattr(self, name) != defaults[name]
        ]
        return ",".join([self.KIND if self.size is None else f"{self.KIND}:{self.size}", *options])
