"""A simulated program that makes a schedule's calls itself takes exactly as long as the native run."""

from __future__ import annotations

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.schedule import execute
from labkit.sim.schedules import simulate
from tests.support.collectives import case_of


def program(comm, problem: str, name: str, n: int) -> None:
    schedule = registry.get(problem, name).build(comm.size)
    case = case_of(schedule, np.random.default_rng(1), n)
    counts = None if case.counts is None else case.counts[comm.rank]
    execute(comm, schedule, op=case.op, counts=counts, **case.buffers[comm.rank])
    for buffer, wanted in case.expected[comm.rank].items():
        np.testing.assert_array_equal(case.buffers[comm.rank][buffer], wanted)


@pytest.mark.slow
@pytest.mark.parametrize("model", ["lab", "smpi"])
@pytest.mark.parametrize(("problem", "name"), registry.schedules())
def test_to_the_last_bit(problem: str, name: str, model: str) -> None:
    for p, n in [(1, 4), (5, 4), (6, 10_000), (8, 4)]:
        if registry.get(problem, name).requirements.unmet(p):
            continue
        run = lk.run(program, p, f"star:{p},model={model}", args=(problem, name, n))
        schedule = registry.get(problem, name).build(p)
        if schedule.problem.layout == "table":
            case = case_of(schedule, np.random.default_rng(1), n)
            counts = table_of([known.get("send", []) for known in case.counts or []], p)
            received = table_of([known.get("recv", []) for known in case.counts or []], p)
            native = simulate(schedule, f"star:{p}", model, counts={"send": counts, "recv": received})
        else:
            native = simulate(schedule, f"star:{p}", model, n_bytes=8 * n, element_bytes=8)
        assert run.makespan_s == native.makespan_s
        assert (run.messages, run.bytes) == (native.messages, native.bytes)


def table_of(rows: list[list[int]], p: int) -> np.ndarray:
    """Return counts in bytes, one row for each rank, filled up with zeros."""
    table = np.zeros((p, p), np.int64)
    for rank, row in enumerate(rows):
        table[rank, : len(row)] = 8 * np.asarray(row, np.int64)
    return table
