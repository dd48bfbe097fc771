"""The duty of every collective, as NumPy says it: random calls with their right results.

An oracle that knows nothing of schedules: used to test every reader of one, and to try a schedule of
your own on data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.schedule.schedule import Schedule

__all__ = ["Case", "affine", "case_of"]

Array = NDArray[Any]

_PRIME = 10007


def affine(left: Array, right: Array) -> Array:
    """Compose maps ``x -> a*x + b`` modulo a prime, first `left`, then `right`; (a, b) is packed in a number.

    Associative, but not commutative: an operator that finds out operands in the wrong order.
    """
    a, b, c, d = left // _PRIME, left % _PRIME, right // _PRIME, right % _PRIME
    composed: Array = (a * c % _PRIME) * _PRIME + (b * c + d) % _PRIME
    return composed


@dataclass
class Case:
    """One call of a collective.

    Attributes
    ----------
    buffers : list of dict
        For each rank its buffers by name; results arrive in them.
    counts : list of dict or None
        For vector collectives: for each rank buffer name to counts.
    op : str or callable or None
        The operator of a reduction.
    expected : list of dict
        For each rank what its buffers must hold in the end.
    """

    buffers: list[dict[str, Array]]
    counts: list[dict[str, Any]] | None
    op: Any
    expected: list[dict[str, Array]]

    def verify(self) -> None:
        """Compare; raises AssertionError with rank, buffer and differences."""
        for rank, (found, wanted) in enumerate(zip(self.buffers, self.expected, strict=True)):
            for name, values in wanted.items():
                np.testing.assert_array_equal(found[name], values, err_msg=f"rank {rank}, {name}")


def case_of(schedule: Schedule, rng: np.random.Generator, n: int, op: Any = "sum") -> Case:
    """Return a random call for a schedule, with the results NumPy computes.

    Parameters
    ----------
    schedule : Schedule
    rng : numpy.random.Generator
    n : int
        Elements of a message or block (at most, where they differ); may be 0.
    op : "sum" or `affine`
        For reductions.
    """
    return _MAKERS[schedule.problem.name](schedule, rng, n, op)


def _numbers(rng: np.random.Generator, n: int) -> Array:
    return rng.integers(-1000, 1000, n)


def _barrier(schedule: Schedule, rng: np.random.Generator, n: int, op: Any) -> Case:
    return Case([{} for _ in range(schedule.size)], None, None, [{} for _ in range(schedule.size)])


def _bcast(schedule: Schedule, rng: np.random.Generator, n: int, op: Any) -> Case:
    message = _numbers(rng, n)
    data = [message.copy() if r == schedule.root else np.full(n, -1) for r in range(schedule.size)]
    return Case([{"data": d} for d in data], None, None, [{"data": message}] * schedule.size)


def _folded(operands: list[Array], op: Any) -> Array:
    total = operands[0]
    if op == "sum":
        return total + sum(operands[1:])
    for operand in operands[1:]:
        total = affine(total, operand)
    return total


def _reduction(wanted: Callable[[int, list[Array], Any, int], Array | None]) -> Any:
    def make(schedule: Schedule, rng: np.random.Generator, n: int, op: Any) -> Case:
        operands = [rng.integers(0, _PRIME**2, n) for _ in range(schedule.size)]
        buffers, expected = [], []
        for rank, operand in enumerate(operands):
            result = wanted(rank, operands, op, schedule.root)
            buffers.append({"send": operand.copy(), "recv": np.full(n, -1)})
            expected.append({"send": operand} if result is None else {"send": operand, "recv": result})
            if schedule.problem.name == "reduce" and rank != schedule.root:
                del buffers[-1]["recv"]
        return Case(buffers, None, op, expected)

    return make


def _blocks(schedule: Schedule, rng: np.random.Generator, n: int, op: Any) -> Case:
    """gather, scatter, allgather, alltoall and their vector versions: move blocks by MPI's definition."""
    p, root, name = schedule.size, schedule.root, schedule.problem.name
    is_vector = name.endswith("v")
    base = name.removesuffix("v")
    sizes = rng.integers(0, n + 1, (p, p)) if is_vector else np.full((p, p), n)
    if base in ("gather", "allgather"):
        sizes = np.repeat(sizes[:, :1], p, axis=1)  # a rank sends the same block to everyone
    if base == "scatter":
        sizes = np.repeat(sizes[root : root + 1], p, axis=0)
    block = {(i, j): _numbers(rng, int(sizes[i, j])) for i in range(p) for j in range(p)}
    if base in ("gather", "allgather"):
        block = {(i, j): block[i, 0] for i, j in block}
    ranks = [_moved(base, root, p, r, block) for r in range(p)]
    buffers, counts, expected = ([rank[part] for rank in ranks] for part in range(3))
    return Case(buffers, counts if is_vector else None, None, expected)


def _moved(
    base: str, root: int, p: int, rank: int, block: dict[tuple[int, int], Array]
) -> tuple[dict[str, Array], dict[str, Any], dict[str, Array]]:
    """Return one rank's buffers, counts and expected contents; `block[i, j]` goes from i to j."""
    targets = {"gather": [root], "allgather": [0]}.get(base, list(range(p)))
    sources = [root] if base == "scatter" else list(range(p))
    buffers: dict[str, Array] = {}
    counts: dict[str, Any] = {}
    expected: dict[str, Array] = {}
    if base != "scatter" or rank == root:
        buffers["send"] = np.concatenate([block[rank, j] for j in targets])
        expected["send"] = buffers["send"].copy()
        counts["send"] = [len(block[rank, j]) for j in targets]
    if base != "gather" or rank == root:
        expected["recv"] = np.concatenate([block[i, rank] for i in sources])
        buffers["recv"] = np.full(len(expected["recv"]), -1)
        counts["recv"] = [len(block[i, rank]) for i in sources]
    return buffers, counts, expected


def _reduce_scatter(schedule: Schedule, rng: np.random.Generator, n: int, op: Any) -> Case:
    """Combine all operands, then cut the result: rank r gets counts[r] elements."""
    p, is_vector = schedule.size, schedule.problem.layout == "table"
    sizes = rng.integers(0, n + 1, p) if is_vector else np.full(p, n)
    ends = np.cumsum(sizes)
    operands = [rng.integers(0, _PRIME**2, int(ends[-1])) for _ in range(p)]
    total = _folded(operands, op)
    buffers, counts, expected = [], [], []
    for rank, operand in enumerate(operands):
        buffers.append({"send": operand.copy(), "recv": np.full(sizes[rank], -1)})
        counts.append({"send": sizes.tolist(), "recv": [int(sizes[rank])]})
        expected.append({"send": operand, "recv": total[ends[rank] - sizes[rank] : ends[rank]]})
    return Case(buffers, counts if is_vector else None, op, expected)


_MAKERS: dict[str, Callable[[Schedule, np.random.Generator, int, Any], Case]] = {
    "barrier": _barrier,
    "bcast": _bcast,
    "reduce": _reduction(lambda r, xs, op, root: _folded(xs, op) if r == root else None),
    "allreduce": _reduction(lambda r, xs, op, root: _folded(xs, op)),
    "scan": _reduction(lambda r, xs, op, root: _folded(xs[: r + 1], op)),
    "exscan": _reduction(lambda r, xs, op, root: _folded(xs[:r], op) if r else None),
    "reduce_scatter": _reduce_scatter,
    "reduce_scatter_block": _reduce_scatter,
    **dict.fromkeys(
        ["gather", "scatter", "allgather", "alltoall", "gatherv", "scatterv", "allgatherv", "alltoallv"],
        _blocks,
    ),
}
