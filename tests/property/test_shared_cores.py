"""Ranks that share cores, against processor sharing simulated from its definition in exact fractions."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import labkit as lk
from tests.support.message_program import run_program

NS = Fraction(1, 10**9)
#: of a message: two links of 1 us each, and no time for its bytes
LATENCY = Fraction(2, 10**6)
WIRES = f"lat=1us,bw={10**15}GBps"


class _Rank:
    """Where a rank of the oracle is, and what it is in."""

    def __init__(self, operations):
        self.operations = list(operations)
        self.sleeps_until = self.work_left = self.message = self.ended = None

    @property
    def is_free(self):
        return self.sleeps_until is self.work_left is self.message is None and self.ended is None


def share(programs, host_of, cores):
    """When each rank ends: from event to event, every computation shrinks by min(1, cores / computations)."""
    ranks = [_Rank(program) for program in programs]
    sent, wanted, arrives = {}, {}, {}
    now = Fraction(0)
    while True:
        for rank in ranks:
            while rank.is_free:
                _begin(rank, now, sent, wanted)
        for tag in sent.keys() & wanted.keys() - arrives.keys():
            arrives[tag] = max(sent[tag], wanted[tag]) + LATENCY
        busy = np.bincount([host_of[r] for r, rank in enumerate(ranks) if rank.work_left is not None],
                           minlength=max(host_of) + 1)  # fmt: skip
        rates = [min(Fraction(1), Fraction(cores, max(1, int(busy[host])))) for host in host_of]
        times = [arrives[rank.message] for rank in ranks if rank.message in arrives]
        times += [rank.sleeps_until for rank in ranks if rank.sleeps_until is not None]
        times += [now + rank.work_left / rate for rank, rate in zip(ranks, rates, strict=True)
                  if rank.work_left is not None]  # fmt: skip
        if not times:
            return [rank.ended for rank in ranks]
        step, now = min(times) - now, min(times)
        for rank, rate in zip(ranks, rates, strict=True):
            _pass(rank, step * rate, now, arrives)


def _begin(rank, now, sent, wanted):
    if not rank.operations:
        rank.ended = now
        return
    name, value = rank.operations.pop(0)
    if name == "sleep":
        rank.sleeps_until = now + value * NS
    elif name == "compute":
        rank.work_left = value * NS
    elif name == "send":
        sent[value[1]] = now
    else:
        wanted[value[1]] = now
        rank.message = value[1]


def _pass(rank, worked, now, arrives):
    if rank.work_left is not None:
        rank.work_left -= worked
        rank.work_left = rank.work_left or None
    if rank.sleeps_until == now:
        rank.sleeps_until = None
    if rank.message in arrives and arrives[rank.message] == now:
        rank.message = None


@st.composite
def loads(draw, names=("sleep", "compute")):
    """Ranks on hosts; a list of what happens in the order of the programs: no order of it can deadlock."""
    p, hosts = draw(st.integers(2, 9)), draw(st.integers(1, 3))
    host_of = draw(st.lists(st.integers(0, hosts - 1), min_size=p, max_size=p))
    rank = st.integers(0, p - 1)
    # few different lengths make ties, many make none
    lengths = draw(st.sampled_from([st.sampled_from([1000, 2000, 4000]), st.integers(1, 20_000)]))
    own = st.tuples(rank, st.sampled_from(names), lengths)
    message = st.tuples(rank, st.just("send"), rank)
    programs = [[] for _ in range(p)]
    for tag, (who, name, value) in enumerate(draw(st.lists(st.one_of(own, own, message), max_size=40))):
        if name != "send":
            programs[who].append((name, value))
        elif value != who:
            programs[who].append(("send", (value, tag)))
            programs[value].append(("recv", (who, tag)))
    return programs, host_of, draw(st.integers(1, 3))


def _text(programs):
    def operation(name, value):
        return f"{name} {value[0]} {value[1]} 1" if isinstance(value, tuple) else f"{name} {value}"

    return "\n".join(f"{r}: {'; '.join(operation(*op) for op in own)}" for r, own in enumerate(programs))


def _machine(host_of, cores):
    return lk.platform(f"star:{max(host_of) + 1},cores={cores},{WIRES}").mapped(host_of)


@given(loads())
@settings(max_examples=300, deadline=None)
def test_ranks_end_when_processor_sharing_says(load):
    programs, host_of, cores = load
    got = run_program(_text(programs), len(host_of), _machine(host_of, cores), "raw")
    np.testing.assert_allclose(got.finish_s, [float(t) for t in share(*load)], rtol=1e-11)


def _program(comm, programs):
    cell = np.zeros(1, np.int8)
    for name, value in programs[comm.rank]:
        if name == "compute":
            lk.compute(seconds=float(value * NS))
        elif name == "send":
            comm.Send(cell, *value)
        else:
            comm.Recv(cell, *value)


@given(loads(names=("compute",)))
@settings(max_examples=40, deadline=None)
def test_python_ranks_and_their_replay_end_then_too(tmp_path_factory, load):
    programs, host_of, cores = load
    machine = _machine(host_of, cores)
    trace = tmp_path_factory.mktemp("ti") / "trace.txt"
    run = lk.run(_program, len(host_of), machine, args=(programs,), model="raw", trace=True, trace_ti=trace)
    again = lk.replay(trace, machine, model="raw", trace=True)
    expected = [float(t) for t in share(*load)]
    np.testing.assert_allclose(run.trace.ends_s, expected, rtol=1e-11)
    np.testing.assert_allclose(again.machine["finish_s"], expected, rtol=1e-9)  # flops have 17 digits
    goal = trace.with_suffix(".goal")
    goal.write_text(_goal(programs))
    np.testing.assert_allclose(
        lk.replay(goal, machine, model="raw").machine["finish_s"], expected, rtol=1e-11
    )


def _goal(programs):
    """Each rank's operations as a chain."""
    lines = [f"num_ranks {len(programs)}"]
    for r, own in enumerate(programs):
        lines.append(f"rank {r} {{")
        for i, (name, value) in enumerate(own):
            if name == "compute":
                lines.append(f"l{i}: calc {value}")
            else:
                way = "to" if name == "send" else "from"
                lines.append(f"l{i}: {name} 1b {way} {value[0]} tag {value[1]}")
            if i:
                lines.append(f"l{i} requires l{i - 1}")
        lines.append("}")
    return "\n".join(lines) + "\n"
