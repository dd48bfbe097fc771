"""Sweeps on a machine with a queue: what is handed in beforehand is what is waited for."""

from __future__ import annotations

from typing import Any

import pytest

import labkit as lk
from labkit.real.slurm import submit


class PretendedBatch:
    """Holds points, and hands out a run for each of them, once."""

    handed_in: list[tuple[int, bool]]

    def __init__(self, cluster: Any, tell: Any) -> None:
        self.found, self.points = 0, []

    def submit(self, points: list[Any]) -> None:
        self.points += points
        self.handed_in += [(point.ranks, point.header.get("counts") is not None) for point in points]

    def result(self, point: Any) -> Any:
        self.points.remove(point)
        return lk.run(lambda comm: comm.barrier(), point.ranks, "star")

    def finish(self) -> None:
        assert not self.points


def program(comm: Any, n: int = 1) -> Any:
    return comm.allreduce(n)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "is_counted"),
    [
        ({"repeats": 2, "n": [1, 2]}, True),
        ({"repeats": 2, "warmup": 0}, False),
        ({"n": [1, 2], "options": {"trace": True}}, True),
        ({"repeats": lk.Repeats()}, True),
    ],
)
def test_every_point_that_was_handed_in_is_found_when_it_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], is_counted: bool
) -> None:
    monkeypatch.setattr(submit, "Batch", PretendedBatch)
    monkeypatch.setattr(PretendedBatch, "handed_in", [], raising=False)
    study = lk.sweep(program, [1, 2, 4], on=lk.slurm(ranks_per_node=2), **options)
    points = len(options.get("n", [1])) * 3
    assert sorted(study.data.loc[study.data["metric"] == "makespan_s", "ranks"]) == sorted(
        [1, 2, 4] * (points // 3)
    )
    assert len(PretendedBatch.handed_in) == points
    assert {counted for _, counted in PretendedBatch.handed_in} == {is_counted}


def test_a_runner_of_the_callers_own_hands_nothing_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submit, "Batch", None)
    given: list[dict[str, Any]] = []

    def runner(program: Any, ranks: int, **how: Any) -> Any:
        given.append(how)
        return lk.run(program, ranks, "star")

    lk.sweep(program, [1, 2], on=lk.slurm(), repeats=1, runner=runner)
    assert len(given) == 2
    assert not any("count" in how for how in given)
