"""The contract of a machine's description, whatever it is made of."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

from labkit.machines.drawing import Layout
from labkit.machines.measure import Bisection, Diameter, LinkKind, diameter_by_routes, kinds_by_links

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["MachineSpec"]


class MachineSpec(ABC):
    """A description that a `Platform` builds: a cluster (`ClusterSpec`) or zones in zones (`ZonesSpec`).

    It answers for itself whatever is asked about the machine. Equal descriptions build equal machines; `str`
    gives what `labkit.platform` reads, where there is a text.

    Attributes
    ----------
    KIND : str
        Its kind, as a short name.
    cores : int
        Ranks that any of its hosts may hold.
    speed : float
        Flop/s of one core; of its first host, where they differ.
    mapping : str or None
        How ranks are placed on hosts, unless the caller chooses another way.
    model : str
        Name of the network model of a run that names none itself.
    calibration : str or None
        Name or file of the node-local costs of its cores; None: the default.
    """

    KIND: ClassVar[str]

    cores: int
    speed: float
    mapping: str | None
    model: str
    calibration: str | None = None

    @property
    def size(self) -> str | None:
        """Its size as a specification writes it, or None."""
        return None

    @property
    def content(self) -> str:
        """All that it is made of, as a text: equal machines have equal ones."""
        return str(self)

    @property
    @abstractmethod
    def hosts(self) -> int | None:
        """How many hosts; None grows with the ranks of a run."""

    @abstractmethod
    def sized(self, hosts: int) -> Self:
        """Return the machine itself or, if it grows, the smallest one that is large enough.

        Raises
        ------
        PlatformError
            It would need more hosts than there may be.
        """

    def allocated(self, hosts: int | None) -> MachineSpec:
        """Return the part of a sized machine that a job gets, as a separate machine.

        Parameters
        ----------
        hosts : int or None
            None for a job whose ranks are placed on hosts of the whole machine.

        Returns
        -------
        MachineSpec
            Itself: the job's hosts are its first ones, and messages may cross all of it.

        Raises
        ------
        PlatformError
            The machine's option `shape` asks for a part that has fewer hosts.
        """
        del hosts
        return self

    @abstractmethod
    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile a sized machine for the engine, with the host of each rank."""

    @abstractmethod
    def rows(self) -> list[tuple[str, str]]:
        """Describe it for people: pairs of a heading and a text."""

    @abstractmethod
    def host_number(self, name: str) -> int | None:
        """Give the number of a host from its name in host files; None for any other name."""

    @abstractmethod
    def host_name(self, number: int) -> str:
        """Give the name of a host in host files."""

    @abstractmethod
    def lay_out(self) -> Layout:
        """Place hosts, switches and cables of a sized machine.

        Raises
        ------
        PlatformError
            There is no picture of it.
        """

    @abstractmethod
    def xml(self) -> str:
        """Write a sized machine as SimGrid's platform XML (version 4.1).

        Raises
        ------
        PlatformError
            SimGrid has no such machine.
        """

    def smaller(self) -> MachineSpec:
        """Find the machine itself, or a sibling small enough to be drawn."""
        return self

    def link_kinds(self, built: _kernels.Platform | None = None) -> list[LinkKind]:
        """Count the links of a sized machine by kind.

        Parameters
        ----------
        built : labkit._kernels.Platform, optional
            The machine, where it is built already.
        """
        return kinds_by_links(built or self.build([0]))

    def diameter(self) -> Diameter | None:
        """Find the diameter of a sized machine, here by asking for its routes; None for a single host."""
        return None if (self.hosts or 0) < 2 else diameter_by_routes(self.build([0]))

    def bisection(self) -> Bisection | None:
        """Find the bisection bandwidth of a sized machine.

        Hosts are halved (one more in the second half, if they are odd); limiters are left out.

        Returns
        -------
        Bisection or None
            None for a single host, for links that never fill, and for machines without a rule.
        """
        return None

    def alike_pair(self) -> MachineSpec | None:
        """Return the machine with two hosts, where hosts that all do alike load their links as two would."""
        return None
