"""A torus of any dimension."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.platform.spec.cluster import MAX_HOSTS, ClusterSpec
from labkit.platform.spec.options import Misplaced, parse_counts

__all__ = ["TorusSpec", "near_cube"]


@functools.cache
def near_cube(hosts: int) -> tuple[int, int, int]:
    """Find the box of an unsized torus: the smallest near-cubic one of at least so many hosts.

    Near-cubic: the longest side is at most twice the shortest. Of boxes equally small, the one with the
    shorter longest side is taken, then the one with the shorter middle side; the longest side comes first.
    Powers of two fit exactly: 8 is 2x2x2, 16 is 4x2x2, 1024 is 16x8x8.

    Examples
    --------
    >>> near_cube(64), near_cube(1024), near_cube(100)
    ((4, 4, 4), (16, 8, 8), (5, 5, 4))
    """
    best: tuple[int, int, int, int] | None = None
    for c in range(1, round(hosts ** (1 / 3)) + 2):
        for b in range(c, 2 * c + 1):
            a = max(b, -(-hosts // (b * c)))
            if a <= 2 * c and (best is None or (a * b * c, a, b, c) < best):
                best = (a * b * c, a, b, c)
    assert best is not None
    return best[1:]


@dataclass(frozen=True, kw_only=True)
class TorusSpec(ClusterSpec):
    """A torus: every host is joined to its two neighbours in each dimension, round the ends.

    Unsized, it is a three-dimensional torus that grows with the ranks (`near_cube`). Messages go through one
    dimension after another, the shorter way round; exact rules: ``labkit/topology/torus.hpp`` of the kernels.
    Without a loopback, messages within a host cross its limiter; without a limiter either, a link of 10 GB/s
    and 0 s that never fills (SimGrid 3.32 refuses them). The other attributes are those of `ClusterSpec`.

    Attributes
    ----------
    sizes : tuple of int or None
        Hosts per dimension; host x0 + sizes[0] * (x1 + sizes[1] * ...) is at (x0, x1, ...).
    """

    KIND: ClassVar[str] = "torus"
    FORM: ClassVar[str] = "torus or torus:8x8x8 (hosts per dimension)"

    sizes: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse what no torus can be."""
        super().__post_init__()
        if self.sizes is None:
            return
        if not self.sizes or min(self.sizes) < 1:
            given = "x".join(map(str, self.sizes)) or "none"
            raise PlatformError(f"torus needs one size or more, each from 1 on, got {given}")
        hosts = math.prod(self.sizes)
        extras = (self.limiter is not None) + (self.loopback_bw is not None)
        self._check_size(hosts, hosts * (len(self.sizes) * self.links_per_cable + extras))

    @property
    def size(self) -> str | None:
        """The sizes, ``8x8x8``."""
        return None if self.sizes is None else "x".join(map(str, self.sizes))

    @classmethod
    def parse_size(cls, text: str) -> dict[str, Any]:
        """Read the sizes."""
        try:
            return {"sizes": parse_counts(text)}
        except Misplaced as error:
            why = f"hosts per dimension: {error}, for example 8x8x8; leave ':' out to let it grow"
            raise Misplaced(error.offset, why) from None

    @property
    def hosts(self) -> int | None:
        """The product of the sizes."""
        return None if self.sizes is None else math.prod(self.sizes)

    def sized(self, hosts: int) -> TorusSpec:
        """Return the torus itself, or the near-cubic one of at least so many hosts."""
        if self.sizes is not None:
            return self
        self._check_size(hosts, 0)
        return replace(self, sizes=near_cube(hosts))

    def build(self, rank_hosts: Sequence[int]) -> Any:
        """Compile it for the engine."""
        from labkit import _kernels

        assert self.sizes is not None
        return _kernels.torus(list(self.sizes), list(rank_hosts), **self.common())

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts, and cables in use."""
        if self.sizes is None:
            return [
                ("shape", "a torus of three dimensions, nearly a cube"),
                ("hosts", f"as many as the ranks need, at most {MAX_HOSTS:,}"),
            ]
        hosts = math.prod(self.sizes)
        # Along a dimension of two hosts both directions use one cable of the two; of one host, none.
        cables = sum(hosts // 2 if size == 2 else hosts for size in self.sizes if size > 1)
        return [
            ("shape", f"a torus of {len(self.sizes)} dimension{'s' if len(self.sizes) > 1 else ''}"),
            ("hosts", f"{self.size} = {hosts:,}" if len(self.sizes) > 1 else f"{hosts:,}"),
            ("cables", f"{cables:,}"),
        ]

    def xml_attributes(self) -> dict[str, str]:
        """SimGrid's words for it."""
        return {"topology": "TORUS", "topo_parameters": ",".join(map(str, self.sizes or ()))}
