"""From the notes of real ranks to a trace: hand-made notes, whatever their clocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.result import phase_frame
from labkit.timing.clocks import Clocks, ClockSample
from labkit.trace.activity import STATES, activity
from labkit.trace.explanation import critical_path
from labkit.trace.recorder.timeline import trace_of

_CALL = {
    "name": 0,
    "place": -1,
    "bytes": 0,
    "context": -1,
    "sequence": -1,
    "root": -1,
    "position": -1,
    "ends": -1,
}
_NAMES = ["Send", "Recv", "Allreduce", "Bcast", "Isend", "Wait", "Probe", "Sendrecv", "Neighbor_alltoall"]
KINDS = [state.name for state in STATES]


class Notes:
    """What one rank notes; its clock is wrong by an offset and a drift."""

    def __init__(self, rank: int, offset: float = 0.0, drift: float = 0.0) -> None:
        self.rank, self.offset, self.drift = rank, offset, drift
        self.now = 0.0
        self.calls: list[dict[str, Any]] = []
        self.posts: list[dict[str, Any]] = []
        self.probes: list[dict[str, int]] = []
        self.sources: dict[int, list[int]] = {}
        self.joined = 0

    def clock(self, t: float) -> float:
        return (t + self.offset) * (1 + self.drift)

    def call(self, name: str, begin: float, end: float, **more: Any) -> int:
        row = {
            **_CALL,
            "name": _NAMES.index(name),
            "begin_s": self.clock(begin),
            "end_s": self.clock(end),
            **more,
        }
        self.calls.append(row)
        self.now = end
        return len(self.calls) - 1

    def post(self, is_send: bool, peer: int, tag: int, n_bytes: int, call: int, done: int) -> None:
        self.posts.append({
            "call": call, "done": done, "peer": peer, "tag": tag, "context": 0, "bytes": n_bytes,
            "order": len(self.posts), "is_send": is_send, "is_cancelled": False,
        })  # fmt: skip

    def probe(self, peer: int, tag: int, call: int) -> None:
        order = len(self.posts) - 0.5  # before what is posted from now on
        self.probes.append({"call": call, "peer": peer, "tag": tag, "context": 0, "order": order})

    def timeline(self, end: float) -> dict[str, Any]:
        samples = [ClockSample(self.clock(t), t - self.clock(t), 1e-9) for t in (-1.0, end + 1.0)]
        posted = ["call", "done", "peer", "tag", "context", "bytes", "order", "is_send", "is_cancelled"]
        found = ["call", "peer", "tag", "context", "order"]
        names = {"calls": [*_CALL, "begin_s", "end_s"], "posts": posted, "probes": found}
        return {
            **{kind: {name: np.array([row[name] for row in getattr(self, kind)],
                                     bool if name.startswith("is_") else None) for name in columns}
               for kind, columns in names.items()},
            "names": _NAMES, "places": [], "communicators": {}, "notes": [], "clock": samples, "blocks": {},
            "sources": self.sources,
        }  # fmt: skip


def put_together(ranks: list[Notes]) -> Any:
    end = max(one.now for one in ranks)
    timelines = [one.timeline(end) for one in ranks]
    for one in timelines:
        for columns in (one["calls"], one["posts"], one["probes"]):
            for name, column in columns.items():
                if not len(column):
                    columns[name] = column.astype(bool if name.startswith("is_") else np.int64)
    clocks = Clocks([one["clock"] for one in timelines])
    return trace_of(timelines, clocks, [(0.0, one.now) for one in ranks], phase_frame())


def play(moves: list[tuple[int, int, int]], ranks: list[Notes]) -> None:
    """Messages (and, from a rank to itself, collectives) one after another, without what cannot be.

    No two things happen at the same time: by which of them came first, clocks would have to be exact.
    """
    for number, (source, destination, units) in enumerate(moves):
        apart = [5e-5 * ((0.618034 * (4 * number + rank + 1)) % 1.0) for rank in range(4)]
        think = units * 1e-3
        if source == destination:
            begins = [one.now + think * (1 + one.rank) + apart[one.rank] for one in ranks]
            for one, begin in zip(ranks, begins, strict=True):
                more = {"context": 0, "sequence": one.joined, "position": one.rank}
                one.call("Allreduce", begin, max(begins) + 1e-4, **more)
                one.joined += 1
            continue
        sender, receiver = ranks[source], ranks[destination]
        sent, taken = sender.now + think + apart[source], receiver.now + think / 2 + apart[destination]
        out = sender.call("Send", sent, sent + 1e-5)
        sender.post(True, destination, units % 2, 8 * units, out, out)
        into = receiver.call("Recv", taken, max(sent, taken) + 5e-5)
        receiver.post(False, source, units % 2, 8 * units, into, into)


moves = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 50)), max_size=25)
wrong = st.lists(
    st.tuples(st.floats(-1e4, 1e4).filter(lambda x: abs(x) > 1.0), st.floats(-1e-4, 1e-4)),
    min_size=3,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(moves=moves, wrong=wrong)
def test_a_trace_is_the_same_whatever_the_clocks(moves, wrong) -> None:
    right = [Notes(rank) for rank in range(4)]
    skewed = [Notes(0), *(Notes(rank + 1, *one) for rank, one in enumerate(wrong))]
    traces = []
    for ranks in (right, skewed):
        play(moves, ranks)
        traces.append(put_together(ranks)[0])
    one, other = traces
    assert len(one) == len(other) == sum(a != b for a, b, _ in moves)
    assert one.clocks.violations == 0
    for mine, theirs in ((one.messages, other.messages), (one.waits, other.waits), (one.calls, other.calls)):
        numbers = ("message", "call", "joint", "origin")
        keys = [name for name in mine.select_dtypes("int64") if name not in numbers]
        by = ["rank" if "rank" in mine else "source", "begin_s" if "begin_s" in mine else "send_posted_s"]
        mine, theirs = (table.sort_values(by, ignore_index=True) for table in (mine, theirs))
        for name in mine.select_dtypes("float64"):
            assert theirs[name].to_numpy() == pytest.approx(mine[name].to_numpy(), abs=1e-6, nan_ok=True)
        for name in keys:
            assert sorted(mine[name]) == sorted(theirs[name])


@settings(max_examples=60, deadline=None)
@given(moves=moves)
def test_intervals_are_in_order_and_the_path_has_no_gap(moves) -> None:
    ranks = [Notes(rank) for rank in range(4)]
    play(moves, ranks)
    trace, said = put_together(ranks)
    assert not said
    what = activity(trace)
    for rank in range(4):
        rows = what.rank == rank
        begin, end = what.begin_s[rows], what.end_s[rows]
        if len(begin):
            assert begin[0] == 0.0
            assert (begin[1:] == end[:-1]).all()
            assert end[-1] == trace.ends_s[rank] <= what.makespan_s
    now = 0.0
    for step in critical_path(trace):
        assert step.begin_s == pytest.approx(now)
        assert step.end_s >= step.begin_s
        now = step.end_s
    assert now == pytest.approx(max(trace.ends_s))


def spent(trace: Any, rank: int) -> dict[str, float]:
    what = activity(trace)
    rows = what.rank == rank
    seconds = np.bincount(what.kind[rows], (what.end_s - what.begin_s)[rows], len(KINDS))
    return {name: round(float(s), 6) for name, s in zip(KINDS, seconds, strict=True) if s > 0}


def test_late_sender_late_receiver_and_a_message_that_was_there() -> None:
    a, b = Notes(0), Notes(1)
    first = a.call("Send", 2.0, 2.5)  # it comes 1 s after its receiver
    a.post(True, 1, 0, 8, first, first)
    got = b.call("Recv", 1.0, 2.6)
    b.post(False, 0, 0, 8, got, got)
    second = a.call("Send", 3.0, 7.0)  # it waits for its receiver, which comes at 6
    a.post(True, 1, 0, 8, second, second)
    got = b.call("Recv", 6.0, 7.0)
    b.post(False, 0, 0, 8, got, got)
    third = a.call("Isend", 7.0, 7.1)  # it is there when its receiver comes
    a.post(True, 1, 0, 8, third, -1)
    got = b.call("Recv", 9.0, 9.5)
    b.post(False, 0, 0, 8, got, got)
    trace, said = put_together([a, b])
    assert not said
    assert spent(trace, 1) == {"computing": 6.4, "message under way": 2.1, "late sender": 1.0}
    assert spent(trace, 0) == {
        "computing": 2.5, "start-ups and calls": 0.1, "message under way": 1.5, "late receiver": 3.0,
    }  # fmt: skip
    path = [(step.kind, step.rank, step.begin_s, step.end_s) for step in critical_path(trace)]
    assert path[0] == ("computation", 0, 0.0, 2.0)
    assert ("computation", 1, 2.6, 6.0) in path, "the second message waited for its receiver"
    assert ("computation", 1, 7.0, 9.0) in path, "the third was there"


def test_a_probe_waits_for_the_message_that_is_received_next() -> None:
    a, b = Notes(0), Notes(1)
    for when in (1.0, 4.0):
        sent = a.call("Send", when, when + 0.1)
        a.post(True, 1, 0, 8, sent, sent)
    first = b.call("Recv", 1.5, 1.6)  # the first message: it is not the probe's
    b.post(False, 0, 0, 8, first, first)
    b.probe(0, 0, b.call("Probe", 2.0, 4.2))
    got = b.call("Recv", 5.0, 5.1)
    b.post(False, 0, 0, 8, got, got)
    trace, said = put_together([a, b])
    assert not said
    own = trace.waits[(trace.waits["rank"] == 1) & (trace.waits["begin_s"] == 2.0)]
    assert own[["end_s", "ready_s", "origin", "message"]].to_numpy().tolist() == [[4.2, 4.0, 0, 1]]
    assert spent(trace, 1)["late sender"] == 2.0


@pytest.mark.parametrize(("partner", "receiver", "waits"), [
    (3.0, 1.0, [("late sender", 2.0)]),
    (3.0, 3.0, [("late sender", 2.0)]),
    (3.0, 3.5, [("late sender", 2.0), ("late receiver", 0.5)]),
    (0.5, 3.5, [("late receiver", 2.5)]),
    (3.0, 6.0, [("late sender", 2.0)]),
])  # fmt: skip
def test_an_exchange_waits_for_its_sender_then_for_its_receiver(partner, receiver, waits) -> None:
    me, sender, taker = Notes(0), Notes(1), Notes(2)
    own = me.call("Sendrecv", 1.0, 4.0)
    me.post(True, 2, 0, 8, own, own)
    me.post(False, 1, 0, 8, own, own)
    sent = sender.call("Send", partner, partner + 0.1)
    sender.post(True, 0, 0, 8, sent, sent)
    got = taker.call("Recv", receiver, receiver + 2.0)
    taker.post(False, 0, 0, 8, got, got)
    trace, _ = put_together([me, sender, taker])
    found = spent(trace, 0)
    assert [(name, found[name]) for name in ("late sender", "late receiver") if name in found] == waits


def test_a_rank_waits_for_its_neighbors_alone() -> None:
    ranks = [Notes(rank) for rank in range(4)]
    for rank, begin in enumerate((1.0, 2.0, 5.0, 9.0)):
        ranks[rank].sources = {0: [(rank + 3) % 4, rank]}
        ranks[rank].call("Neighbor_alltoall", begin, 9.5, context=0, sequence=0, position=rank)
    trace, _ = put_together(ranks)
    found = [spent(trace, rank).get("wait at a collective", 0.0) for rank in range(4)]
    assert found == [8.0, 0.0, 0.0, 0.0]


def test_a_root_that_gives_waits_for_nobody_and_the_others_for_it() -> None:
    ranks = [Notes(rank) for rank in range(3)]
    for rank, (begin, end) in enumerate(((1.0, 1.1), (0.5, 1.2), (3.0, 3.1))):
        ranks[rank].call("Bcast", begin, end, context=0, sequence=0, root=0, position=rank)
    trace, _ = put_together(ranks)
    assert spent(trace, 0) == {"computing": 1.0, "collective": 0.1}
    assert spent(trace, 1) == {"computing": 0.5, "collective": 0.2, "wait at a collective": 0.5}
    assert spent(trace, 2) == {"computing": 3.0, "collective": 0.1}


def test_what_has_no_partner_is_told() -> None:
    a, b = Notes(0), Notes(1)
    a.post(True, 1, 5, 8, a.call("Send", 1.0, 1.1), 0)
    b.post(False, 0, 6, 8, b.call("Recv", 1.0, 1.1), 0)
    trace, said = put_together([a, b])
    assert len(trace) == 0
    assert [text.split(" ", 1)[0] for text in said] == ["1", "1"]


def test_messages_received_before_they_were_sent_are_counted() -> None:
    a, b = Notes(0), Notes(1)
    a.post(True, 1, 5, 8, a.call("Send", 2.0, 2.1), 0)
    b.post(False, 0, 5, 8, b.call("Recv", 1.0, 1.1), 0)
    trace, said = put_together([a, b])
    assert said == ["1 message ends before it begins: the ranks' clocks differ by more than was corrected"]
    assert trace.clocks.violations == 1
    assert repr(trace).endswith("; 1 messages end before they begin")
