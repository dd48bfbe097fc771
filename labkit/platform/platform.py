"""Simulated machines: a specification, how many ranks fit on it, and the engine's own form of it."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError
from labkit.local.costs import DEFAULT_CALIBRATION, REFERENCE_FLOPS_PER_S, KernelCosts, find_calibration
from labkit.plain import text_of, toml_of
from labkit.platform import machines, models
from labkit.platform import quantities as units
from labkit.platform.mapping import BlockMapping, ListedMapping, RankMapping, mapping_of
from labkit.platform.show import Shown
from labkit.platform.spec import ClusterSpec, MachineSpec, kinds, parse_spec
from labkit.platform.zones import Zone, ZonesSpec
from labkit.platform.zones.graph import graph_zone

__all__ = ["Platform", "graph", "platform"]


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
        How ranks are placed on its hosts; default: what the specification says, else block.
    facts : sequence of (str, str)
        Further rows of what it shows of itself: a heading and a text.
    host_speed : float, optional
        Flop/s that the host of the simulation counts as, where computation is measured; default: labkit's own
        reference, 1 Gflop/s.
    """

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

    def kernel_costs(self, given: Any = None) -> KernelCosts:
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
        """What is said where a machine has a speed and no node-local costs of its own; else empty."""
        if self.description.calibration is not None or self.description.speed == REFERENCE_FLOPS_PER_S:
            return ""
        cpu = find_calibration(DEFAULT_CALIBRATION).machine["cpu"]
        return (
            f"{self.name} has no node-local costs of its own: sorting, merging and the other kernels of "
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
            What `labkit.platform.mapping.mapping_of` reads: ``block``, ``cyclic``, ``random:7``,
            a list, a file.

        Returns
        -------
        Platform
            Another one; this one stays as it is.

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
                f"shape={shape!r} is a block of hosts of a torus, and {self.name} is none; leave it out"
            )
        option = None if shape == "whole" else described.options()["shape"].read(str(shape))
        values: dict[str, Any] = {"shape": option}
        changed = replace(described, **values)
        return Platform(changed, self.name, self.source, self._mapping, self.facts, self.host_speed)

    def allocated(self, ranks: int) -> Platform:
        """Return the part of the machine that a job of so many ranks gets; itself if that is all of it.

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
                    f"{own[0]!r}, so in a mapping a number is a name"
                )
        return found

    def hosts_for(self, ranks: int) -> int:
        """Count the hosts of the machine when so many ranks run on it.

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
        if isinstance(ranks, bool) or not isinstance(ranks, int | np.integer) or ranks < 1:
            raise PlatformError(f"a platform runs a whole number of ranks from 1 on, got {ranks!r}")
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
                "a host, or a mapping to let ranks share cores"
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

    def placement(self, ranks: int) -> dict[str, Any]:
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
        described: dict[str, Any] = {
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
        """Compile the machine for the engine, with so many ranks placed on it.

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
        """Return the machine as it is when so many ranks run on it: grown, or the part that they get.

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


def platform(spec_or_file: str | os.PathLike[str] | Platform | Zone | Any) -> Platform:
    """Make a simulated machine from a specification, a file, zones or a graph.

    Parameters
    ----------
    spec_or_file : str, path, Platform, Zone or graph
        ``star:64``, ``torus:8x8x8``, ``fattree:4x4:1x2:1x2`` (down : up : cables, from the hosts upwards) or
        ``dragonfly:4x4:3x4:5x1:2`` (groups x blue : chassis x black : routers x green : nodes); without a
        size they grow with the ranks; options behind commas as in
        ``star:64,bw=1.25GBps,lat=1us,speed=1Gf,model=lab``. Or a file: SimGrid's platform XML, or TOML with
        `spec` and, if wanted, `name` and `source`. Or a named machine such as ``graphene`` (see
        `labkit.platform.machines.names`). Or a `labkit.Zone`, a list of edges (u, v), a graph of
        NetworkX (see `labkit.graph`, which takes options). A Platform is handed back as it is.

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
    if machine in machines.names():
        return _named(machine, text)
    is_spec = text.partition(",")[0].partition(":")[0] in kinds()  # it may end in a model's file
    if isinstance(spec_or_file, os.PathLike) or (text.endswith((".toml", ".xml")) and not is_spec):
        return _from_file(Path(text))
    return Platform(parse_spec(text))


def _named(name: str, text: str) -> Platform:
    """A named machine, with options behind commas where it is a cluster: they replace its own."""
    found = machines.load(name)
    described, changes = found.spec, text.partition(",")[2]
    if changes:
        if not isinstance(described, ClusterSpec):
            raise PlatformError(
                f"{text!r}: {name} is made of zones, which take no options; choose a network model with "
                "model= or --model, a mapping with mapping="
            )
        given = {option.partition("=")[0] for option in changes.split(",")}
        own = str(described).split(",")
        kept = [own[0], *(option for option in own[1:] if option.partition("=")[0] not in given)]
        described = parse_spec(",".join([*kept, changes]))
    title = f"{name}, {changes}" if changes else name
    return Platform(described, title, found.title, facts=[("machine", found.title), *found.facts])


def graph(edges: Any, hosts: Iterable[Hashable] | None = None, **options: Any) -> Platform:
    """Make a simulated machine from a graph whose nodes are hosts and switches.

    Parameters
    ----------
    edges, hosts
        See `labkit.platform.zones.graph.graph_zone`.
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
            f"{type(edges).__name__}"
        )
    unknown = sorted(set(options) - {"bw", "lat", "sharing", "speed", "cores", "routing", "name"})
    if unknown:
        raise PlatformError(
            f"a graph has no option {unknown[0]!r}; allowed: bw, lat, sharing, speed, cores, routing, name"
        )
    described = ZonesSpec(graph_zone(edges, hosts, **options))
    if described.assembly.gap is not None:
        raise described.assembly.gap
    return Platform(described)


def _from_file(path: Path) -> Platform:
    if path.suffix == ".xml":
        from labkit.platform.xml.reader import read_platform

        described, name, read_over, host_speed = read_platform(path)
        facts = [("read over", ", ".join(read_over))] if read_over else []
        if host_speed is not None:
            facts.append(("measured computation", f"this host counts as {host_speed:g} flop/s"))
        return Platform(described, name, str(path), None, facts, host_speed)
    try:
        table = toml_of(text_of(path, PlatformError))
    except tomllib.TOMLDecodeError as error:
        raise PlatformError(f"{path}: not a readable TOML platform file ({error})") from None
    unknown = sorted(set(table) - {"name", "spec", "source"})
    if unknown or not all(isinstance(value, str) for value in table.values()) or "spec" not in table:
        found = ", ".join(sorted(table)) or "nothing"
        raise PlatformError(
            f"{path}: a platform file has the texts spec (needed), name and source; found {found}"
        )
    return Platform(parse_spec(table["spec"]), table.get("name", path.stem), table.get("source", "").strip())
