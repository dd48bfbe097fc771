"""The report of a deadlock: who waits where, for whom, and the cycle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from labkit import _kernels
from labkit.errors import DeadlockError
from labkit.sim.where import lines_of, place_of
from labkit.text.units import ranks_text

__all__ = ["BlockedRank", "deadlock_error", "deadlock_of", "find_cycle", "report", "waiting_of"]

_ANY = -1
_PROC_NULL = -2
#: peers of a rank that are looked at for a way on to a circle
_MOST_PEERS = 64
#: hints that a report shows; more are counted
_MOST_HINTS = 4
#: ranks that an error's graph keeps
_MOST_DRAWN = 24
_last_missing: tuple[tuple[int, ...], str] = ((), "")


class Calls(Protocol):
    """What the report asks about collective calls, and locks of windows."""

    waiting_for_locks: dict[int, tuple[Any, int | None]]

    def pending_collective(self, rank: int) -> tuple[str, tuple[int, ...]] | None:
        """The collective a rank is in, and the ranks that have not reached it; None outside any.

        All ranks in one call get the same tuple: it may name a million ranks.
        """


class BlockedRank(NamedTuple):  # not a dataclass: a report may make a million
    """A rank that waits.

    `text`: The call, its peer and tag, and the line of the program.
    `peers`: Ranks that could end the wait; empty: anybody.
    """

    text: str
    peers: tuple[int, ...]


def _peer(verb: str, peer: int, tag: int) -> str:
    name = "any rank" if peer == _ANY else f"rank {peer}"
    return f"{verb} {name}, tag {'any' if tag == _ANY else tag}"


def _request(row: Any) -> str:
    kind, peer, tag, _context, size, _is_waited = row
    text = _peer("to" if kind == "send" else "from", peer, tag)
    return f"{text}, {size} B" if kind == "send" else text


def _requests(rows: Sequence[Any]) -> tuple[str, tuple[int, ...]]:
    """Describe the requests waited for, and whose they are."""
    if not rows:
        return "", ()
    if len(rows) == 1:
        return _request(rows[0]), () if rows[0][1] == _ANY else (rows[0][1],)
    parts = []
    peers: list[int] = []
    for row in rows:
        parts.append(_request(row))
        if row[1] != _ANY:
            peers.append(row[1])
    shown = "; ".join(parts[:4]) + (f"; ... ({len(parts)} requests)" if len(parts) > 4 else "")
    is_open = any(row[1] == _ANY for row in rows)
    return shown, () if is_open else tuple(dict.fromkeys(peers))


def _operations(
    hub: _kernels.Hub, operations: Sequence[Any], rows: Sequence[object]
) -> tuple[str, tuple[int, ...]]:
    """Describe nonblocking collectives (and single requests) waited for, and whose they are."""
    parts, groups = [], []
    for name, missing, _, agent in operations[:4]:
        text, peers = (_text_of(missing), missing) if missing else _requests(hub.requests(agent))
        parts.append(f"{name}, waiting for {text}" if missing else f"{name} ({text or 'its messages'})")
        groups.append(peers)
    if rows:
        text, peers = _requests(rows)
        parts.append(text)
        groups.append(peers)
    if len(operations) > 4:
        parts.append(f"... ({len(operations)} operations)")
    # one tuple for all ranks that wait for the same: it may name a million
    return "; ".join(parts), groups[0] if len(groups) == 1 else tuple(dict.fromkeys(sum(groups, ())))


def _text_of(missing: tuple[int, ...]) -> str:
    """Return `ranks_text` of what ranks that report one after another have in common."""
    global _last_missing
    if _last_missing[0] is not missing:
        _last_missing = (missing, ranks_text(list(missing)))
    return _last_missing[1]


def waiting_of(hub: _kernels.Hub, calls: Calls, rank: int) -> BlockedRank:
    """Describe what a blocked rank waits for."""
    greenlet = hub.greenlet(rank)
    place = place_of(greenlet.gr_frame if greenlet is not None else None)
    where = place.where if place is not None else ""
    state = hub.state(rank)
    if state == "compute":
        return BlockedRank(f"computing{where}", ())
    locks = calls.waiting_for_locks
    if rank in locks:
        window, target = locks[rank]
        method = place.method if place is not None else "Lock"
        text, holders = window.lock_text(target)
        return BlockedRank(f"{method} {text}{where}", holders)
    collective = calls.pending_collective(rank)
    if collective is not None:
        called, missing = collective
        called = place.method if place is not None and place.method else called
        whom = _text_of(missing) if missing else "its messages"
        return BlockedRank(f"{called}, waiting for {whom}{where}", missing)
    operations = hub.operations(rank)
    beside = [operation for operation in operations if operation[2]] if operations else operations
    rows = hub.requests(rank)
    name, peer, tag, _ = hub.call(rank)
    waited = [row for row in rows if row[5]] or (rows if not beside else [])
    method = place.method if place is not None and place.method and not place.method.startswith("_") else name
    if state == "probe" or not (waited or beside):
        if peer == _PROC_NULL:  # it waits for the others to come as far as it is
            return BlockedRank(f"{method}{where}", ())
        source = () if peer == _ANY else (int(peer),)
        return BlockedRank(f"{method} {_peer('from', peer, tag)}{where}", source)
    if beside:
        shown, peers = _operations(hub, beside, waited)
        return BlockedRank(f"{method} for {shown}{where}", peers)
    shown, peers = _requests(waited)
    return BlockedRank(f"{method} {shown}{where}", peers)


def find_cycle(waits: dict[int, BlockedRank]) -> list[int]:
    """Find ranks that wait for each other in a circle; the list may be empty."""
    state: dict[int, int] = {}
    blocked_of: dict[int, list[int]] = {}  # by id: the ranks of a collective have their peers in common
    for start in waits:
        path: list[int] = []
        rank = start
        while rank in waits and rank not in state:
            state[rank] = start
            path.append(rank)
            peers = waits[rank].peers
            if id(peers) not in blocked_of:
                blocked_of[id(peers)] = list(islice((peer for peer in peers if peer in waits), _MOST_PEERS))
            blocked = blocked_of[id(peers)]
            if not blocked:
                break
            rank = next((peer for peer in blocked if state.get(peer) == start), blocked[0])
        else:
            if rank in waits and state.get(rank) == start and rank in path:
                return path[path.index(rank) :]
    return []


def deadlock_error(waits: dict[int, BlockedRank], ranks: int, hints: Sequence[str] = ()) -> DeadlockError:
    """Return the error of a deadlock: its report with a few hints, and the graph of who waits for whom."""
    more = [f"... and {len(hints) - _MOST_HINTS} more"] if len(hints) > _MOST_HINTS else []
    lines = [report(waits, ranks), *(f"  {hint}" for hint in [*hints[:_MOST_HINTS], *more])]
    error = DeadlockError("\n".join(lines))
    error.cycle, error.ranks, error.blocked = find_cycle(waits), ranks, len(waits)
    chosen = islice(dict.fromkeys([*error.cycle, *waits]), _MOST_DRAWN)
    error.waits = {rank: (waits[rank].text, waits[rank].peers[:_MOST_PEERS]) for rank in chosen}
    return error


def deadlock_of(hub: _kernels.Hub, calls: Calls) -> DeadlockError:
    """Return the error of a simulated run."""
    blocked = [rank for rank in range(hub.ranks) if hub.state(rank) not in ("finished", "not started")]
    hub.freeze(True)
    waits = {rank: waiting_of(hub, calls, rank) for rank in blocked}
    hub.freeze(False)
    return deadlock_error(waits, hub.ranks)


def report(waits: dict[int, BlockedRank], ranks: int) -> str:
    """Write who waits for what, and the circle that they wait in.

    `waits`: The blocked ranks; whoever is missing has finished.
    `ranks`: All of them.
    """
    finished = ranks - len(waits)
    head = f"deadlock: {len(waits)} of {ranks} ranks wait for what can never happen"
    lines = [head, *lines_of((rank, wait.text) for rank, wait in waits.items())]
    cycle = find_cycle(waits)
    if cycle:
        shown = [f"rank {rank}" for rank in [*cycle, cycle[0]]]
        if len(shown) > 12:
            shown[11:-1] = [f"... ({len(cycle)} ranks)"]
        lines.append("  cycle: " + " waits for ".join(shown))
    elif finished:
        lines.append(f"  {finished} of {ranks} ranks have finished: no rank is left that could send")
    return "\n".join(lines)
