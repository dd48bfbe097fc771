"""A machine of zones as a description that a `Platform` builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from labkit.platform import models
from labkit.platform import quantities as units
from labkit.platform.drawing import Layout
from labkit.platform.spec import MachineSpec
from labkit.platform.zones.assembly import Assembly
from labkit.platform.zones.drawing import lay_out_zones
from labkit.platform.zones.parts import Cluster, Host
from labkit.platform.zones.to_xml import zones_xml
from labkit.platform.zones.zone import Zone

__all__ = ["ZonesSpec"]


class ZonesSpec(MachineSpec):
    """Zones in zones. Put together once, when it is made, so that a machine that cannot be is refused then.

    Parameters
    ----------
    root : Zone
        The whole machine; not to be changed afterwards.
    source : str
        The file it was read from; empty for a machine made by hand.
    model : str
        Name of the network model of a run that names none itself.

    Raises
    ------
    PlatformError
        See `Assembly`.
    """

    KIND: ClassVar[str] = "zones"

    def __init__(self, root: Zone, source: str = "", model: str = models.DEFAULT) -> None:
        self.root = root
        self.source = source
        models.get(model)
        self.model = model
        self.mapping = None
        self.calibration = None
        self._assembly: Assembly | None = Assembly(root)
        # Equal machines are written alike: this is what they are compared by.
        self._text = zones_xml(root)
        hosts = list(self._kinds_of_hosts())
        self.cores = min(cores for cores, _, _ in hosts)
        self.speed = hosts[0][1]

    def _kinds_of_hosts(self) -> Iterator[tuple[int, float, int]]:
        """Cores, speed and number of hosts that are alike."""
        for zone in self.root.walk():
            for one in zone.members:
                if isinstance(one, Cluster):
                    yield one.spec.cores, one.spec.speed, one.spec.hosts or 0
                elif isinstance(one, Host) and one.speed is not None:
                    yield one.cores, one.speed, 1

    @property
    def content(self) -> str:
        """The zones as SimGrid's XML, whatever the file is called."""
        return self._text

    @property
    def assembly(self) -> Assembly:
        """The machine as the engine numbers it."""
        if self._assembly is None:
            self._assembly = Assembly(self.root)
        return self._assembly

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the compiled machine, which is put together again where it is needed."""
        return {**self.__dict__, "_assembly": None}

    @property
    def hosts(self) -> int:
        """Number of hosts."""
        return int(self.assembly.machine.host_count)

    def sized(self, hosts: int) -> ZonesSpec:
        """Return the machine itself: it does not grow."""
        del hosts
        return self

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Put ranks on the compiled machine.

        Raises
        ------
        PlatformError
            Two of their hosts have no route to each other.
        """
        self.assembly.check(rank_hosts)
        return self.assembly.machine.placed(list(rank_hosts))

    def host_number(self, name: str) -> int | None:
        """Find a host by its name."""
        before = 0
        for one in self.assembly.host_names:
            if isinstance(one, Cluster):
                index = one.index(name)
                if index is not None:
                    return before + index
                before += one.spec.hosts or 0
            elif one == name:
                return before
            else:
                before += 1
        return None

    def host_name(self, number: int) -> str:
        """Name a host."""
        before = 0
        for one in self.assembly.host_names:
            count = (one.spec.hosts or 0) if isinstance(one, Cluster) else 1
            if number < before + count:
                return one.host_name(number - before) if isinstance(one, Cluster) else one
            before += count
        raise IndexError(number)

    def rows(self) -> list[tuple[str, str]]:
        """Zones, hosts and links."""
        zones = list(self.root.walk())
        clusters = [one for zone in zones for one in zone.members if isinstance(one, Cluster)]
        routers = sum(isinstance(one, Host) and one.speed is None for z in zones for one in z.members)
        shapes = ", ".join(f"{one.name} ({one.spec.KIND}:{one.spec.size})" for one in clusters[:6])
        routings = sorted({zone.routing for zone in zones})
        rows = [
            ("shape", f"{len(zones)} zone{'s' if len(zones) > 1 else ''} ({', '.join(routings)})"),
            ("hosts", f"{self.hosts:,}"),
        ]
        if clusters:
            more = f" and {len(clusters) - 6} more" if len(clusters) > 6 else ""
            rows.append(("clusters", f"{len(clusters)}: {shapes}{more}"))
        if routers:
            rows.append(("routers", f"{routers:,}"))
        if self.assembly.gap is not None:
            rows.append(("not joined", str(self.assembly.gap)))
        rows.append(("links", f"{self.assembly.machine.link_count - 1:,}, one per direction where split"))
        kinds = sorted({(cores, speed) for cores, speed, _ in self._kinds_of_hosts()})
        said = "; ".join(f"{cores}, {units.format_speed(speed)} each" for cores, speed in kinds[:4])
        rows.append(("cores per host", said + ("; ..." if len(kinds) > 4 else "")))
        return rows

    def lay_out(self) -> Layout:
        """Place the hosts and routers of a zone, or its zones with their hosts around them."""
        return lay_out_zones(self.root, str(self))

    def xml(self) -> str:
        """Write the zones as they are; hosts keep their names."""
        return zones_xml(self.root, self.model)

    def __str__(self) -> str:
        return self.source or self.root.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ZonesSpec) and (self._text, self.model) == (other._text, other.model)

    def __hash__(self) -> int:
        return hash((self._text, self.model))
