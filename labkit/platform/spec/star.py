"""A star: every host hangs on one switch (SimGrid's flat cluster)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform import quantities as units
from labkit.platform.spec.cluster import ClusterSpec
from labkit.platform.spec.options import BACKBONE_SHARINGS, Misplaced, one_of, parse_count

__all__ = ["StarSpec"]


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
                raise PlatformError(f"star needs hosts >= 1, got {self.hosts}")
            self._check_size(self.hosts, 0)
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

    def sized(self, hosts: int) -> StarSpec:
        """Return the star itself, or one of exactly so many hosts."""
        return self if self.hosts is not None else replace(self, hosts=hosts)

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        from labkit import _kernels

        assert self.hosts is not None
        backbone = None
        if self.bb_bw is not None:
            backbone = (self.bb_bw, self.bb_lat or 0.0, self.bb_sharing == "fatpipe")
        return _kernels.star(self.hosts, list(rank_hosts), backbone=backbone, **self.common())

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

    def xml_attributes(self) -> dict[str, str]:
        """Nothing: a flat cluster is SimGrid's default."""
        return {}
