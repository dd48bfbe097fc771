"""OTF2 archives, which Vampir, Scalasca and Pipit read: written by the library's own bindings."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from labkit.comm.surface import REQUESTS
from labkit.errors import DataError
from labkit.trace.exchange.events import CALL, COMPUTATION, WAIT, Events
from labkit.trace.waiting.kinds import CallKinds, base_of, is_begun, patterns_of
from labkit.trace.waiting.tables import wait_columns
from labkit.trace.waiting.windows import calls_at

if TYPE_CHECKING:
    from labkit.trace.exchange.events import Events
    from labkit.trace.trace import RecordedRun

__all__ = ["NO_REGION", "WITHIN_CALLS", "check_archive", "otf2_package", "write_otf2"]


_ENDS = frozenset(row.name for row in REQUESTS)


_STARTS = frozenset({"Start", "Startall"})
#: waits and tests for one request, in small letters
_SINGLE = frozenset({"wait", "test", "waitany", "testany"})


class Begun(NamedTuple):
    """Messages of `Events` that were begun, by number.

    `sent`: Row of the call in which the send was complete.
    `received`: Row of the call that began the receive.
    `ended`: Row of the call in which such a receive was complete.
    `sent_ns`: When a send was complete for which a call waited.
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
    # A call that receives immediately: what is over last in it of what was posted in it.
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


def otf2_package() -> ModuleType:
    """Return the package otf2, which reads and writes archives."""
    try:
        import otf2
    except ImportError as error:
        raise DataError(
            f"an OTF2 archive needs the package otf2 ({error}): pip install otf2, or labkit's extra otf2",
            code="missing-package",
        ) from None
    package: ModuleType = otf2
    return package


def write_otf2(path: Path, events: Events) -> list[Path]:
    """Write an archive, a folder that is not there yet: ``traces.otf2``, definitions, events of each rank.

    A host is a node of the system tree, a rank a location group of one location; wait states are regions in
    the calls that wait. Times are exact to the nanosecond; a tick is a picosecond, so that no two events of
    a rank share one. What was left out stands in the archive's description. A collective that a call only
    begins is requested there and complete in the call that ended it; its messages, which continue next to the
    ranks' calls, are not written. So are nonblocking sends and receives.

    References
    ----------
    .. [1] D. Eschweiler, M. Wagner, M. Geimer, A. Knüpfer, W. E. Nagel, F. Wolf: Open Trace Format 2. ParCo
       2011. doi:10.3233/978-1-61499-041-3-481
    """
    otf2 = otf2_package()
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
        raise DataError(
            f"an OTF2 archive is a folder, and {str(path)!r} is a file; give another name",
            code="wrong-kind-of-file",
        )
    if path.is_dir() and any(path.iterdir()) and not (path / "traces.otf2").is_file():
        raise DataError(
            f"the folder {str(path)!r} holds something else than an archive; give another name",
            code="name-taken",
        )


def _define(otf2: ModuleType, known: Any, events: Events) -> tuple[dict[int, Any], list[Any], Any]:
    """Define regions, the ranks' places on hosts, and the communicator of all."""
    kinds = dict(zip(events.name.tolist(), events.kind.tolist(), strict=True))
    regions = {}
    for number, kind in kinds.items():
        role = otf2.RegionRole.CODE if kind in (CALL, WAIT) else otf2.RegionRole.FUNCTION
        paradigm = otf2.Paradigm.MPI if kind in (CALL, WAIT) else otf2.Paradigm.USER
        regions[number] = known.region(
            events.names[number], description=NO_REGION.get(kind, ""), region_role=role, paradigm=paradigm
        )
    root = known.system_tree_node(events.run.on, class_name="machine")
    if events.run.trace.clocks is None:  # a library reports it of all that a call waited for in one event
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
    known.group("", group_type=otf2.GroupType.COMM_LOCATIONS, paradigm=otf2.Paradigm.MPI, members=places)
    world = known.comm(
        "world",
        known.group(
            "world", group_type=otf2.GroupType.COMM_GROUP, paradigm=otf2.Paradigm.MPI, members=places
        ),
    )
    return regions, places, world


def _write(otf2: ModuleType, archive: Any, events: Events) -> None:  # noqa: C901
    known = archive.definitions
    regions, places, world = _define(otf2, known, events)
    writers = [archive.event_writer_from_location(place) for place in places]
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


def _collectives(
    otf2: ModuleType, known: Any, events: Events, places: Sequence[object]
) -> dict[int, tuple[object, ...]]:
    """Return by slice of a call of a collective what its end says: operation, communicator, root, bytes."""
    calls = events.run.trace.calls
    if calls is None:
        return {}
    slices = {int(events.row[at]): int(at) for at in np.flatnonzero(events.kind == CALL)}
    joins = calls[calls["joint"] >= 0]
    comms: dict[tuple[int, ...], object] = {}
    found: dict[int, tuple[object, ...]] = {}
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


def _begun(events: Events, collectives: dict[int, tuple[object, ...]]) -> dict[int, list[int]]:
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


def _operation(otf2: ModuleType, name: str) -> object:
    """Return OTF2's name of a collective; None for others, such as those that make communicators."""
    return getattr(otf2.CollectiveOp, base_of(name).upper(), otf2.CollectiveOp.CREATE_HANDLE)
