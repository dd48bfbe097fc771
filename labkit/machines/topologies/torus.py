"""A torus of any dimension."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from labkit.errors import PlatformError
from labkit.machines.drawing import Layout, Point, circle
from labkit.machines.measure import Bisection, LinkKind
from labkit.machines.spec.cluster import MAX_HOSTS, ClusterSpec, LinksOfCables
from labkit.machines.spec.options import Misplaced, Option, parse_counts

__all__ = ["COMPACT", "TorusSpec", "compact_block", "near_cube", "torus_cut"]

#: A torus of three dimensions up to this size is drawn as one box, else as layers.
MAX_BOX_HOSTS = 125
STUB = 0.42


@functools.cache
def near_cube(hosts: int) -> tuple[int, int, int]:
    """Find the box of an unsized torus: the smallest near-cubic one with at least `hosts` hosts.

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


#: the shape that fits the job
COMPACT = "compact"


@functools.cache
def compact_block(sizes: tuple[int, ...], hosts: int) -> tuple[int, ...]:
    """Find the block of hosts that a scheduler allocates to a job on a torus.

    Each side is a power of two or the whole dimension, as of the partitions of a Blue Gene. Of the blocks
    that are large enough the smallest is taken, of equally small ones the most cubic: that with the
    shortest longest side, then with the shortest second longest, and so on; then that with the longer sides
    first.

    Examples
    --------
    >>> compact_block((28, 8, 8, 8, 2), 32), compact_block((28, 8, 8, 8, 2), 512)
    ((2, 2, 2, 2, 2), (4, 4, 4, 4, 2))
    >>> compact_block((72, 32, 32), 64), compact_block((72, 32, 32), 65)
    ((4, 4, 4), (8, 4, 4))
    """
    sides = [sorted({size} | {1 << k for k in range(size.bit_length()) if 1 << k <= size}) for size in sizes]
    blocks = (block for block in itertools.product(*sides) if math.prod(block) >= hosts)

    def rank(block: tuple[int, ...]) -> tuple[object, ...]:
        return math.prod(block), sorted(block, reverse=True), tuple(-side for side in block)

    return min(blocks, key=rank, default=sizes)


def _read_shape(text: str) -> str:
    """Read ``compact`` or the sides of a block, ``4x4x2``."""
    if text == COMPACT:
        return text
    try:
        return "x".join(map(str, parse_counts(text)))
    except PlatformError as error:
        raise PlatformError(
            f"shape={text!r}: {error}; write {COMPACT}, or the sides of a block such as 4x4x2",
            code="malformed-value",
        ) from None


@dataclass(frozen=True, kw_only=True)
class TorusSpec(ClusterSpec):
    """A torus: every host is joined to its two neighbors in each dimension, round the ends.

    Unsized, it is a three-dimensional torus that grows with the ranks (`near_cube`). Messages go through one
    dimension after another, the shorter way round; exact rules: ``labkit/topology/torus.hpp`` of the kernels.
    A job may get a block of hosts as a separate torus, as on a Blue Gene, whose partitions are separated
    electrically: that is `shape`. Without one, a job gets the first hosts of the machine, in their order.
    Without a loopback, messages within a host cross its limiter; without a limiter either, a link of 10 GB/s
    and 0 s that never fills (SimGrid 3.32 refuses them). The other attributes are those of `ClusterSpec`.

    Attributes
    ----------
    sizes : tuple of int or None
        Hosts per dimension; host x0 + sizes[0] * (x1 + sizes[1] * ...) is at (x0, x1, ...).
    shape : str or None
        The block of hosts that a job gets: "compact" is the smallest that holds it (`compact_block`),
        "4x4x2" that one; None is the whole machine.
    """

    KIND: ClassVar[str] = "torus"
    FORM: ClassVar[str] = "torus or torus:8x8x8 (hosts per dimension)"
    EXAMPLE: ClassVar[tuple[str, str]] = ("4x4", "hosts per dimension")
    SIMGRID: ClassVar[str | None] = "TORUS"
    SIMGRID_SIZE: ClassVar[str] = "hosts per dimension, for example 8,8,4"

    OWN_OPTIONS: ClassVar[dict[str, Option]] = {"shape": Option(_read_shape, lacks="blocks of hosts (shape)")}

    sizes: tuple[int, ...] | None = None
    shape: str | None = None

    def __post_init__(self) -> None:
        """Refuse what no torus can be."""
        super().__post_init__()
        if self.sizes is None:
            return
        if not self.sizes or min(self.sizes) < 1:
            given = "x".join(map(str, self.sizes)) or "none"
            raise PlatformError(
                f"torus needs one size or more, each from 1 on, got {given}", code="out-of-range"
            )
        self._check_size()
        if self.shape not in (None, COMPACT):
            block = parse_counts(self.shape)
            if len(block) != len(self.sizes) or any(b > s for b, s in zip(block, self.sizes, strict=True)):
                raise PlatformError(
                    f"shape={self.shape} is no block of a torus of {self.size} hosts; write "
                    f"{len(self.sizes)} sides, none longer than the machine's, or {COMPACT}",
                    code="out-of-range",
                )

    def allocated(self, hosts: int | None) -> TorusSpec:
        """Return the block of hosts of a job as a separate torus; itself without a shape."""
        if self.sizes is None or self.shape is None or (hosts is None and self.shape == COMPACT):
            return self
        if self.shape == COMPACT:
            sizes = compact_block(self.sizes, hosts or 1)
        else:
            sizes = parse_counts(self.shape)
            if hosts is not None and math.prod(sizes) < hosts:
                raise PlatformError(
                    f"shape={self.shape} has {math.prod(sizes):,} hosts, and the ranks fill {hosts:,}; give "
                    f"a larger block, or shape={COMPACT}",
                    code="count-mismatch",
                )
        return replace(self, sizes=sizes, shape=None)

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

    @classmethod
    def grown(cls, hosts: int) -> dict[str, Any]:
        """The near-cubic one."""
        return {"sizes": near_cube(hosts)}

    def engine_size(self) -> dict[str, Any]:
        """The sizes."""
        return {"sizes": self.sizes}

    def shape_rows(self) -> list[tuple[str, str]]:
        """Hosts, and cables in use."""
        if self.sizes is None:
            return [
                ("shape", "a torus of three dimensions, nearly a cube"),
                ("hosts", f"as many as the ranks need, at most {MAX_HOSTS:,}"),
            ]
        hosts = math.prod(self.sizes)
        return [
            ("shape", f"a torus of {len(self.sizes)} dimension{'s' if len(self.sizes) > 1 else ''}"),
            ("hosts", f"{self.size} = {hosts:,}" if len(self.sizes) > 1 else f"{hosts:,}"),
            ("cables", f"{self.cable_count():,}"),
            *([] if self.shape is None else [("hosts of a job", self._said_shape())]),
        ]

    def _said_shape(self) -> str:
        what = "the smallest block that holds it" if self.shape == COMPACT else f"a block of {self.shape}"
        return f"{what}, as a separate torus (shape={self.shape})"

    def cable_links(self) -> list[LinksOfCables]:
        """A cable of every host in each dimension, used or not."""
        axes = ("xyz"[place] if place < 3 else f"d{place + 1}" for place in range(len(self.sizes or ())))
        count = (self.hosts or 0) * self.links_per_cable
        return [LinksOfCables(f"torus links along {axis}", count) for axis in axes]

    def cable_count(self) -> int:
        """Count the cables in use: along a dimension of two hosts one of the two, of one host none."""
        hosts = self.hosts or 0
        return sum(hosts // 2 if size == 2 else hosts for size in self.sizes or () if size > 1)

    def extra_links(self) -> list[LinkKind]:
        """The loopback that all hosts have in common, where nothing else carries a message to oneself."""
        if self.loopback_bw is not None or self.limiter is not None:
            return []
        return [LinkKind("loopbacks", 1, 10e9, 0.0, "fatpipe")]

    def longest_route(self) -> int:
        """Half-way round every dimension."""
        return sum(size // 2 for size in self.sizes or ())

    def narrowest_cut(self) -> Bisection:
        """Cut across the longest dimension; where that is odd, its middle slice across the next one [1]_.

        References
        ----------
        .. [1] J. Aroca, A. Fernandez Anta, "Bisection (band)width of product networks with application to
           data centers", IEEE TPDS 25(3), 2014, doi:10.1109/TPDS.2013.95.
        """
        count, is_exact = torus_cut(self.sizes or ())
        return self.cut(count, " across a slice", is_exact)

    def halved(self) -> TorusSpec:
        """Half the longest dimensions."""
        sizes = self.sizes or (1,)
        longest = max(sizes)
        return replace(self, sizes=tuple(max(1, s // 2) if s == longest else s for s in sizes))

    def lay_out(self) -> Layout:
        """A ring, a grid, a box; larger ones as slices."""
        return _lay_out(tuple(size for size in self.sizes or () if size > 1) or (1,))


def torus_cut(sizes: tuple[int, ...]) -> tuple[int, bool]:
    """Count the cables of a torus' narrowest halving; a dimension of two hosts has one cable a pair.

    Examples
    --------
    >>> torus_cut((4, 4, 4)), torus_cut((5, 4)), torus_cut((3, 3))
    ((32, True), (10, True), (8, True))
    """
    rings = [size for size in sizes if size > 1]
    orders = itertools.permutations(rings) if len(rings) < 7 else [tuple(sorted(rings, reverse=True))]
    count = min(_halving(order) for order in set(orders))
    # Proved for rings, and for cubes of pairs; a mixture was compared with all halvings of up to 20 hosts.
    return count, 2 not in rings or set(rings) == {2} or math.prod(rings) <= 20


def _halving(order: tuple[int, ...]) -> int:
    """Cut the first dimension; if it is odd, its middle slice by the next one; and so on."""
    count = 0
    for place, size in enumerate(order):
        count += (1 if size == 2 else 2) * math.prod(order[place + 1 :])
        if size % 2 == 0:
            break
    return count


def _lay_out(sizes: tuple[int, ...]) -> Layout:
    """Draw a torus without its dimensions of one host."""
    hosts = math.prod(sizes)
    if len(sizes) == 1:
        layout = Layout(said="A ring: messages go the shorter way round.")
        radius = max(1.0, hosts / 6)
        for i, (x, y) in enumerate(circle(hosts)):
            layout.hosts[f"host {i}"] = (radius * x, radius * y)
        for i in range(hosts if hosts > 2 else hosts - 1):
            layout.join(f"host {i}", f"host {(i + 1) % hosts}")
        return layout
    is_box = len(sizes) == 3 and hosts <= MAX_BOX_HOSTS
    drawn = 3 if is_box else 2
    layout = Layout(said="Stubs continue at the opposite end.")
    if len(sizes) > drawn:
        slices = "layers" if len(sizes) == 3 else "slices"
        layout.said += f" Hosts at the same place of neighboring {slices} are joined, too."
    steps = _steps(sizes, is_box)
    for number, place in enumerate(_places(sizes)):
        if len(sizes) == 3 and not is_box:  # layers in rows, as a page is read
            columns = math.ceil(math.sqrt(sizes[2]))
            place = (place[0], place[1], place[2] % columns, -(place[2] // columns))
        x = sum(p * step[0] for p, step in zip(place, steps, strict=False))
        y = sum(p * step[1] for p, step in zip(place, steps, strict=False))
        layout.hosts[f"host {number}"] = (x, y)
    _cables_of_torus(layout, sizes, steps, drawn)
    if not is_box:
        _name_slices(layout, sizes, steps)
    return layout


def _places(sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for place in itertools.product(*(range(size) for size in reversed(sizes))):
        yield place[::-1]


def _steps(sizes: tuple[int, ...], is_box: bool) -> list[Point]:
    """How far apart neighbors are in each dimension: slices alternate between right and up."""
    if is_box:
        return [(1.0, 0.0), (0.0, 1.0), (0.42, 0.31)]
    if len(sizes) == 3:
        sizes = (*sizes, 1)
    steps: list[Point] = []
    extent = [1.0, 1.0]
    for dimension, size in enumerate(sizes):
        axis = dimension % 2
        steps.append((extent[0], 0.0) if axis == 0 else (0.0, extent[1]))
        extent[axis] = extent[axis] * size + (1.2 if dimension < 2 else 0.6 * (dimension // 2 + 1))
    return steps


def _cables_of_torus(layout: Layout, sizes: tuple[int, ...], steps: list[Point], drawn: int) -> None:
    for number, place in enumerate(_places(sizes)):
        stride = 1
        for dimension, size in enumerate(sizes[:drawn]):
            a, (dx, dy) = f"host {number}", steps[dimension]
            if place[dimension] + 1 < size:
                layout.join(a, f"host {number + stride}")
            elif size > 2:
                b = f"host {number - (size - 1) * stride}"
                (ax, ay), (bx, by) = layout.at(a), layout.at(b)
                layout.cables[a, b] = [
                    [(ax, ay), (ax + STUB * dx, ay + STUB * dy)],
                    [(bx, by), (bx - STUB * dx, by - STUB * dy)],
                ]
            stride *= size


def _name_slices(layout: Layout, sizes: tuple[int, ...], steps: list[Point]) -> None:
    plane = sizes[0] * sizes[1]
    for index, place in enumerate(_places(sizes[2:])):
        x, y = layout.at(f"host {index * plane}")
        names = "zwvuts"
        text = ", ".join(f"{names[d] if d < len(names) else f'd{d + 3}'}={p}" for d, p in enumerate(place))
        layout.notes.append((x - 0.3, y - 0.95, text))
