"""OTF2 archives in: what Score-P, and labkit itself, have recorded, as the notes of real ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np

from labkit.comm.surface import METHODS
from labkit.errors import DataError
from labkit.process.limited import ReadLimits, limited
from labkit.timing.clocks import Clocks
from labkit.trace.exchange.otf2_archive import NO_REGION, WITHIN_CALLS, otf2_package
from labkit.trace.trace import NO_PHASE, Entry
from labkit.trace.waiting.kinds import STARTS

__all__ = ["read_otf2"]


#: of calls and posts what a rank notes (`labkit.trace.recorder.timeline`), and its kind
_CALLS = {
    "begin_s": float,
    "end_s": float,
    "name": int,
    "place": int,
    "bytes": int,
    "context": int,
    "sequence": int,
    "root": int,
    "position": int,
    "ends": int,
    "phase": int,
}
_POSTS = {
    "call": int,
    "done": int,
    "peer": int,
    "tag": int,
    "context": int,
    "bytes": int,
    "order": int,
    "is_send": bool,
    "is_cancelled": bool,
    "done_s": float,
}
_BEGUN = frozenset(
    row.name for row in METHODS if row.kind in ("collective", "neighbor") and row.form == "nonblocking"
)
_NO_CALL: dict[str, object] = dict.fromkeys(_CALLS, -1) | {"end_s": float("nan"), "bytes": 0}
_NO_POST: dict[str, object] = dict.fromkeys(_POSTS, -1) | {
    "is_cancelled": False,
    "bytes": 0,
    "done_s": float("nan"),
}
#: numbers of communicators begin behind those that a recorder has for the world and a rank alone
_FIRST = 4
#: the number of a communicator of a rank alone
_SELF = 2


#: events without information next to others of the same call
_WITHOUT_CONTENT = ("MpiCollectiveBegin", "MpiRequestTest", "ProgramBegin", "ProgramEnd")

#: what reading may use, and for how many bytes of the archive: several times as much as it takes
_LEAST_BYTES, _BYTES_A_BYTE, _LEAST_S, _BYTES_A_S = 1 << 30, 500, 10, 50_000


class Archive(NamedTuple):
    """What an archive holds.

    `timelines`: By rank, as `labkit.trace.recorder.timeline.trace_of` takes them.
    `spans`: First and last event of each rank, in seconds.
    `phases`: Regions that are no calls of MPI: rank, name, begin and end, in seconds since the first event.
    `clocks`: Without samples: the archive's times are used unchanged.
    `machine`: Its name in the archive.
    `notes`: What was left out.
    """

    timelines: list[dict[str, Any]]
    spans: list[tuple[float, float]]
    phases: list[Entry]
    clocks: Clocks
    machine: str
    notes: list[str]


class _Region(Protocol):
    name: str
    description: str
    paradigm: object


class _Location(Protocol):
    name: str


class _Group(Protocol):
    name: str
    group_type: object
    members: list[_Location]


class _Comm(Protocol):
    """A communicator: of one group, or of two, `groupA` and `groupB`."""

    name: str
    group: _Group
    groupA: _Group  # noqa: N815 - otf2 calls it so
    groupB: _Group  # noqa: N815


class _Event(Protocol):
    """What is read of events; each kind has some of it."""

    communicator: _Comm
    sender: int
    receiver: int
    root: int
    tag: int
    msg_tag: int
    msg_length: int
    size_sent: int
    request_id: int
    message_id: int


@dataclass
class _Rank:
    """What one rank does."""

    number: int
    calls: list[dict[str, Any]] = field(default_factory=list)
    posts: list[dict[str, Any]] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    #: names of the phases that calls are in
    inside: dict[str, int] = field(default_factory=dict)
    #: open regions: name, begin, the call (-1: a phase, -2: left out)
    open: list[tuple[str, float, int]] = field(default_factory=list)
    requests: dict[int, dict[str, Any]] = field(default_factory=dict)
    #: envelopes of messages that Mprobe has found, by their number
    found: dict[int, dict[str, int]] = field(default_factory=dict)
    #: calls that began a collective, by its request
    begun: dict[int, int] = field(default_factory=dict)
    phases: list[tuple[str, float, float, int]] = field(default_factory=list)
    first_s: float = float("inf")
    last_s: float = float("-inf")
    lost: int = 0

    def here(self) -> int:
        """Return the call that is going on, or -1."""
        return next((call for _, _, call in self.open if call >= 0), -1)

    def enter(self, region: _Region, kind: str, now_s: float) -> None:
        call = {"phase": -1, "call": -1, "nothing": -2}[kind]
        if kind == "call" and self.here() >= 0:
            call = -2  # what a call does inside
        elif kind == "call":
            name = call_name(region.name)
            number = self.names.setdefault(name, len(self.names))
            inside = next((name for name, _, call in reversed(self.open) if call == -1), NO_PHASE)
            phase = self.inside.setdefault(inside, len(self.inside))
            self.calls.append(_NO_CALL | {"begin_s": now_s, "name": number, "phase": phase})
            call = len(self.calls) - 1
        self.open.append((region.name, now_s, call))

    def leave(self, now_s: float) -> None:
        if not self.open:
            return
        name, begin_s, call = self.open.pop()
        if call >= 0:
            self.calls[call]["end_s"] = now_s
        elif call == -1:
            depth = sum(one == -1 for _, _, one in self.open)
            self.phases.append((name, begin_s, now_s, depth))

    def post(self, is_send: bool, done: bool, **what: object) -> dict[str, object]:
        here = self.here()
        if here < 0:
            self.lost += 1
        row = _NO_POST | {"is_send": is_send, "call": here, "done": here if done else -1} | what
        row["order"] = len(self.posts)
        if here >= 0:
            self.posts.append(row)
        return row

    def timeline(self) -> dict[str, object]:
        """Return the notes; calls that never ended are over with the rank."""
        joined: dict[int, int] = {}
        for one in self.calls:
            one["end_s"] = self.last_s if np.isnan(one["end_s"]) else one["end_s"]
            if one["context"] >= 0:  # a collective: in the order of the calls that make or begin them
                one["sequence"] = joined[one["context"]] = joined.get(one["context"], -1) + 1
        tables: dict[str, object] = {
            name: {key: np.array([row[key] for row in rows], kind) for key, kind in columns.items()}
            for name, rows, columns in (("calls", self.calls, _CALLS), ("posts", self.posts, _POSTS))
        }
        known = dict(joined) | {one["context"]: 0 for one in self.posts}
        return {
            **tables,
            "names": list(self.names),
            "phases": list(self.inside),
            "places": [],
            "clock": [],
            "notes": [],
            "blocks": {},
            "communicators": {number: f"communicator {number}" for number in known if number >= _FIRST},
        }


def call_name(region: str) -> str:
    """Return mpi4py's name of an MPI function.

    Examples
    --------
    >>> call_name("MPI_Isend"), call_name("MPI_Win_fence"), call_name("Allreduce")
    ('Isend', 'Fence', 'Allreduce')
    """
    name = region.removeprefix("PMPI_").removeprefix("MPI_").removeprefix("Comm_")
    name = name.removeprefix("Win_")
    return name[:1].upper() + name[1:] if name != region else region


def read_otf2(path: Path) -> Archive:
    """Read an archive."""
    otf2 = otf2_package()
    anchor = path / "traces.otf2" if path.is_dir() else path
    if not anchor.is_file():
        raise DataError(f"there is no OTF2 archive: {str(anchor)!r} does not exist", code="missing-file")
    files = (anchor, anchor.with_suffix(".def"), *anchor.with_suffix("").rglob("*"))
    n_bytes = sum(one.stat().st_size for one in files if one.is_file())
    limits = ReadLimits(
        _LEAST_BYTES + _BYTES_A_BYTE * n_bytes, _LEAST_S + n_bytes // _BYTES_A_S, 86400.0, 1 << 40
    )
    archive = limited(_opened, otf2, anchor, what=repr(str(anchor)), limits=limits, is_plain=False)
    return Archive(*archive)


def _opened(otf2: ModuleType, anchor: Path) -> Archive:
    """Read an archive; the library never returns from some that are damaged."""
    _repair(otf2.definitions.InterComm)
    try:
        with otf2.reader.open(str(anchor)) as archive:
            return _read(otf2, archive)
    except (DataError, MemoryError):
        raise
    except Exception as error:  # the library raises errors of several kinds
        raise DataError(
            f"{str(anchor)!r} cannot be read: {type(error).__name__}: {error}", code="unreadable-file"
        ) from error


def _repair(kind: Any) -> None:
    """Drop the fields that version 3.2 of the package inherits by mistake: archives with one are not read."""
    if "group" in (names := [one.name for one in kind._fields]):
        kind._fields = (kind._fields[0], *kind._fields[names.index("groupA") :])


def _read(otf2: ModuleType, archive: Any) -> Archive:
    known = archive.definitions
    members = next(
        (
            tuple(group.members)
            for group in known.groups
            if group.group_type == otf2.GroupType.COMM_LOCATIONS and group.paradigm == otf2.Paradigm.MPI
        ),
        tuple(known.locations),
    )
    ranks = {location: _Rank(number) for number, location in enumerate(members)}
    within = any(one.name == WITHIN_CALLS for one in known.system_tree_node_properties)
    notes = _played(archive, _Reading(otf2, ranks, within))
    rows = list(ranks.values())
    machine = next((str(node.name) for node in known.system_tree_nodes), "an archive")
    return Archive(
        [rank.timeline() for rank in rows],
        [(rank.first_s, rank.last_s) for rank in rows],
        [(rank.number, *phase) for rank in rows for phase in rank.phases],
        Clocks([[] for _ in rows]),
        machine,
        notes,
    )


def _played(archive: Any, reading: _Reading) -> list[str]:
    """Note all events with their ranks; return what was left out."""
    unused: Counter[str] = Counter()
    ranks, handlers = reading.ranks, reading.handlers
    seconds, zero, others = 1.0 / archive.timer_resolution, None, 0
    for location, event in archive.events:
        rank = ranks.get(location)
        if rank is None:
            others += 1
            continue
        zero = event.time if zero is None else zero
        now_s = (event.time - zero) * seconds
        if now_s < rank.last_s:
            raise DataError(
                f"the events of rank {rank.number} are not in the order of time: {type(event).__name__} at "
                f"tick {event.time} follows a later one; the archive is damaged",
                code="damaged-file",
            )
        rank.first_s, rank.last_s = min(rank.first_s, now_s), max(rank.last_s, now_s)
        if event.attributes:
            unused["attribute of an event"] += len(event.attributes)
        handler = handlers.get(type(event))
        if handler is not None:
            handler(rank, event, now_s)
        elif type(event).__name__ not in _WITHOUT_CONTENT:
            unused[type(event).__name__] += 1
    if zero is None:
        raise DataError("the archive has no event of a rank of MPI", code="no-data")
    rows = list(ranks.values())
    for rank in rows:
        rank.first_s, rank.last_s = min(rank.first_s, rank.last_s, 0.0), max(rank.last_s, 0.0)
        while rank.open:
            rank.leave(rank.last_s)
    return _left_out(rows, others, unused)


def _left_out(rows: list[_Rank], others: int, unused: Counter[str]) -> list[str]:
    """Return as sentences what of an archive has no place in a trace, or no cause."""
    notes = [f"{others} events of locations that are no ranks of MPI are left out"] if others else []
    if unused:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(unused.items()))
        notes.append(f"records that labkit's traces have no place for are left out: {kinds}")
    if lost := sum(rank.lost for rank in rows):
        notes.append(f"{lost} messages outside any call of MPI are left out")
    begun = 0
    for rank in rows:
        begins = [name in _BEGUN or name.startswith(STARTS) for name in rank.names]
        begun += sum(begins[one["name"]] and one["context"] < 0 for one in rank.calls)
    if begun:
        notes.append(
            f"{begun} call{'s begin' if begun > 1 else ' begins a'} nonblocking or persistent "
            f"collective{'s' if begun > 1 else ''}: which calls are one the archive does not say, so waits "
            "for them have no cause and are not found"
        )
    return notes


class _Reading:
    """What is done with each kind of event.

    Messages are complete when their events say so if `within`. Else at the ends of their calls: of several
    that a call waited for, a tool gets all in one event.
    """

    def __init__(self, otf2: ModuleType, ranks: dict[object, _Rank], within: bool) -> None:
        self.ranks = ranks
        self.within = within
        self.mpi, self.own_group = otf2.Paradigm.MPI, otf2.GroupType.COMM_SELF
        self.numbers: dict[_Comm, int] = {}
        self.kinds: dict[_Region, str] = {}
        self.members: dict[_Group, list[int]] = {}
        events = otf2.events
        self.handlers: dict[object, Callable[[_Rank, Any, float], None]] = {
            events.Enter: lambda rank, event, now_s: self.enter(rank, event.region, now_s),
            events.Leave: lambda rank, _, now_s: rank.leave(now_s),
            events.CallingContextEnter: (
                lambda rank, event, now_s: self.enter(rank, event.calling_context.region, now_s)
            ),
            events.CallingContextLeave: lambda rank, _, now_s: rank.leave(now_s),
            events.MpiSend: self.send,
            events.MpiIsend: self.send,
            events.MpiRecv: self.receive,
            events.MpiIrecv: self.receive,
            events.MpiIrecvRequest: self.request,
            events.MpiProbe: self.probe,
            events.MpiMrecv: self.receive_matched,
            events.MpiImrecvRequest: self.request_matched,
            events.MpiImrecv: self.complete_matched,
            events.MpiIsendComplete: self.sent,
            events.MpiRequestCancelled: self.cancelled,
            events.MpiCollectiveEnd: self.joined,
            events.NonBlockingCollectiveRequest: self.begun,
            events.NonBlockingCollectiveComplete: self.completed,
        }

    def enter(self, rank: _Rank, region: _Region, now_s: float) -> None:
        if region not in self.kinds:
            is_nothing = region.description in NO_REGION.values()
            self.kinds[region] = (
                "nothing" if is_nothing else "call" if region.paradigm == self.mpi else "phase"
            )
        rank.enter(region, self.kinds[region], now_s)

    def group(self, rank: _Rank, group: _Group) -> list[int]:
        """Return the ranks of a group; that of MPI_COMM_SELF has no members in an archive."""
        if group.group_type == self.own_group:
            return [rank.number]
        if group not in self.members:
            if others := [str(one.name) for one in group.members if one not in self.ranks]:
                raise DataError(
                    f"the group {str(group.name)!r} has members that are no ranks of MPI: "
                    f"{', '.join(others[:3])}; the archive is damaged",
                    code="damaged-file",
                )
            self.members[group] = [self.ranks[one].number for one in group.members]
        return self.members[group]

    def groups(self, rank: _Rank, comm: _Comm) -> tuple[int, list[int], list[int]]:
        """Return a communicator's number, the ranks of the own group, and those that it talks to."""
        if hasattr(comm, "groupA"):
            own, other = self.group(rank, comm.groupA), self.group(rank, comm.groupB)
            own, other = (own, other) if rank.number in own else (other, own)
        else:
            own = other = self.group(rank, comm.group)
            if comm.group.group_type == self.own_group:
                return _SELF, own, other
        return self.numbers.setdefault(comm, _FIRST + 2 * len(self.numbers)), own, other

    def over(self, rank: _Rank, now_s: float) -> dict[str, Any]:
        return {"done": rank.here(), "done_s": round(now_s, 9) if self.within else float("nan")}

    def envelope(self, rank: _Rank, comm: _Comm, peer: int, tag: int) -> dict[str, int]:
        number, _, others = self.groups(rank, comm)
        if peer >= len(others):
            raise DataError(
                f"rank {rank.number} has a message with rank {peer} of the communicator {str(comm.name)!r}, "
                f"which has {len(others)} ranks; the archive is damaged",
                code="damaged-file",
            )
        return {"peer": others[peer], "tag": tag, "context": number}

    def send(self, rank: _Rank, event: _Event, _: float) -> None:
        what = self.envelope(rank, event.communicator, event.receiver, event.msg_tag)
        request: int | None = getattr(event, "request_id", None)
        row = rank.post(True, request is None, bytes=event.msg_length, **what)
        if request is not None:
            rank.requests[request] = row

    def receive(self, rank: _Rank, event: _Event, now_s: float) -> None:
        what = self.envelope(rank, event.communicator, event.sender, event.msg_tag)
        self.received(rank, getattr(event, "request_id", None), {**what, "bytes": event.msg_length}, now_s)

    def received(self, rank: _Rank, request: int | None, what: dict[str, Any], now_s: float) -> None:
        """Note a receive that is complete; without its request it is posted here."""
        posted = None if request is None else rank.requests.pop(request, None)
        if posted is None:
            rank.post(False, True, **what)
        else:
            posted.update(what, **self.over(rank, now_s))

    def request(self, rank: _Rank, event: _Event, _: float) -> None:
        rank.requests[event.request_id] = rank.post(False, False)

    def probe(self, rank: _Rank, event: _Event, _: float) -> None:
        """Keep the envelope of a message that Mprobe or Improbe found."""
        rank.found[event.message_id] = self.envelope(rank, event.communicator, event.sender, event.tag)

    def matched(self, rank: _Rank, event: _Event) -> dict[str, int]:
        if event.message_id not in rank.found:
            raise DataError(
                f"rank {rank.number} receives message {event.message_id}, which none of its MpiProbe events "
                "has; the archive is damaged",
                code="damaged-file",
            )
        return rank.found.pop(event.message_id)

    def receive_matched(self, rank: _Rank, event: _Event, now_s: float) -> None:
        self.received(rank, None, {**self.matched(rank, event), "bytes": event.msg_length}, now_s)

    def request_matched(self, rank: _Rank, event: _Event, _: float) -> None:
        rank.requests[event.request_id] = rank.post(False, False, **self.matched(rank, event))

    def complete_matched(self, rank: _Rank, event: _Event, now_s: float) -> None:
        if (posted := rank.requests.pop(event.request_id, None)) is not None:
            posted.update(bytes=event.msg_length, **self.over(rank, now_s))

    def sent(self, rank: _Rank, event: _Event, now_s: float) -> None:
        if (posted := rank.requests.pop(event.request_id, None)) is not None:
            posted.update(self.over(rank, now_s))

    def cancelled(self, rank: _Rank, event: _Event, _: float) -> None:
        if (posted := rank.requests.pop(event.request_id, None)) is not None:
            posted["is_cancelled"] = True

    def collective(self, rank: _Rank, event: _Event, call: int) -> None:
        """Note a collective; that of two groups is one of the ranks of both, the first group's first."""
        comm = event.communicator
        number, own, other = self.groups(rank, comm)
        if rank.number not in own:
            raise DataError(
                f"rank {rank.number} takes part in a collective of the communicator {str(comm.name)!r}, "
                "of which it is no member; the archive is damaged",
                code="damaged-file",
            )
        every = own if own is other else self.group(rank, comm.groupA) + self.group(rank, comm.groupB)
        rank.calls[call].update(
            context=number,
            bytes=event.size_sent,
            position=every.index(rank.number),
            root=other[event.root] if 0 <= event.root < len(other) else -1,
        )

    def begun(self, rank: _Rank, event: _Event, _: float) -> None:
        if (here := rank.here()) >= 0:
            rank.begun[event.request_id] = here

    def completed(self, rank: _Rank, event: _Event, _: float) -> None:
        first, here = rank.begun.pop(event.request_id, -1), rank.here()
        if first >= 0:
            self.collective(rank, event, first)
            if here >= 0:
                rank.calls[here]["ends"] = first

    def joined(self, rank: _Rank, event: _Event, _: float) -> None:
        here = rank.here()
        if here < 0:
            return
        self.collective(rank, event, here)
        for post in reversed(rank.posts):  # the messages that it is made of
            if post["call"] != here:
                break
            post["is_cancelled"] = True
