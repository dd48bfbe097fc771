"""For any ranks, root, sizes and entry times results are right; and what the checker proves, holds."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit import registry
from labkit.errors import ScheduleError
from labkit.schedule import Column, Group, Op, Schedule, Step, block_indices, check, predict
from labkit.sim.schedules import perform
from tests.support.collectives import affine, case_of

calls = st.fixed_dictionaries(
    {
        "algorithm": st.sampled_from(registry.schedules()),
        "p": st.integers(1, 40),
        "n": st.integers(0, 50),
        "seed": st.integers(0, 2**32 - 1),
        "op": st.sampled_from(["sum", affine]),
        "model": st.sampled_from(["raw", "lv08", "smpi", "lab"]),
    }
)


def perform_call(schedule: Schedule, call: dict) -> None:
    """Run on random data with random entry times and compare with NumPy."""
    rng = np.random.default_rng(call["seed"])
    case = case_of(schedule, rng, call["n"], call["op"])
    starts = rng.random(schedule.size) * rng.choice([0, 1e-6, 1e-3])
    model = call["model"]
    perform(schedule, case.buffers, "star", model, op=case.op, counts=case.counts, start_s=starts)
    case.verify()


@settings(max_examples=150, deadline=None)
@given(calls)
def test_results_are_numpys(call: dict) -> None:
    algorithm = registry.get(*call["algorithm"])
    commutative = call["op"] == "sum"
    if algorithm.requirements.unmet(call["p"], commutative):
        return
    root = call["seed"] % call["p"]
    perform_call(algorithm.build(call["p"], root, commutative), call)


@settings(max_examples=300, deadline=None)
@given(calls, st.data())
def test_what_is_proved_holds(call: dict, data: st.DataObject) -> None:
    """Damage a schedule at random: whenever the checker still proves it, real data must agree."""
    algorithm = registry.get(*call["algorithm"])
    p = 1 + call["p"] % 5
    if algorithm.requirements.unmet(p):
        return
    schedule = algorithm.build(p, call["seed"] % p, commutative=algorithm.requirements.commutative)
    programs = [schedule.program(rank) for rank in range(p)]
    for _ in range(data.draw(st.integers(1, 2))):
        damage(programs[data.draw(st.integers(0, p - 1))], p, data)
    damaged = with_programs(schedule, programs)
    if check(damaged):
        op = "sum" if algorithm.requirements.commutative else affine
        perform_call(damaged, {**call, "op": op})
    else:
        with contextlib.suppress(ScheduleError):  # other readers may refuse it too, but must not hang
            predict(damaged, 8.0, 1.0, 1.0)


def damage(program: list[Op], p: int, data: st.DataObject) -> None:
    """Drop, double, swap or change an operation."""
    if not program:
        return
    at = data.draw(st.integers(0, len(program) - 1))
    op = program[at]
    how = data.draw(st.sampled_from(["drop", "double", "swap", "peer", "first", "order", "label"]))
    if how == "drop":
        del program[at]
    elif how == "double":
        program.insert(at, op)
    elif how == "swap" and at + 1 < len(program):
        program[at], program[at + 1] = program[at + 1], op
    elif how == "peer" and op.peer >= 0:
        program[at] = op._replace(peer=data.draw(st.integers(0, p - 1)))
    elif how == "first":
        program[at] = op._replace(section=op.section._replace(first=op.section.first + 1))
    elif how == "order":
        program[at] = op._replace(is_source_first=not op.is_source_first)
    elif how == "label":
        program[at] = op._replace(label=data.draw(st.integers(-1, 2)))


def with_programs(schedule: Schedule, programs: list[list[Op]]) -> Schedule:
    def generator(group: Group) -> Iterator[Step]:
        for rank in group.ranks.tolist():
            for op in programs[rank]:
                fields = (op.kind, np.array([rank]), op.peer, tuple(op.section), tuple(op.source))
                yield Step((Column(*fields, op.label, int(op.is_source_first)),))

    return dataclasses.replace(schedule, generator=generator)


@given(st.integers(1, 30), st.integers(-60, 60), st.integers(0, 40), st.integers(0, 9), st.integers(1, 9))
def test_sections_follow_their_rule(n: int, first: int, length: int, run: int, stride: int) -> None:
    if run > stride:
        return  # overlapping runs name blocks twice; the rule is for disjoint ones
    by_rule = (
        [(first + i) % n for i in range(length)]
        if run == 0
        else [
            (first + i * stride + j) % n for i in range(length) for j in range(run) if i * stride + j < length
        ]
    )
    assert block_indices(first, length, run, stride, n).tolist() == by_rule
