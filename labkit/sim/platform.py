"""Simulated machines: a specification, how many ranks fit on it, and the engine's own form of it."""

from __future__ import annotations

import html
import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError
from labkit.sim import models, units
from labkit.sim.mapping import BlockMapping, RankMapping, mapping_of
from labkit.sim.spec import ClusterSpec, parse_spec

__all__ = ["Platform", "platform"]


class Platform:
    """A simulated machine.

    Parameters
    ----------
    spec : ClusterSpec
        What it is made of.
    name : str, optional
        What to call it; default: its specification.
    source : str
        Where its numbers come from.
    mapping : RankMapping, optional
        How ranks are placed on its hosts; default: what the specification says, else block.
    """

    def __init__(
        self, spec: ClusterSpec, name: str | None = None, source: str = "", mapping: RankMapping | None = None
    ) -> None:
        self.description = spec
        self.name = name or str(spec)
        self.source = source
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
            What `labkit.sim.mapping.mapping_of` reads: ``block``, ``cyclic``, ``random:7``, a list, a file.

        Raises
        ------
        PlatformError
            It cannot be read.
        """
        if mapping is None:
            return self
        return Platform(
            self.description, self.name, self.source, mapping_of(mapping, self.description.host_number)
        )

    def hosts_for(self, ranks: int) -> int:
        """Count the hosts of the machine when so many ranks run on it.

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
            holds = f"{self.hosts} hosts" if cores == 1 else f"{self.hosts} hosts of {cores} cores"
            needed = -(-int(ranks) // self.hosts)
            raise PlatformError(
                f"{ranks} ranks do not fit on {self.name}: {holds} hold {self.hosts * cores}; use at least "
                f"{-(-int(ranks) // cores)} hosts, or cores={needed} to put several ranks on "
                "a host, or a mapping to let ranks share cores"
            )
        return self.hosts

    def rank_hosts(self, ranks: int) -> NDArray[np.int32]:
        """Place the ranks as the mapping says.

        Returns
        -------
        ndarray of int32, shape (ranks,)
            The host of each rank.

        Raises
        ------
        PlatformError
            They do not fit, or the mapping names a host that is not there.
        """
        return self.mapping.place(int(ranks), self.hosts_for(ranks), self.description.cores)

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
        hosts = self.hosts_for(ranks)
        return self.description.sized(hosts).build(self.rank_hosts(ranks).tolist())

    def sized(self, ranks: int) -> Platform:
        """Return the machine as it is when so many ranks run on it; itself unless it grows.

        Raises
        ------
        PlatformError
            The ranks do not fit.
        """
        if self.hosts is not None:
            self.hosts_for(ranks)
            return self
        return Platform(self.description.sized(self.hosts_for(ranks)), mapping=self._mapping)

    def _rows(self) -> list[tuple[str, str]]:
        s = self.description
        bandwidth, time = units.format_bandwidth, units.format_time
        rows = [
            *s.shape_rows(),
            ("cores per host", f"{s.cores}, {units.format_speed(s.speed)} each"),
            ("links", f"{bandwidth(s.bw)}, {time(s.lat)}, {s.sharing}"),
        ]
        if s.limiter is not None:
            rows.append(
                ("limiter per node" if s.KIND == "fattree" else "limiter per host", bandwidth(s.limiter))
            )
        if s.loopback_bw is not None:
            rows.append(("loopback", f"{bandwidth(s.loopback_bw)}, {time(s.loopback_lat or 0.0)}"))
        if self._mapping is not None:
            rows.append(("ranks on hosts", str(self._mapping)))
        rows.append(("network model", f"{s.model}: {self.model.title}"))
        return rows

    def __repr__(self) -> str:
        named = "" if self.name == self.spec else f", name={self.name!r}"
        placed = "" if self._mapping is None else f", mapping={str(self._mapping)!r}"
        return f"Platform({self.spec!r}{named}{placed})"

    def _repr_html_(self) -> str:
        head = f"<caption style='text-align:left'><b>{html.escape(self.name)}</b> (simulated)</caption>"
        body = "".join(
            f"<tr><th style='text-align:left'>{html.escape(what)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for what, value in self._rows()
        )
        return f"<table>{head}{body}</table>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Platform) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[ClusterSpec, str, RankMapping | None]:
        return self.description, self.name, self._mapping


def platform(spec_or_file: str | os.PathLike[str] | Platform) -> Platform:
    """Make a simulated machine from a specification or a file.

    Parameters
    ----------
    spec_or_file : str, path or Platform
        ``star:64``, ``torus:8x8x8`` or ``fattree:4x4:1x2:1x2`` (down : up : cables, from the hosts upwards);
        ``star``, ``torus`` or ``fattree`` grow with the ranks; options behind commas as in
        ``star:64,bw=1.25GBps,lat=1us,speed=1Gf,model=lab``. Or a TOML file with `spec` and, if wanted, `name`
        and `source`. A Platform is handed back as it is.

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
    """
    if isinstance(spec_or_file, Platform):
        return spec_or_file
    if not isinstance(spec_or_file, str | os.PathLike):
        raise PlatformError(
            f"a platform is a specification such as 'star:64', or a file; got {type(spec_or_file).__name__}"
        )
    text = os.fspath(spec_or_file)
    if isinstance(spec_or_file, os.PathLike) or text.endswith((".toml", ".xml")):
        return _from_file(Path(text))
    return Platform(parse_spec(text))


def _from_file(path: Path) -> Platform:
    if path.suffix == ".xml":
        raise PlatformError(
            f"{path}: this version writes SimGrid platforms but does not read them; give a specification "
            "such as star:64,bw=1.25GBps,lat=1us"
        )
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PlatformError(f"{path}: not a readable TOML platform file ({error})") from None
    unknown = sorted(set(table) - {"name", "spec", "source"})
    if unknown or not all(isinstance(value, str) for value in table.values()) or "spec" not in table:
        found = ", ".join(sorted(table)) or "nothing"
        raise PlatformError(
            f"{path}: a platform file has the texts spec (needed), name and source; found {found}"
        )
    return Platform(parse_spec(table["spec"]), table.get("name", path.stem), table.get("source", "").strip())
