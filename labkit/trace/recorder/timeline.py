"""The trace of a real run, made of its ranks' notes: clocks aligned, messages matched, waits found.

What a real run tells is when calls began and ended. Of a wait it tells whom it was for, by the rule of late
senders and late receivers: a rank that receives, or probes, waits for the other side until that has posted
its send; one that sends waits, if its call lasts that long, until the receiver is in the call in which it
receives; and in a collective it waits until the last of those that it needs has come. From then on the
message or the collective itself is under way.

References
----------
.. [1] F. Wolf, B. Mohr: Automatic performance analysis of hybrid MPI/OpenMP applications. Journal of Systems
   Architecture 49, 2003. doi:10.1016/S1383-7621(03)00102-4
.. [2] D. Boehme et al.: Scalable critical-path based performance analysis. IPDPS 2012.
   doi:10.1109/IPDPS.2012.120
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labkit.timing.clocks import Clocks
from labkit.trace.beside import Beside
from labkit.trace.phases import PhaseClock
from labkit.trace.recorder.joints import join_calls, joint_waits
from labkit.trace.recorder.waits import call_waits
from labkit.trace.recorder.window_waits import targets_of, window_waits
from labkit.trace.recorder.windows import WindowCall
from labkit.trace.trace import Trace

__all__ = ["clocks_of", "trace_of"]

Columns = dict[str, NDArray[Any]]
#: of a recording that does not say what its probes found
_NO_PROBES = {name: np.empty(0, np.int64) for name in ("call", "peer", "tag", "context", "order")}


def clocks_of(times: Sequence[Mapping[str, Any]]) -> Clocks | None:
    """Return how the clocks of the ranks go, from what each noted; None of a run that was not recorded."""
    timelines = [one.get("timeline") for one in times]
    return None if None in timelines else Clocks([list(one["clock"]) for one in timelines if one is not None])


def trace_of(
    timelines: Sequence[Mapping[str, Any]],
    clocks: Clocks,
    spans: Sequence[tuple[float, float]],
    phases: Any,
) -> tuple[Trace, list[str]]:
    """Put the ranks' notes together.

    Parameters
    ----------
    timelines : sequence of mapping
        By rank what `labkit.trace.recorder.ledger.Ledger.timeline` returned, and ``clock``.
    clocks : Clocks
        Counts the violations that are found.
    spans : sequence of (float, float)
        When each rank entered and left the program, by the clock of rank 0; the trace begins with the first.
    phases : pandas.DataFrame
        `Run.phases`.

    Returns
    -------
    Trace, list of str
        And what there is to say of it.
    """
    import pandas as pd

    zero = min(begin for begin, _ in spans)
    calls, posts, probes, blocks, sources, windows = _together(timelines, clocks, zero)
    ends = [end - zero for _, end in spans]
    messages, unmatched = _matched(calls, posts)
    clocks.violations = int((messages["end_s"] < messages["send_posted_s"]).sum())
    names, joint = _words(timelines, calls, "name", "names"), join_calls(calls)
    waits = call_waits(calls, messages, probes, joint_waits(calls, joint, names, sources))
    begins = calls["begin_s"]
    table = pd.DataFrame({
        "rank": calls["rank"], "call": names, "bytes": calls["bytes"].astype(np.int64),
        "begin_s": begins, "end_s": calls["end_s"], "joint": joint,
        "root": calls["root"], "position": calls["position"],
        "place": _words(timelines, calls, "place", "places"),
    })  # fmt: skip
    if "phase" in calls:  # the order of an archive's events tells more than their times
        table["phase"] = _words(timelines, calls, "phase", "phases")
    else:
        table["phase"] = PhaseClock(phases).all_at(calls["rank"], begins)
    table["algorithm"] = ""  # the library does not tell
    for row, target in targets_of(windows, names).items():
        table.loc[row, "root"] = target
    beside = _beside(table, calls, waits)
    if beside is not None:
        for side in ("send_operation", "recv_operation"):
            messages[side] = np.full(len(messages["bytes"]), -1)
    work = _between(calls, [(begin - zero, end - zero) for begin, end in spans])
    trace = Trace(
        pd.DataFrame(messages), pd.DataFrame(waits), pd.DataFrame(work), ends, None, beside, table, clocks,
        [begin - zero for begin, _ in spans],
    )  # fmt: skip
    trace.blocks = blocks
    trace.call_cost_s = [float(one.get("call_cost_s") or 0.0) for one in timelines]
    trace.given_waits = window_waits(calls, names, windows)
    if count := clocks.violations:
        plural = "s end before they begin" if count > 1 else " ends before it begins"
        unmatched.append(f"{count} message{plural}: the ranks' clocks differ by more than was corrected")
    remarks = dict.fromkeys(remark for one in timelines for remark in one["notes"])
    return trace, [*unmatched, *remarks]


def _together(
    timelines: Sequence[Mapping[str, Any]], clocks: Clocks, zero: float
) -> tuple[
    Columns, Columns, Columns, dict[int, list[int]], dict[tuple[int, int], list[int]], list[WindowCall]
]:  # fmt: skip
    """Return the calls, the posts and the probes of all ranks, each one's own by rows of the whole.

    And by rows of calls their blocks, by rank and communicator whom the rank hears as its neighbours, and the
    calls on windows.
    """
    contexts: dict[Any, int] = {"world": 0}
    calls: dict[str, list[Any]] = {}
    posts: dict[str, list[Any]] = {}
    probes: dict[str, list[Any]] = {}
    blocks: dict[int, list[int]] = {}
    sources: dict[tuple[int, int], list[int]] = {}
    windows: list[WindowCall] = []
    first = 0
    for rank, one in enumerate(timelines):
        # A rank's numbers of communicators, and the run's: the same for all of a communicator's ranks.
        known = {-1: -1, 0: 0, 2: contexts.setdefault(("self", rank), len(contexts))}
        for number, key in one["communicators"].items():
            known[int(number)] = contexts.setdefault(key, len(contexts))
        count = len(one["calls"]["begin_s"])
        own = {name: np.asarray(column) for name, column in one["calls"].items()}
        for name in ("begin_s", "end_s"):
            own[name] = clocks.corrected(rank, own[name]) - zero
        own["ends"] = np.where(own["ends"] >= 0, own["ends"] + first, -1)
        own |= {"rank": np.full(count, rank), "context": _renumbered(own["context"], known)}
        sent = {name: np.asarray(column) for name, column in one["posts"].items()}
        sent["done"] = np.where(sent["done"] >= 0, sent["done"] + first, -1)
        if "done_s" in sent:  # an archive may tell when, within the call
            sent["done_s"] = clocks.corrected(rank, sent["done_s"]) - zero
        seen = {name: np.asarray(column) for name, column in one.get("probes", _NO_PROBES).items()}
        for part in (sent, seen):
            part["call"] = part["call"] + first
            context = _renumbered(part["context"], known)
            part |= {"rank": np.full(len(part["call"]), rank), "context": context}
        for whole, part in ((calls, own), (posts, sent), (probes, seen)):
            for name, column in part.items():
                whole.setdefault(name, []).append(column)
        blocks |= {first + number: counts for number, counts in one["blocks"].items()}
        sources |= {(rank, known[int(number)]): heard for number, heard in one.get("sources", {}).items()}
        for number, window, *who in one.get("windows", ()):
            windows.append(WindowCall(first + number, known[window], *who))
        first += count
    of_calls, of_posts, of_probes = (
        {name: np.concatenate(columns) for name, columns in whole.items()} for whole in (calls, posts, probes)
    )
    return of_calls, of_posts, of_probes, blocks, sources, windows


def _renumbered(numbers: NDArray[Any], known: Mapping[int, int]) -> NDArray[np.int64]:
    distinct, place = np.unique(numbers, return_inverse=True)
    return np.array([known[int(number)] for number in distinct], np.int64)[place]


def _words(
    timelines: Sequence[Mapping[str, Any]], calls: Columns, column: str, words: str
) -> NDArray[np.object_]:
    found = np.empty(len(calls["rank"]), object)
    for rank, one in enumerate(timelines):
        own = calls["rank"] == rank
        known = np.array([*one[words], ""], object)
        found[own] = known[calls[column][own]]
    return found


def _matched(calls: Columns, posts: Columns) -> tuple[Columns, list[str]]:
    """Match sends and receives: of a pair of ranks, a communicator and a tag, in the order of the posts."""
    alive = ~posts["is_cancelled"]
    sends = np.flatnonzero(posts["is_send"] & alive)
    receives = np.flatnonzero(~posts["is_send"] & alive & (posts["done"] >= 0))
    keys = []
    for rows, source, destination in ((sends, "rank", "peer"), (receives, "peer", "rank")):
        ends = [posts[name][rows].astype(np.int64) for name in (source, destination, "context", "tag")]
        order = np.lexsort((posts["order"][rows], *ends))
        ends = [column[order] for column in ends]
        changed = np.ones(len(rows), bool)
        if len(rows):
            changed[1:] = np.any([np.diff(column) != 0 for column in ends], axis=0)
        begin = np.maximum.accumulate(np.where(changed, np.arange(len(rows)), 0))
        keys.append(
            (
                rows[order],
                list(zip(*(c.tolist() for c in (*ends, np.arange(len(rows)) - begin)), strict=True)),
            )
        )
    (sends, of_send), (receives, of_receive) = keys
    row_of = dict(zip(of_receive, receives.tolist(), strict=True))
    got = np.array([row_of.get(key, -1) for key in of_send], np.int64)
    said = []
    if lost := int((got < 0).sum()):
        said.append(f"{lost} messages were never received, or not by a call that is noted")
    if extra := len(receives) - int((got >= 0).sum()):
        said.append(f"{extra} receives are of messages whose sends were not noted")
    sends, got = sends[got >= 0], got[got >= 0]
    posted, taken = calls["begin_s"][posts["call"][sends]], calls["begin_s"][posts["done"][got]]
    end = _done_s(calls, posts, got)
    sent = np.where(posts["done"][sends] >= 0, _done_s(calls, posts, sends), np.inf)
    order = np.argsort(end, kind="stable")
    messages: Columns = {
        "source": posts["rank"][sends], "destination": posts["rank"][got], "tag": posts["tag"][sends],
        "context": posts["context"][sends], "bytes": posts["bytes"][sends].astype(np.int64),
        "send_posted_s": posted, "recv_posted_s": calls["begin_s"][posts["call"][got]],
        "start_s": np.where(sent <= taken, posted, np.minimum(np.maximum(posted, taken), end)),
        "arrived_s": np.full(len(sends), np.nan), "end_s": end,
        "_sent": posts["done"][sends], "_got": posts["done"][got], "_order": posts["order"][got],
        "_sent_s": sent,
    }  # fmt: skip
    return {name: column[order] for name, column in messages.items()}, said


def _done_s(calls: Columns, posts: Columns, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return when posts were over: at the end of their calls, where the notes do not say more."""
    end: NDArray[np.float64] = calls["end_s"][posts["done"][rows]]
    if "done_s" in posts:
        said = posts["done_s"][rows]
        end = np.where(np.isfinite(said), np.minimum(said, end), end)
    return end


def _between(calls: Columns, spans: Sequence[tuple[float, float]]) -> Columns:
    """Return the times between a rank's calls: it computes."""
    rank, begins, ends = [], [], []
    for number, (first, last) in enumerate(spans):
        own = calls["rank"] == number
        begin = np.clip(np.append(first, calls["end_s"][own]), first, last)
        end = np.clip(np.append(calls["begin_s"][own], last), first, last)
        some = end > begin
        rank.append(np.full(int(some.sum()), number))
        begins.append(begin[some])
        ends.append(end[some])
    return {name: np.concatenate(c) for name, c in (("rank", rank), ("begin_s", begins), ("end_s", ends))}


def _beside(table: Any, calls: Columns, waits: Columns) -> Beside | None:
    """Return the nonblocking collectives: from their calls to the ends of the calls that ended them."""
    import pandas as pd

    ended = np.flatnonzero(calls["ends"] >= 0)
    begun = calls["ends"][ended]
    if not len(begun):
        return None
    operations = pd.DataFrame({
        "rank": calls["rank"][begun], "name": table["call"].to_numpy()[begun],
        "begin_s": calls["begin_s"][begun], "end_s": calls["end_s"][ended],
    }).sort_values("begin_s", kind="stable", ignore_index=True)  # fmt: skip
    return Beside(operations, pd.DataFrame({**waits, "operation": np.full(len(waits["rank"]), -1)}))
