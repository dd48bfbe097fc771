"""The readable forms do what they promise, by the messages and in the rounds that they promise."""

from __future__ import annotations

import inspect
import operator
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.cli.demo import SORTERS
from labkit.errors import RankError, ScheduleError
from labkit.machines import models
from tests.support.refusals import raises_code

FORMS = registry.teaching_forms()
COLLECTIVES = [pair for pair in FORMS if pair[0] != "sorting"]
SORTS = [name for problem, name in FORMS if problem == "sorting"]
RANKS = [1, 2, 3, 4, 5, 7, 8, 16]
MAIN = {"bcast", "reduce", "allreduce", "allgather", "alltoall", "scan", "barrier", "gather", "scatter"}
MOST_LINES = 40

#: a message takes a second, whatever its size, and nothing else takes any time: of sending, or of receiving
SECOND, NOTHING = ((0, 1.0, 0.0),), ()
TIMED = [
    models.get(
        "loggps", latency_s=0.0, gap_s=0.0, gap_per_byte_s=0.0, wtime_s=0.0,
        send_overhead=sending, isend_overhead=sending, recv_overhead=receiving,
    )
    for sending, receiving in [(SECOND, NOTHING), (NOTHING, SECOND)]
]  # fmt: skip


def called(comm: Any, problem: str, name: str, root: int) -> Any:
    """What this rank gets of a collective on texts, whose order can be seen."""
    form = registry.teaching_form(problem, name)
    own = f"<{comm.rank}>"
    match problem:
        case "bcast":
            return form(comm, own if comm.rank == root else None, root=root)
        case "scatter":
            return form(comm, [f"{j}" for j in range(comm.size)] if comm.rank == root else None, root=root)
        case "reduce":
            return form(comm, own, op=operator.add, root=root)
        case "gather":
            return form(comm, own, root=root)
        case "alltoall":
            return form(comm, [f"{comm.rank}->{j}" for j in range(comm.size)])
        case "barrier":
            lk.compute(seconds=float(comm.rank == root))
            return form(comm)
    if name == "ring" and problem == "allreduce":
        return form(comm, np.arange(5.0) + comm.rank).tolist()
    return form(comm, own)


def expected(problem: str, name: str, p: int, root: int) -> list[Any]:
    everybody = [f"<{r}>" for r in range(p)]
    from_root = "".join(everybody[root:] + everybody[:root])
    if (problem, name) == ("allreduce", "ring"):
        return [[p * i + p * (p - 1) / 2 for i in range(5)]] * p
    return {
        "bcast": [f"<{root}>"] * p,
        "scatter": [str(j) for j in range(p)],
        "reduce": [from_root if r == root else None for r in range(p)],
        "gather": [everybody if r == root else None for r in range(p)],
        "alltoall": [[f"{r}->{j}" for r in range(p)] for j in range(p)],
        "barrier": [None] * p,
        "allreduce": ["".join(everybody)] * p,
        "allgather": [everybody] * p,
        "scan": ["".join(everybody[: r + 1]) for r in range(p)],
    }[problem]


def as_used(comm: Any, problem: str) -> None:
    """The same collective as a program calls it."""
    one, all_of_them = np.zeros(comm.size), np.zeros((comm.size, comm.size))
    given = {
        "barrier": (), "bcast": (one,), "alltoall": (one, one.copy()), "scatter": (all_of_them, one),
        "gather": (one, all_of_them), "allgather": (one, all_of_them),
    }.get(problem, (one, one.copy()))  # fmt: skip
    getattr(comm, problem.capitalize())(*given)


def fits(problem: str, name: str, p: int) -> bool:
    return (problem, name) != ("allreduce", "recursive_doubling") or p & (p - 1) == 0


def rounds(problem: str, name: str, p: int) -> int:
    """The rounds that the forms' first lines promise."""
    if (problem, name) == ("allreduce", "ring"):
        return 2 * (p - 1)
    return p - 1 if problem in ("allgather", "alltoall") else ceil(log2(p))


def test_the_main_collectives_and_the_five_sorts_of_the_course_have_a_readable_form() -> None:
    assert {problem for problem, _ in FORMS} == MAIN | {"sorting"}
    assert set(SORTS) == {name.replace(" ", "_") for name in SORTERS}


@pytest.mark.parametrize(("problem", "name"), FORMS)
def test_a_form_is_short_and_stands_beside_the_one_that_is_used(problem: str, name: str) -> None:
    form = registry.teaching_form(problem, name)
    path = Path(inspect.getsourcefile(form) or "")
    assert len(path.read_text("utf-8").splitlines()) <= MOST_LINES
    text = inspect.getmodule(form).__doc__
    assert "Needs: " in text
    assert "Promises: " in text
    assert name in registry.names(problem)


def test_nobody_chooses_a_form() -> None:
    assert "teaching" not in registry.problems()
    assert not [name for name, _ in registry.schedules() if "teaching" in name]
    with raises_code(ScheduleError, "unsupported", "bcast/binomial"):
        registry.teaching_form("bcast", "ring")
    with raises_code(ScheduleError, "unknown-name", "'teaching'"):
        registry.names("teaching")


@pytest.mark.parametrize(("problem", "name"), COLLECTIVES)
@pytest.mark.slow
def test_a_collective_gives_what_it_promises_in_as_many_rounds_and_messages(problem: str, name: str) -> None:
    for p in (p for p in RANKS if fits(problem, name, p)):
        for root in {0, p // 2, p - 1}:
            timed = TIMED[problem in ("gather", "reduce")]
            run = lk.run(called, p, "star", args=(problem, name, root), model=timed)
            assert run.results == expected(problem, name, p, root), (p, root)
            late = 1 if problem == "barrier" else 0  # the root came a second late
            assert run.makespan_s == pytest.approx(rounds(problem, name, p) + late), (p, root)
        used = lk.run(as_used, p, "star", args=(problem,), coll={problem: name})
        assert run.messages == used.messages, p


def test_recursive_doubling_refuses_other_numbers_of_ranks() -> None:
    with raises_code(RankError, "rank-failed", "1", "2", "4", "8"):
        lk.run(called, 6, "star", args=("allreduce", "recursive_doubling", 0))


def kinds(p: int, rng: np.random.Generator) -> dict[str, list[np.ndarray]]:
    """Keys for p ranks: different whole numbers, placed as a sort may not like."""
    n = 2 * p * p
    random = rng.permutation(10 * n)[:n].astype(np.int64)
    return {
        "random": np.split(random, p),
        "crowded": np.split((2 ** rng.uniform(0, 40, n)).astype(np.int64) * n + np.arange(n), p),
        "sorted": np.split(np.sort(random), p),
        "backwards": np.split(np.sort(random)[::-1], p),
        "dealt": [np.sort(random)[r::p] for r in range(p)],
    }


def sorted_by(comm: Any, name: str, blocks: list[np.ndarray]) -> np.ndarray:
    return registry.teaching_form("sorting", name)(comm, blocks[comm.rank])


def allowed(name: str, n: int, p: int) -> tuple[list[int] | None, float]:
    """The sizes that a form promises, or the largest."""
    if name == "exact_splitting_sort":
        return [(j + 1) * n // p - j * n // p for j in range(p)], n
    if name == "radix_sort":
        share = -(-n // p)
        return [max(0, min(share, n - j * share)) for j in range(p)], n
    return None, {"sample_sort": 2 * n / p, "histogram_sort": 1.1 * n / p + 1}[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SORTS if name != "mini_sort"])
def test_a_sort_sorts_and_balances_as_promised(name: str) -> None:
    rng = np.random.default_rng(11)
    for p in RANKS:
        for kind, blocks in list(kinds(p, rng).items())[: 1 if p > 5 else None]:
            given = [block.copy() for block in blocks]
            out = lk.run(sorted_by, p, "star", args=(name, blocks)).results
            assert np.array_equal(np.concatenate(out), np.sort(np.concatenate(given))), (p, kind)
            sizes, most = allowed(name, sum(map(len, given)), p)
            lengths = [len(block) for block in out]
            assert sizes is None or lengths == sizes, (p, kind)
            assert max(lengths) <= most, (p, kind, lengths)


@pytest.mark.parametrize("name", [name for name in SORTS if name != "mini_sort"])
def test_equal_keys_are_sorted_too_but_not_dealt_out(name: str) -> None:
    blocks = [np.array([7, 3, 7, 7, 1 + r % 2, 7, 7, 7]) for r in range(5)]
    out = lk.run(sorted_by, 5, "star", args=(name, blocks)).results
    assert np.array_equal(np.concatenate(out), np.sort(np.concatenate(blocks)))
    owners = [r for r, block in enumerate(out) if 7 in block]
    assert (len(owners) == 1) == (name != "radix_sort")


@pytest.mark.parametrize("name", ["exact_splitting_sort", "radix_sort"])
def test_any_number_of_keys_on_a_rank(name: str) -> None:
    for lengths in ([0, 0, 0], [0, 5, 0], [1, 0, 1], [9, 2, 0]):
        rng = np.random.default_rng(sum(lengths))
        cuts = np.cumsum(lengths)[:-1]
        blocks = np.split(rng.permutation(sum(lengths)), cuts)
        out = lk.run(sorted_by, 3, "star", args=(name, blocks)).results
        assert np.array_equal(np.concatenate(out), np.arange(sum(lengths)))
        assert [len(b) for b in out] == allowed(name, sum(lengths), 3)[0]


def test_mini_sort() -> None:
    for p in [*RANKS, 9, 27, 31]:
        for seed in range(3):
            keys = np.random.default_rng(seed).permutation(3 * p)[:p]
            out = lk.run(
                sorted_by, p, "star", args=("mini_sort", [keys[r : r + 1] for r in range(p)])
            ).results
            assert np.concatenate(out).tolist() == sorted(keys.tolist())


def all_of(comm: Any) -> list[Any]:
    """Every form once: what this rank gets."""
    results = [called(comm, *pair, 1) for pair in COLLECTIVES if fits(*pair, comm.size)]
    keys = np.random.default_rng(3).permutation(64 * comm.size)
    for name in SORTS:
        n = 1 if name == "mini_sort" else 64
        results.append(sorted_by(comm, name, [keys[n * r : n * r + n] for r in range(comm.size)]).tolist())
    return results


@pytest.mark.mpi
def test_the_forms_are_programs_of_real_mpi() -> None:
    assert lk.run(all_of, 4, "mpi").results == lk.run(all_of, 4, "star").results
