"""Wait states of windows: planted delays at posts, completions, fences and locks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import labkit as lk

DELAY_S, WORK_S = 5e-3, 5e-3
#: whether somebody is late
is_late = True


def late() -> None:
    with lk.phase("late"):
        lk.compute(seconds=DELAY_S if is_late else 0.0)


def access(comm: Any, window: Any, late_at: tuple[str, ...]) -> None:
    """Rank 0 writes to rank 1; who makes a call of `late_at` comes late to it."""

    def step(name: str, *arguments: Any) -> None:
        if name in late_at:
            late()
        getattr(window, name)(*arguments)

    group = comm.Get_group()
    if comm.rank == 0:
        step("Start", group.Incl([1]))
        step("Put", np.zeros(1), 1)
        step("Complete")
    elif comm.rank == 1:
        step("Post", group.Incl([0]))
        step("Wait")


def late_to(*calls: str) -> Callable[[Any, Any], None]:
    return partial(access, late_at=calls)


def lock_contention(comm: Any, window: Any) -> None:
    if comm.rank < 2:
        if comm.rank == 1:
            lk.compute(seconds=1e-6)
        window.Lock(comm.size - 1)
        if comm.rank == 0:
            late()
        window.Unlock(comm.size - 1)


def fenced(comm: Any, window: Any) -> None:
    window.Fence()
    if comm.rank == 1:
        late()
    window.Fence()


def fence_after_access(comm: Any, window: Any) -> None:
    window.Fence()
    if comm.rank == 1:
        late()
        window.Put(np.zeros(1), 0)
    window.Fence()


def fence_after_reading(comm: Any, window: Any) -> None:
    window.Fence()
    if comm.rank == 1:
        late()
        window.Get(np.zeros(1), 0)
    window.Fence()


#: the program, its wait state, the rank that is late, how many wait for it
PLANTED: list[tuple[Callable[[Any, Any], None], str, int, Callable[[int], list[int]]]] = [
    (late_to("Post"), "late post", 1, lambda p: [0]),
    (late_to("Start"), "early post", 0, lambda p: [1]),
    (late_to("Put"), "early wait", 0, lambda p: [1]),
    (late_to("Complete"), "late complete", 0, lambda p: [1]),
    (lock_contention, "lock contention", 0, lambda p: [1]),
    (fenced, "wait at fence", 1, lambda p: [r for r in range(p) if r != 1]),
]


def program(comm: Any, body: Callable[[Any, Any], None]) -> None:
    window = lk.MPI.Win.Allocate(8, 8, comm=comm)
    lk.compute(seconds=WORK_S)
    comm.Barrier()
    with lk.phase("planted"):
        body(comm, window)
    window.Free()


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize(
    ("body", "state", "cause", "who"), PLANTED, ids=lambda x: x if isinstance(x, str) else ""
)
def test_planted_delays_of_windows(body: Any, state: str, cause: int, who: Any, ranks: int) -> None:
    waiting = lk.run(program, ranks, f"star:{ranks}", trace=True, body=body).waits()
    long = waiting.waits[(waiting.waits["seconds"] > 0.5 * DELAY_S) & (waiting.waits["phase"] == "planted")]
    assert set(long["state"]) == {state}
    assert sorted(long["rank"]) == who(ranks)
    assert set(long["cause"]) == {cause}
    assert long["seconds"].sum() == pytest.approx(DELAY_S * len(long), rel=0.01)
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (cause, "planted > late")
    costs = waiting.delays[["direct_s", "indirect_s"]].to_numpy().sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-12)
    spent = waiting.totals["seconds"] + waiting.totals["waiting_s"]
    assert spent.sum() >= waiting.seconds


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("body", [fence_after_access, fence_after_reading])
def test_an_early_fence_is_that_of_the_rank_that_others_still_access(body: Any, ranks: int) -> None:
    waiting = lk.run(program, ranks, f"star:{ranks}", trace=True, body=body).waits()
    long = waiting.waits[(waiting.waits["seconds"] > 0.5 * DELAY_S) & (waiting.waits["phase"] == "planted")]
    states = {rank: str(state) for rank, state in zip(long["rank"], long["state"], strict=True)}
    assert states == {0: "early fence", **dict.fromkeys(range(2, ranks), "wait at fence")}
    assert long["seconds"].to_numpy() == pytest.approx(DELAY_S, rel=0.01)
    assert set(long["cause"]) == {1}
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (1, "planted > late")
    costs = waiting.delays[["direct_s", "indirect_s"]].to_numpy().sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-12)


def test_a_fence_waits_for_an_access_first_and_then_for_whom_it_still_lacks() -> None:
    def apart(comm: Any, window: Any) -> None:
        window.Fence()
        if comm.rank == 1:
            lk.compute(seconds=2e-3)
            window.Put(np.zeros(1), 0)
        elif comm.rank == 2:
            lk.compute(seconds=5e-3)
        window.Fence()

    waits = lk.run(program, 4, "star:4", trace=True, body=apart).waits().waits
    own = waits[waits["phase"] == "planted"]
    sums = own.groupby(["rank", "state"], observed=True)["seconds"].sum()
    assert sums[0, "early fence"] == pytest.approx(2e-3, rel=0.01)
    assert sums[0, "wait at fence"] == pytest.approx(3e-3, rel=0.01)
    assert sums[3, "wait at fence"] == pytest.approx(5e-3, rel=0.01)
    assert (3, "early fence") not in sums.index


@pytest.mark.parametrize("ranks", [2, 3, 5, 8])
@pytest.mark.parametrize("body", [*(row[0] for row in PLANTED), fence_after_access, fence_after_reading])
def test_without_a_delay_windows_wait_below_a_hundredth(
    body: Any, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "is_late", False)
    run = lk.run(program, ranks, f"star:{ranks}", trace=True, body=body)
    waiting = run.waits()
    of_windows = waiting.waits[waiting.waits["phase"] == "planted"]
    assert of_windows["seconds"].sum() < 0.01 * ranks * run.makespan_s
    assert "goes back" not in waiting.reading()


def test_a_queue_for_a_lock_goes_back_to_who_held_it_first() -> None:
    def queue(comm: Any, window: Any) -> None:
        lk.compute(seconds=comm.rank * 1e-6)
        window.Lock(0)
        if comm.rank == 0:
            late()
        window.Unlock(0)

    waiting = lk.run(program, 4, "star:4", trace=True, body=queue).waits()
    own = waiting.waits[waiting.waits["state"] == "lock contention"]
    assert sorted(own["rank"]) == [1, 2, 3]
    first = waiting.causes("rank", "phase").iloc[0]
    assert (first["rank"], first["phase"]) == (0, "planted > late")
    costs = waiting.delays[["direct_s", "indirect_s"]].to_numpy().sum()
    assert costs == pytest.approx(waiting.seconds, rel=1e-12)


def test_the_parts_of_a_targets_wait_add_up() -> None:
    all_three = late_to("Start", "Put", "Complete")
    waits = lk.run(program, 2, "star:2", trace=True, body=all_three).waits().waits
    sums = waits[waits["rank"] == 1].groupby("state", observed=True)["seconds"].sum()
    assert sums["early post"] == pytest.approx(DELAY_S, rel=0.01)
    assert sums["early wait"] == pytest.approx(DELAY_S, rel=0.01)
    assert sums["late complete"] == pytest.approx(DELAY_S, rel=0.01)
