"""Message programs: every rank's sends, receives, waits and sleeps as text, run without Python ranks.

The text is also what ``benchmarks/simgrid/interpret.c`` runs under SMPI, so that both simulators are given
the very same program. One line a rank, ``3: send 0 7 1024; mark``, or one for all ranks without their own,
``*: ...``::

    sleep NS                              send|ssend DST TAG BYTES           recv SRC TAG BYTES
    isend|issend SLOT DST TAG BYTES       irecv SLOT SRC TAG BYTES           wait SLOT
    waitall SLOT SLOT ...                 waitany SLOT SLOT ...              test SLOT (until it is done)
    sendrecv DST TAG BYTES SRC TAG BYTES  wtime                              mark
    compute NS (on a core of its own; ranks of a host with fewer cores share them)
    allreduce BYTES                       bcast BYTES ROOT                   alltoall BYTES (per block)
    alltoall_bruck BYTES                  alltoall_linear BYTES              allgather BYTES

SRC and TAG may be -1 (any). A mark notes the rank's clock. The collectives stand for the messages of
SimGrid's algorithms: allreduce rdb, bcast binomial_tree, alltoall pair, bruck and basic_linear, and
allgather NTSLR.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from labkit.errors import DataError, DeadlockError
from labkit.machines.models import NetworkModel, get
from labkit.machines.platform import Platform

__all__ = ["Outcome", "encode", "run_program"]

#: operation -> (code, number of operands; None: counted)
_CODES: dict[str, tuple[int, int | None]] = {
    "sleep": (0, 1),
    "mark": (1, 0),
    "wtime": (2, 0),
    "send": (3, 3),
    "ssend": (4, 3),
    "isend": (5, 4),
    "issend": (6, 4),
    "recv": (7, 3),
    "irecv": (8, 4),
    "waitall": (9, None),
    "waitany": (10, None),
    "test": (11, 1),
    "sendrecv": (12, 6),
    "compute": (13, 1),
}
#: Collectives use a tag no program uses, one per kind.
_TAGS = {
    "allreduce": 1_000_001,
    "alltoall": 1_000_002,
    "bcast": 1_000_003,
    "alltoall_bruck": 1_000_004,
    "alltoall_linear": 1_000_005,
    "allgather": 1_000_006,
}


@dataclass(frozen=True)
class Outcome:
    """What a message program did.

    Attributes
    ----------
    finish_s : ndarray of float64, shape (p,)
        The clock of each rank at its end.
    marks : list of list of float
        Per rank, the clock at each mark.
    messages, bytes : int
        How many messages were transferred, and their payload.
    records : list of tuple
        (source, destination, tag, bytes, send posted, receive posted, start, end) of each message, if kept.
    repairs : int
        Loads of links that were repaired by themselves instead of by a complete solution.
    certified_instants, perturbation : int, float
        With a tolerance: instants at which the sharing was certified, and the largest relative change of a
        link's capacity with which it would have been exactly max-min fair.
    """

    finish_s: NDArray[np.float64]
    marks: list[list[float]]
    messages: int
    bytes: int
    records: list[tuple[int, int, int, int, float, float, float, float]] = field(default_factory=list)
    repairs: int = 0
    certified_instants: int = 0
    perturbation: float = 0.0


def _allreduce(rank: int, p: int, size: int) -> Iterator[str]:
    """Recursive doubling; ranks beyond a power of two fold into a neighbor first (SimGrid's rdb)."""
    tag = _TAGS["allreduce"]
    power = 1 << (p.bit_length() - 1)
    rest = p - power
    if rank < 2 * rest and rank % 2 == 0:
        yield f"send {rank + 1} {tag} {size}"
        yield f"recv {rank + 1} {tag} {size}"
        return
    if rank < 2 * rest:
        yield f"recv {rank - 1} {tag} {size}"
    mine = rank // 2 if rank < 2 * rest else rank - rest
    mask = 1
    while mask < power:
        other = mine ^ mask
        peer = 2 * other + 1 if other < rest else other + rest
        yield f"sendrecv {peer} {tag} {size} {peer} {tag} {size}"
        mask *= 2
    if rank < 2 * rest:
        yield f"send {rank - 1} {tag} {size}"


def _alltoall(rank: int, p: int, size: int) -> Iterator[str]:
    """One partner after another, by exclusive or (SimGrid's pair); the own block is a copy."""
    if p & (p - 1):
        raise DataError(f"alltoall by pairs needs a power of two of ranks, got {p}")
    for step in range(1, p):
        peer = rank ^ step
        yield f"sendrecv {peer} {_TAGS['alltoall']} {size} {peer} {_TAGS['alltoall']} {size}"


def _alltoall_bruck(rank: int, p: int, size: int) -> Iterator[str]:
    """With each power of two, the blocks whose distance has that bit go that far (SimGrid's bruck)."""
    tag = _TAGS["alltoall_bruck"]
    distance = 1
    while distance < p:
        moved = size * sum(1 for block in range(p) if block & distance)
        yield f"sendrecv {(rank + distance) % p} {tag} {moved} {(rank - distance) % p} {tag} {moved}"
        distance *= 2


def _alltoall_linear(rank: int, p: int, size: int) -> Iterator[str]:
    """All receives upwards, all sends downwards, one wait; in slots 0 and up (SimGrid's basic_linear)."""
    tag = _TAGS["alltoall_linear"]
    for i in range(1, p):
        yield f"irecv {i - 1} {(rank + i) % p} {tag} {size}"
    for i in range(1, p):
        yield f"isend {p + i - 2} {(rank - i) % p} {tag} {size}"
    if p > 1:
        yield "waitall " + " ".join(map(str, range(2 * p - 2)))


def _allgather(rank: int, p: int, size: int) -> Iterator[str]:
    """To the right neighbor goes what came last from the left one (SimGrid's NTSLR)."""
    tag = _TAGS["allgather"]
    for _ in range(1, p):
        yield f"sendrecv {(rank + 1) % p} {tag} {size} {(rank - 1) % p} {tag} {size}"


def _bcast(rank: int, p: int, size: int, root: int) -> Iterator[str]:
    """Down a binomial tree, the largest subtree first, by blocking sends (SimGrid's binomial_tree)."""
    tag = _TAGS["bcast"]
    relative = (rank - root) % p
    mask = 1
    while mask < p and not relative & mask:
        mask *= 2
    if relative:
        yield f"recv {(rank - mask) % p} {tag} {size}"
    while mask := mask >> 1:
        if relative + mask < p:
            yield f"send {(rank + mask) % p} {tag} {size}"


_COLLECTIVES: dict[str, Callable[..., Iterator[str]]] = {
    "allreduce": _allreduce,
    "alltoall": _alltoall,
    "alltoall_bruck": _alltoall_bruck,
    "alltoall_linear": _alltoall_linear,
    "allgather": _allgather,
    "bcast": _bcast,
}


def _expand(words: list[str], rank: int, p: int) -> Iterator[list[str]]:
    """An operation as operations the engine knows."""
    collective = _COLLECTIVES.get(words[0])
    if collective is not None:
        for text in collective(rank, p, *map(int, words[1:])):
            yield text.split()
    elif words[0] == "wait":
        yield ["waitall", *words[1:]]
    else:
        yield words


def _compile(text: str, rank: int, p: int) -> list[int]:
    code: list[int] = []
    for operation in filter(None, (part.split() for part in text.split(";"))):
        try:
            for name, *operands in _expand(operation, rank, p):
                number, count = _CODES[name]
                values = [int(v) for v in operands]
                if count is not None and len(values) != count:
                    raise DataError(f"{count} operands are needed")
                code += [number, len(values), *values] if count is None else [number, *values]
        except (KeyError, TypeError, ValueError, DataError) as error:
            known = ", ".join([*_CODES, "wait", *_TAGS])
            raise DataError(
                f"rank {rank}: {' '.join(operation)!r} is no operation ({error}); known: {known}"
            ) from None
    return code


def encode(program: str, ranks: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Translate a message program into what the engine reads.

    Parameters
    ----------
    program : str
        The text; see the module's head.
    ranks : int
        Number of ranks.

    Returns
    -------
    code, offsets : ndarray of int64
        All ranks' operations one after another, and where each rank's begin (shape (ranks + 1,)).

    Raises
    ------
    DataError
        A line or an operation that cannot be read; the rank is named.
    """
    own: dict[int, str] = {}
    of_all = ""
    for line in filter(None, map(str.strip, program.splitlines())):
        head, colon, text = line.partition(":")
        if not colon or not (head == "*" or head.isdigit()):
            raise DataError(
                f"line {line[:40]!r} of a message program does not begin with a rank or *, and a colon"
            )
        if head == "*":
            of_all = text
        elif int(head) >= ranks or int(head) in own:
            raise DataError(f"rank {head} of a message program is given twice or is not one of {ranks}")
        else:
            own[int(head)] = text
    pieces = [_compile(own.get(rank, of_all), rank, ranks) for rank in range(ranks)]
    offsets = np.zeros(ranks + 1, dtype=np.int64)
    np.cumsum([len(piece) for piece in pieces], out=offsets[1:])
    return np.array([v for piece in pieces for v in piece], dtype=np.int64), offsets


def run_program(
    program: str,
    ranks: int,
    platform: Platform,
    model: str | NetworkModel | None = None,
    keep_messages: bool = False,
    *,
    tolerance: float = 0.0,
    fills_only: bool = False,
) -> Outcome:
    """Run a message program on a simulated machine.

    Parameters
    ----------
    program : str
        The text; see the module's head.
    ranks : int
        Number of ranks.
    platform : Platform
        The machine.
    model : str, NetworkModel or None
        Default: the platform's.
    keep_messages : bool
        Fill `Outcome.records`.
    tolerance : float
        Relative error of the capacities allowed on links with many messages; 0: exact.
    fills_only : bool
        Share the links by complete solutions only: slow, the oracle of the incremental solver.

    Returns
    -------
    Outcome

    Raises
    ------
    DataError
        The program cannot be read.
    DeadlockError
        Ranks wait for messages that never come.
    PlatformError
        The ranks do not fit, or the model is not known.
    """
    from labkit import _kernels

    chosen = platform.model if model is None else get(model)
    code, offsets = encode(program, ranks)
    got = _kernels.run_message_program(
        platform.build(ranks), chosen.build(), code, offsets, keep_messages, tolerance, fills_only
    )
    if got["unfinished"]:
        some = ", ".join(map(str, got["unfinished"][:8]))
        raise DeadlockError(
            f"{len(got['unfinished'])} of {ranks} ranks wait for messages that never come: {some}"
        )
    return Outcome(
        np.array(got["finish_s"]),
        got["marks"],
        got["messages"],
        got["bytes"],
        [tuple(r) for r in got["records"]],
        got["repairs"],
        got["certified_instants"],
        got["perturbation"],
    )
