"""OTF2 archives, which Vampir, Scalasca and Pipit read: written by the library's own bindings."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import METHODS, REQUESTS
from labkit.errors import DataError
from labkit.timing.clocks import Clocks
from labkit.trace.exchange.events import CALL, COMPUTATION, WAIT, Events
from labkit.trace.phases import NO_PHASE, Entry
from labkit.trace.waiting.kinds import STARTS, CallKinds, base_of, is_begun, patterns_of
from labkit.trace.waiting.tables import wait_columns
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.exchange.events import Events
    from labkit.trace.recorded_run import RecordedRun

__all__ = ["NO_REGION", "WITHIN_CALLS", "check_archive", "read_otf2", "write_otf2"]


_ENDS = frozenset(row.name for row in REQUESTS)


_STARTS = frozenset({"Start", "Startall"})
#: waits and tests for one request, in small letters
_SINGLE = frozenset({"wait", "test", "waitany", "testany"})


class Begun(NamedTuple):
    """Messages of `Events` that were begun, by number.

    Attributes
    ----------
    sent : dict of int to int
        Row of the call in which the send was complete.
    received : dict of int to int
        Row of the call that began the receive.
    ended : dict of int to int
        Row of the call in which such a receive was complete.
    sent_ns : dict of int to int
        When a send was complete for which a call waited.
    """

    sent: dict[int, int]
    received: dict[int, int]
    ended: dict[int, int]
    sent_ns: dict[int, int]


def begun_messages(events: Events) -> Begun:
    """Find the sends and receives that a call only begins.

    A send is complete in the call that waited for it; one that no rank waited for, in the call that began it.
    """
    calls = events.run.trace.calls
    if calls is None or not len(calls):
        return Begun({}, {}, {}, {})
    names = [str(name) for name in calls["call"]]
    lower = [name.lower() for name in names]
    sends = [
        (one.startswith("i") and one.endswith("send")) or name in _STARTS
        for one, name in zip(lower, names, strict=True)
    ]
    waited = _waited(events)
    numbers = zip(events.sent_in.tolist(), events.message.tolist(), strict=True)
    sent, sent_ns = {}, {}
    for at, (call, row) in enumerate(numbers):
        if call >= 0 and sends[call]:
            sent[at] = call
            if row in waited:
                sent[at], sent_ns[at] = waited[row]
    begun = _begun_requests(events, names)
    ended = _ended(events, names, begun, sent.values())
    return Begun(sent, {at: begun[at] for at in ended}, ended, sent_ns)


def _waited(events: Events) -> dict[int, tuple[int, int]]:
    """Return by row of `Trace.messages` the call in which its sender waited for it, and until when in ns."""
    trace = events.run.trace
    waits = trace.waits[trace.waits["message"] >= 0]
    rows = waits["message"].to_numpy(np.int64)
    source = trace.messages["source"].to_numpy(np.int64)
    own = waits["rank"].to_numpy(np.int64) == source[rows]
    waits, rows = waits[own], rows[own]
    middle = (waits["begin_s"].to_numpy() + waits["end_s"].to_numpy()) / 2
    found = calls_at(trace.calls, source[rows], middle).tolist()
    until = np.rint(waits["end_s"].to_numpy(np.float64) * 1e9).astype(np.int64).tolist()
    return {row: (call, ns) for row, call, ns in zip(rows.tolist(), found, until, strict=True) if call >= 0}


def _begun_requests(events: Events, names: list[str]) -> dict[int, int]:
    """Return by message that a call did not receive itself the call that had begun the receive."""
    trace = events.run.trace
    posted_s = trace.messages["recv_posted_s"].to_numpy(np.float64)[events.message]
    last = calls_at(trace.calls, events.destination, posted_s).tolist()
    rank, begin, end = (trace.calls[name].tolist() for name in ("rank", "begin_s", "end_s"))
    own = trace.is_own[events.message].tolist()
    # A call that receives at once: what is over last in it of what was posted in it.
    at_once = {
        row: at
        for at, row in enumerate(events.received_in.tolist())
        if row >= 0 and "recv" in names[row].lower() and begin[row] <= posted_s[at] <= end[row] and own[at]
    }
    plain = set(at_once.values())
    found: dict[int, int] = {}
    used: set[int] = set()
    for at in np.lexsort((np.arange(len(posted_s)), posted_s)).tolist()[::-1]:
        row = last[at]
        if at in plain or not own[at]:
            continue
        while row >= 0 and rank[row] == events.destination[at] and begin[row] <= posted_s[at] <= end[row]:
            if names[row] in _STARTS or (names[row].lower() == "irecv" and row not in used):
                found[at] = row
                used.add(row)
                break
            row -= 1  # calls that take no time
    return found


def _ended(events: Events, names: list[str], begun: dict[int, int], taken: Iterable[int]) -> dict[int, int]:
    """Return by message whose receive was begun the call in which it was complete.

    That is the call that waited for it, or the rank's first wait or test from then on; of those for a single
    request each takes one.
    """
    calls = events.run.trace.calls
    rank, end = calls["rank"].to_numpy(), calls["end_s"].to_numpy()
    ends = np.flatnonzero(calls["call"].isin(_ENDS).to_numpy())
    when_s = events.run.trace.messages["end_s"].to_numpy(np.float64)[events.message].tolist()
    borders = np.searchsorted(rank[ends], np.arange(events.run.ranks + 1)).tolist()
    rows, over_s = ends.tolist(), end[ends].tolist()
    received, destination = events.received_in.tolist(), events.destination.tolist()
    found = {at: received[at] for at in begun if received[at] >= 0 and names[received[at]] in _ENDS}
    used = {row for row in (*found.values(), *taken) if names[row].lower() in _SINGLE}
    for at in sorted(begun.keys() - found.keys(), key=lambda one: begun[one]):
        low, high = borders[destination[at]], borders[destination[at] + 1]
        place = max(bisect_right(rows, begun[at], low, high), bisect_left(over_s, when_s[at], low, high))
        while place < high and rows[place] in used:
            place += 1
        if place < high:
            found[at] = rows[place]
            if names[rows[place]].lower() in _SINGLE:
                used.add(rows[place])
    return found


def endings(run: RecordedRun) -> dict[int, int]:
    """Return by row of the call that began a collective the row of the wait or test that ended it.

    That is the call that waited for it. Of one that no rank waited for, because it was over before, it is the
    rank's first wait or test from then on. One that never ended is left out.
    """
    calls = run.trace.calls
    if calls is None or not len(calls):
        return {}
    _, is_begun = patterns_of(calls["call"].to_numpy())
    begun = np.flatnonzero((is_begun > 0) & (calls["joint"].to_numpy() >= 0))
    if not len(begun):
        return {}
    rank, begin_s, end_s = (calls[name].to_numpy() for name in ("rank", "begin_s", "end_s"))
    over = dict(zip(begun.tolist(), end_s[begun].tolist(), strict=True))
    blocked = wait_columns(run.trace, run.phases, CallKinds(calls))[0]["blocked"]
    for row, until in zip(blocked["begun"].tolist(), blocked["end_s"].tolist(), strict=True):
        if row in over:
            over[row] = max(over[row], until)
    ends = np.flatnonzero(calls["call"].isin(_ENDS).to_numpy())
    ends = ends[np.lexsort((begin_s[ends], rank[ends]))]
    found = {}
    for row, until in over.items():
        own = ends[np.searchsorted(rank[ends], rank[row]) : np.searchsorted(rank[ends], rank[row], "right")]
        own = own[(begin_s[own] >= end_s[row]) & (end_s[own] >= until)]
        if len(own):
            found[row] = int(own[0])
    return found


_ENTER, _LEAVE, _SEND, _RECEIVE = range(4)
#: a second
_TICKS = 1_000_000_000_000
#: what the library holds of each rank, in bytes: the least that it takes
_CHUNK = 256 * 1024
#: descriptions of regions that labkit has found itself: neither phases nor calls
NO_REGION = {COMPUTATION: "time between calls", WAIT: "wait state found by labkit"}
#: property of the machine: messages are complete when their events say so, not when a call returned
WITHIN_CALLS = "labkit::messages_complete_within_calls"
_UNDEFINED = 0xFFFFFFFF


def write_otf2(path: Path, events: Events) -> list[Path]:
    """Write an archive, a folder that is not there yet: ``traces.otf2``, definitions, events of each rank.

    A host is a node of the system tree, a rank a location group of one location; wait states are regions in
    the calls that wait. Times are exact to the nanosecond; a tick is a picosecond, so that no two events of
    a rank share one. What was left out stands in the archive's description. A collective that a call only
    begins is requested there and complete in the call that ended it; its messages, which go on beside the
    ranks' calls, are not written. So are nonblocking sends and receives.

    References
    ----------
    .. [1] D. Eschweiler, M. Wagner, M. Geimer, A. Knüpfer, W. E. Nagel, F. Wolf: Open Trace Format 2. ParCo
       2011. doi:10.3233/978-1-61499-041-3-481
    """
    try:
        import otf2
    except ImportError as error:
        raise DataError(
            f"an OTF2 archive needs the package otf2 ({error}): pip install otf2, or labkit's extra otf2"
        ) from None
    with otf2.writer.open(
        str(path), timer_resolution=_TICKS, chunk_size_events=_CHUNK, chunk_size_definitions=_CHUNK
    ) as archive:
        archive.creator = "labkit"
        archive.machine_name = events.run.on
        archive.description = "; ".join(f"{name}: {value}" for name, value in events.facts().items())
        _write(otf2, archive, events)
    return [path / "traces.otf2"]


def check_archive(path: Path) -> None:
    """Refuse a place where an archive would replace something else than an archive."""
    if path.exists() and not path.is_dir():
        raise DataError(f"an OTF2 archive is a folder, and {str(path)!r} is a file; give another name")
    if path.is_dir() and any(path.iterdir()) and not (path / "traces.otf2").is_file():
        raise DataError(f"the folder {str(path)!r} holds something else than an archive; give another name")


def _write(otf2: Any, archive: Any, events: Events) -> None:  # noqa: C901
    known = archive.definitions
    kinds = dict(zip(events.name.tolist(), events.kind.tolist(), strict=True))
    regions = {}
    for number, kind in kinds.items():
        role = otf2.RegionRole.CODE if kind in (CALL, WAIT) else otf2.RegionRole.FUNCTION
        paradigm = otf2.Paradigm.MPI if kind in (CALL, WAIT) else otf2.Paradigm.USER
        regions[number] = known.region(
            events.names[number], description=NO_REGION.get(kind, ""), region_role=role, paradigm=paradigm
        )
    root = known.system_tree_node(events.run.on, class_name="machine")
    if events.run.trace.clocks is None:  # a library tells it of all that a call waited for at once
        known.system_tree_node_property(root, WITHIN_CALLS, value="yes")
    setting = events.run.trace.setting
    hosts = setting[0].rank_hosts(events.run.ranks).tolist() if setting else [0] * events.run.ranks
    nodes = {
        host: known.system_tree_node(f"host {host}", class_name="node", parent=root)
        for host in dict.fromkeys(hosts)
    }
    places = []
    for rank in range(events.run.ranks):
        group = known.location_group(f"rank {rank}", system_tree_parent=nodes[hosts[rank]])
        places.append(known.location(f"rank {rank}", group=group))
    writers = [archive.event_writer_from_location(place) for place in places]
    known.group("", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=otf2.Paradigm.MPI, members=places)
    world = known.comm(
        "world",
        known.group(
            "world", group_type=otf2.GroupType.COMM_GROUP, paradigm=otf2.Paradigm.MPI, members=places
        ),
    )
    collectives = _collectives(otf2, known, events, places)
    begun = _begun(events, collectives)
    requested = {first for over in begun.values() for first in over}
    is_beside = _beside(events).tolist()
    slices = {int(events.row[at]): int(at) for at in np.flatnonzero(events.kind == CALL)}
    messages = begun_messages(events)
    opens, closes = _by_slice(messages.received, slices), _by_slice(messages.sent, slices)
    sends, receives = ({one for own in by.values() for one in own} for by in (closes, opens))
    # What came before the call that waited for it is complete when that begins.
    before = {at: row for at, row in messages.ended.items() if row != events.received_in[at]}
    at_once = _by_slice(before, slices)
    first_id, number = len(events.rank), len(events.source)  # behind those of collectives
    complete = _within(events, closes, messages.sent_ns)
    times, parts, *rest = events.sequence()
    columns = (column.tolist() for column in (times * 1000 + parts, *rest))
    tags, sizes = events.tag.tolist(), events.bytes.tolist()
    source, destination = events.source.tolist(), events.destination.tolist()
    names = events.name.tolist()
    for when, what, at, rank in zip(*columns, strict=True):
        writer = writers[rank]
        while complete[rank] and complete[rank][-1][0] < when:
            ended, one = complete[rank].pop()
            writer.mpi_isend_complete(ended, first_id + one)
        if what == _ENTER:
            writer.enter(when, regions[names[at]])
            for one in opens.get(at, ()):
                writer.mpi_irecv_request(when, first_id + number + one)
            if at in requested:
                writer.non_blocking_collective_request(when, at)
            elif at in collectives:
                writer.mpi_collective_begin(when)
            for one in at_once.get(at, ()):
                envelope = (source[one], world, tags[one] & 0xFFFFFFFF, sizes[one])
                writer.mpi_irecv(when, *envelope, first_id + number + one)
        elif what == _LEAVE:
            for first in begun.get(at, ()):
                writer.non_blocking_collective_complete(when, *collectives[first], first)
            if at in collectives and at not in requested:
                writer.mpi_collective_end(when, *collectives[at])
            for one in closes.get(at, ()):
                writer.mpi_isend_complete(when, first_id + one)
            writer.leave(when, regions[names[at]])
        elif is_beside[at] or (what == _RECEIVE and at in before):
            continue
        else:
            peer = destination[at] if what == _SEND else source[at]
            envelope = (peer, world, tags[at] & 0xFFFFFFFF, sizes[at])
            if what == _SEND and at in sends:
                writer.mpi_isend(when, *envelope, first_id + at)
            elif what == _SEND:
                writer.mpi_send(when, *envelope)
            elif at in receives:
                writer.mpi_irecv(when, *envelope, first_id + number + at)
            else:
                writer.mpi_recv(when, *envelope)


def _within(
    events: Events, closes: dict[int, list[int]], sent_ns: dict[int, int]
) -> list[list[tuple[int, int]]]:
    """Take sends that are complete before their call ends; by rank, the last first: when in ticks, message.

    Those of a simulated run: of a real one it is not known. Behind all else of their nanosecond.
    """
    found: list[list[tuple[int, int]]] = [[] for _ in range(events.run.ranks)]
    if events.run.trace.clocks is not None:
        return found
    for at, own in closes.items():
        early = [one for one in own if sent_ns.get(one, events.end_ns[at]) < events.end_ns[at]]
        found[events.rank[at]] += [(sent_ns[one] * 1000 + 999, one) for one in early]
        closes[at] = [one for one in own if one not in early]
    return [sorted(own, reverse=True) for own in found]


def _by_slice(calls: dict[int, int], slices: dict[int, int]) -> dict[int, list[int]]:
    """Return messages by slice of their call; those whose call has none are left out."""
    found: dict[int, list[int]] = {}
    for one, row in calls.items():
        if row in slices:
            found.setdefault(slices[row], []).append(one)
    return found


def _collectives(otf2: Any, known: Any, events: Events, places: list[Any]) -> dict[int, tuple[Any, ...]]:
    """Return by slice of a call of a collective what its end says: operation, communicator, root, bytes."""
    calls = events.run.trace.calls
    if calls is None:
        return {}
    slices = {int(events.row[at]): int(at) for at in np.flatnonzero(events.kind == CALL)}
    joins = calls[calls["joint"] >= 0]
    comms: dict[tuple[int, ...], Any] = {}
    found: dict[int, tuple[Any, ...]] = {}
    for _, rows in joins.sort_values(["joint", "position"], kind="stable").groupby("joint", sort=False):
        members = tuple(rows["rank"].tolist())
        if members not in comms:
            group = known.group(
                f"group {len(comms)}",
                group_type=otf2.GroupType.COMM_GROUP,
                paradigm=otf2.Paradigm.MPI,
                members=[places[rank] for rank in members],
            )
            comms[members] = known.comm(f"communicator {len(comms)}", group)
        columns = (rows[name].tolist() for name in ("call", "root", "bytes"))
        for row, name, root, size in zip(rows.index, *columns, strict=True):
            if row in slices:
                at = members.index(root) if root in members else _UNDEFINED
                found[slices[row]] = (_operation(otf2, str(name)), comms[members], at, int(size), 0)
    return found


def _begun(events: Events, collectives: dict[int, tuple[Any, ...]]) -> dict[int, list[int]]:
    """Return by slice of a wait or test the slices of the calls that began what it ended.

    Begun collectives whose end has no slice are no collectives here.
    """
    slices = {int(events.row[at]): int(at) for at in np.flatnonzero(events.kind == CALL)}
    found: dict[int, list[int]] = {}
    over = {slices[row]: slices.get(end) for row, end in endings(events.run).items() if row in slices}
    for at in [at for at in collectives if is_begun(events.names[events.name[at]])]:
        end = over.get(at)
        if end is None:
            del collectives[at]
        else:
            found.setdefault(end, []).append(at)
    return found


def _beside(events: Events) -> NDArray[np.bool_]:
    """Return which messages are those of collectives that go on concurrently with the ranks' calls."""
    table = events.run.trace.messages
    if "send_operation" not in table:
        return np.zeros(len(events.message), bool)
    own = (table["send_operation"].to_numpy() >= 0) | (table["recv_operation"].to_numpy() >= 0)
    return np.asarray(own[events.message], bool)


def _operation(otf2: Any, name: str) -> Any:
    """Return OTF2's name of a collective; None for others, such as those that make communicators."""
    return getattr(otf2.CollectiveOp, base_of(name).upper(), otf2.CollectiveOp.CREATE_HANDLE)


# OTF2 archives in: what Score-P, and labkit itself, have recorded, as the notes of real ranks.


#: of calls and posts what a rank notes (`labkit.trace.recorder.timeline`), and its kind
_CALLS = {
    "begin_s": float, "end_s": float, "name": int, "place": int, "bytes": int, "context": int,
    "sequence": int, "root": int, "position": int, "ends": int, "phase": int,
}  # fmt: skip
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
_NO_CALL: dict[str, Any] = dict.fromkeys(_CALLS, -1) | {"end_s": float("nan"), "bytes": 0}
_NO_POST: dict[str, Any] = dict.fromkeys(_POSTS, -1) | {
    "is_cancelled": False,
    "bytes": 0,
    "done_s": float("nan"),
}
#: numbers of communicators begin behind those that a recorder has for the world and a rank alone
_FIRST = 4


#: events that say nothing beside others of the same call
_WITHOUT_CONTENT = ("MpiCollectiveBegin", "MpiRequestTest", "ProgramBegin", "ProgramEnd")


class Archive(NamedTuple):
    """What an archive holds.

    Attributes
    ----------
    timelines : list of dict
        By rank, as `labkit.trace.recorder.timeline.trace_of` takes them.
    spans : list of (float, float)
        First and last event of each rank, in seconds.
    phases : list of (int, str, float, float)
        Regions that are no calls of MPI: rank, name, begin and end, in seconds since the first event.
    clocks : Clocks
        Without samples: the archive's times are taken as they are.
    machine : str
        Its name in the archive.
    notes : list of str
        What was left out.
    """

    timelines: list[dict[str, Any]]
    spans: list[tuple[float, float]]
    phases: list[Entry]
    clocks: Clocks
    machine: str
    notes: list[str]


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
    #: calls that began a collective, by its request
    begun: dict[int, int] = field(default_factory=dict)
    phases: list[tuple[str, float, float, int]] = field(default_factory=list)
    first_s: float = float("inf")
    last_s: float = float("-inf")
    lost: int = 0

    def here(self) -> int:
        """Return the call that is going on, or -1."""
        return next((call for _, _, call in self.open if call >= 0), -1)

    def enter(self, region: Any, kind: str, now_s: float) -> None:
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

    def post(self, is_send: bool, done: bool, **what: Any) -> dict[str, Any]:
        here = self.here()
        if here < 0:
            self.lost += 1
        row = _NO_POST | {"is_send": is_send, "call": here, "done": here if done else -1} | what
        row["order"] = len(self.posts)
        if here >= 0:
            self.posts.append(row)
        return row

    def timeline(self) -> dict[str, Any]:
        """Return the notes; calls that never ended are over with the rank."""
        joined: dict[int, int] = {}
        for one in self.calls:
            one["end_s"] = self.last_s if np.isnan(one["end_s"]) else one["end_s"]
            if one["context"] >= 0:  # a collective: in the order of the calls that make or begin them
                one["sequence"] = joined[one["context"]] = joined.get(one["context"], -1) + 1
        tables: dict[str, Any] = {
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
    try:
        import otf2
    except ImportError as error:
        raise DataError(
            f"an OTF2 archive needs the package otf2 ({error}): pip install otf2, or labkit's extra otf2"
        ) from None
    anchor = path / "traces.otf2" if path.is_dir() else path
    if not anchor.is_file():
        raise DataError(f"there is no OTF2 archive: {str(anchor)!r} does not exist")
    try:
        with otf2.reader.open(str(anchor)) as archive:
            return _read(otf2, archive)
    except DataError:
        raise
    except Exception as error:  # the library raises errors of several kinds
        raise DataError(f"{str(anchor)!r} cannot be read: {type(error).__name__}: {error}") from error


def _read(otf2: Any, archive: Any) -> Archive:
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
    unused: Counter[str] = Counter()
    handlers = _handlers(otf2, ranks, within)
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
                f"tick {event.time} follows a later one; the archive is damaged"
            )
        rank.first_s, rank.last_s = min(rank.first_s, now_s), max(rank.last_s, now_s)
        handler = handlers.get(type(event))
        if handler is not None:
            handler(rank, event, now_s)
        elif type(event).__name__ not in _WITHOUT_CONTENT:
            unused[type(event).__name__] += 1
    rows = list(ranks.values())
    if zero is None:
        raise DataError("the archive has no event of a rank of MPI")
    for rank in rows:
        rank.first_s, rank.last_s = min(rank.first_s, rank.last_s, 0.0), max(rank.last_s, 0.0)
        while rank.open:
            rank.leave(rank.last_s)
    notes = _left_out(rows, others, unused)
    machine = next((str(node.name) for node in known.system_tree_nodes), "an archive")
    return Archive(
        [rank.timeline() for rank in rows],
        [(rank.first_s, rank.last_s) for rank in rows],
        [(rank.number, *phase) for rank in rows for phase in rank.phases],
        Clocks([[] for _ in rows]),
        machine,
        notes,
    )


def _left_out(rows: list[_Rank], others: int, unused: Counter[str]) -> list[str]:
    """Say what of an archive has no place in a trace, or no cause."""
    notes = [f"{others} events of locations that are no ranks of MPI are left out"] if others else []
    if unused:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(unused.items()))
        notes.append(f"events that labkit's traces have no place for are left out: {kinds}")
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


def _handlers(  # noqa: C901
    otf2: Any, ranks: dict[Any, _Rank], within: bool
) -> dict[Any, Callable[[_Rank, Any, float], None]]:
    """Return what is done with each kind of event.

    Messages are complete when their events say so if `within`. Else at the ends of their calls: of several
    that a call waited for, a tool learns of all at once.
    """
    events = otf2.events
    numbers: dict[Any, tuple[int, list[int]]] = {}
    kinds: dict[Any, str] = {}

    def kind_of(region: Any) -> str:
        if region not in kinds:
            is_call = region.paradigm == otf2.Paradigm.MPI
            is_nothing = region.description in NO_REGION.values()
            kinds[region] = "nothing" if is_nothing else "call" if is_call else "phase"
        return kinds[region]

    def ranks_of(comm: Any) -> tuple[int, list[int]]:
        """Return a communicator's number, and the ranks of its members."""
        if comm not in numbers:
            own = [ranks[one].number for one in comm.group.members if one in ranks]
            numbers[comm] = (_FIRST + 2 * len(numbers), own)
        return numbers[comm]

    def over(rank: _Rank, now_s: float) -> dict[str, Any]:
        return {"done": rank.here(), "done_s": round(now_s, 9) if within else float("nan")}

    def message(is_send: bool, done: bool) -> Callable[[_Rank, Any, float], None]:
        def note(rank: _Rank, event: Any, now_s: float) -> None:
            number, own = ranks_of(event.communicator)
            peer = event.receiver if is_send else event.sender
            what = {"peer": own[peer], "tag": event.msg_tag, "context": number, "bytes": event.msg_length}
            request: Any = getattr(event, "request_id", None)
            posted = None if is_send else rank.requests.pop(request, None)
            if posted is not None:
                posted.update(what, **over(rank, now_s))
                return
            row = rank.post(is_send, done, **what)
            if request is not None:
                rank.requests[request] = row

        return note

    def request(rank: _Rank, event: Any, _: float) -> None:
        rank.requests[event.request_id] = rank.post(False, False)

    def sent(rank: _Rank, event: Any, now_s: float) -> None:
        if (posted := rank.requests.pop(event.request_id, None)) is not None:
            posted.update(over(rank, now_s))

    def cancelled(rank: _Rank, event: Any, _: float) -> None:
        if (posted := rank.requests.pop(event.request_id, None)) is not None:
            posted["is_cancelled"] = True

    def collective(rank: _Rank, event: Any, call: int) -> None:
        number, own = ranks_of(event.communicator)
        rank.calls[call].update(
            context=number,
            bytes=event.size_sent,
            position=own.index(rank.number),
            root=own[event.root] if 0 <= event.root < len(own) else -1,
        )

    def begun(rank: _Rank, event: Any, _: float) -> None:
        if (here := rank.here()) >= 0:
            rank.begun[event.request_id] = here

    def completed(rank: _Rank, event: Any, _: float) -> None:
        first, here = rank.begun.pop(event.request_id, -1), rank.here()
        if first >= 0:
            collective(rank, event, first)
            if here >= 0:
                rank.calls[here]["ends"] = first

    def joined(rank: _Rank, event: Any, _: float) -> None:
        here = rank.here()
        if here < 0:
            return
        collective(rank, event, here)
        for post in reversed(rank.posts):  # the messages that it is made of
            if post["call"] != here:
                break
            post["is_cancelled"] = True

    return {
        events.Enter: lambda rank, event, now_s: rank.enter(event.region, kind_of(event.region), now_s),
        events.Leave: lambda rank, _, now_s: rank.leave(now_s),
        events.MpiSend: message(True, True),
        events.MpiIsend: message(True, False),
        events.MpiRecv: message(False, True),
        events.MpiIrecv: message(False, True),
        events.MpiIrecvRequest: request,
        events.MpiIsendComplete: sent,
        events.MpiRequestCancelled: cancelled,
        events.MpiCollectiveEnd: joined,
        events.NonBlockingCollectiveRequest: begun,
        events.NonBlockingCollectiveComplete: completed,
    }
