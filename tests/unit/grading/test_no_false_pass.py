"""What would earn points without doing what is asked for, and inputs that nobody can recompute."""

from __future__ import annotations

import itertools
import zlib

import numpy as np
import pytest

from labkit.grading import Case, Correct, find_assignment, student_seed
from labkit.grading.bench import OpenBench
from labkit.grading.checks import Bound, Scaling
from labkit.grading.sandbox.outcome import Outcome
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial
from tests.support.course import module_of

SLEEPS_FIRST = """
import time
import numpy as np

def parallel_sort(comm, keys):
    time.sleep(1000 / comm.size)
    every = comm.gather(keys)
    blocks = None
    if comm.rank == 0:
        blocks = np.array_split(np.sort(np.concatenate(every)), comm.size)
    return comm.scatter(blocks)
"""

JUNK_FIRST = """
import numpy as np

def parallel_sort(comm, keys):
    other = comm.rank ^ 1 if comm.size % 2 == 0 else comm.rank
    comm.sendrecv(np.zeros(4_000_000 // comm.size**2, np.uint8), other, source=other)
    every = comm.gather(keys)
    blocks = None
    if comm.rank == 0:
        blocks = np.array_split(np.sort(np.concatenate(every)), comm.size)
    return comm.scatter(blocks)
"""

SIGNALS_BY_BARRIERS = """
import time
import numpy as np
from mpi4py import MPI

def broadcast(comm, data, root):
    told = []
    for k in range(24):
        began = MPI.Wtime()
        time.sleep(float(data[:3].view(np.uint8)[k] if data is not None else 0))
        comm.Barrier()
        told.append(round(MPI.Wtime() - began))
    return data if data is not None else np.array(told, np.uint8).view(np.int64)
"""

ORDER_BY_TAGS = """
import numpy as np

def parallel_sort(comm, keys):
    \"\"\"Moves all keys to every rank in tags of empty messages.\"\"\"
    p, words = comm.size, keys.view(np.uint64)
    parts = [[int(w >> np.uint64(s)) & 0xFFFF for s in (0, 16, 32, 48)] for w in words]
    lengths = comm.allgather(len(keys))
    requests = [comm.isend(None, q, t) for q in range(p) for w in parts for t in w]
    from mpi4py import MPI
    found, status = [], MPI.Status()
    for q in range(p):
        row = []
        for _ in range(4 * lengths[q]):
            comm.recv(source=q, status=status)
            row.append(status.Get_tag())
        a = np.array(row, np.uint64).reshape(-1, 4)
        found.append(sum(a[:, k] << np.uint64(16 * k) for k in range(4)).view(np.int64))
    MPI.Request.waitall(requests)
    return np.array_split(np.sort(np.concatenate(found)), p)[comm.rank]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "source", "check"),
    [
        ("sort", SLEEPS_FIRST, "scaling"),
        ("sort", JUNK_FIRST, "scaling"),
        ("sort", ORDER_BY_TAGS, "volume"),
        ("broadcast", SIGNALS_BY_BARRIERS, "powers"),
    ],
    ids=["sleeps first", "junk first", "keys in tags", "signals by barriers"],
)
def test_points_are_not_to_be_had_without_the_work(name: str, source: str, check: str) -> None:
    found = find_assignment(name).grade(source, only=[check])
    assert (found.points, found.results[0].status) == (0, "failed"), found.text()


class _Bench:
    """A bench whose runs are told: every way to cheat that nobody has closed."""

    is_simulated, containment, worked_s = True, "", 0.0

    def __init__(self, answer) -> None:
        self.answer, self.runs = answer, 0

    def run(self, ranks, arguments, **how):
        self.runs += 1
        return self.answer(ranks, arguments, **how)

    def hurry(self) -> None:
        pass


def _silent(ranks, arguments, **how):
    """Right results, and not a single message: what an unknown channel would give."""
    import labkit as lk

    idle = lk.run(lambda comm: None, ranks, on="star", trace=True)
    whole = next((own[0] for own in arguments if own[0] is not None), None)
    if len(arguments[0]) == 1:
        keys = np.sort(np.concatenate([own[0] for own in arguments]))
        return Outcome("finished", ranks, results=np.array_split(keys, ranks), trace=idle.trace)
    return Outcome("finished", ranks, results=[whole] * ranks, trace=idle.trace)


@pytest.mark.parametrize(("name", "check"), [("broadcast", "powers"), ("broadcast", "any_root"),
                                             ("sort", "easy"), ("sort", "adversaries")])  # fmt: skip
def test_right_results_without_messages_pass_nothing(name: str, check: str) -> None:
    verdict = find_assignment(name).check_named(check).judge(Trial(_Bench(_silent), Seed(7)))
    assert verdict.score == 0
    assert "data travels in messages" in verdict.feedback


def test_messages_of_who_knows_nothing_do_not_count() -> None:
    import labkit as lk

    def program(comm):
        comm.send(bytes(500), (comm.rank + 1) % 3) if comm.rank else None
        comm.recv() if comm.rank != 1 else None

    done = lk.run(program, 3, on="star", trace=True)
    case = Case(
        3, [(np.ones(3), 0)] + [(None, 0)] * 2, "x", origin=0, needs=lambda case, results: [0, 24, 24]
    )
    bench = _Bench(lambda *a, **k: Outcome("finished", 3, results=[np.ones(3)] * 3, trace=done.trace))
    wrong, _, _ = Trial(bench).fault(case, lambda case, results: None)
    assert "rank 1 returned 24 bytes that it was not given, but received 0 bytes" in wrong


def test_inputs_need_the_key() -> None:
    seed = Seed(student_seed("ada", "sort", "secret"))
    assert 1 << 100 < seed < 1 << 128
    one, other = seed.stream("uniform", 0).random_raw(4), seed.stream("uniform", 1).random_raw(4)
    assert not set(one) & set(other)
    assert (one == Seed(seed).stream("uniform", 0).random_raw(4)).all()
    assert not set(one) & set(Seed(seed ^ 1).stream("uniform", 0).random_raw(4))
    assert student_seed("ada", "sort") != student_seed("ada", "sort"), "without a secret nothing follows"


def test_a_rank_is_told_nothing_of_the_seed() -> None:
    told = []

    def answer(ranks, arguments, **how):
        told.append(how["seed"])
        return _silent(ranks, arguments)

    seed = Seed(student_seed("ada", "sort", "secret"))
    find_assignment("sort").check_named("easy").judge(Trial(_Bench(answer), seed))
    assert 0 <= told[0] < 1 << 31
    assert told[0] not in (seed % (1 << 31), seed >> 97)


def test_keys_of_an_assignment_come_from_the_keyed_generator() -> None:
    from labkit.datasets import inputs

    sort, seed = module_of("sort"), Seed(5)
    (mine,), (theirs,) = sort._case("uniform", 2, 50, seed).arguments
    assert len(np.unique([mine, theirs])) == 100
    for plain in (5, seed.number("uniform", 2, 50, "int64", "even")):
        assert not set(mine) & set(inputs.keys("uniform", 0, 2, 50, seed=plain))
    assert (mine == sort._case("uniform", 2, 50, Seed(5)).arguments[0][0]).all()


def _smoothed_by(case: Case, swaps: bool) -> list[tuple[np.ndarray, int]]:
    """Return what two ranks compute; where `swaps`, each takes the rows beside its own for one another."""
    blocks = [own[0] for own in case.arguments]
    _, tolerance, most = case.arguments[0]
    change, steps = np.inf, 0
    while steps < most and change >= tolerance:
        new = []
        for mine, other in (blocks, blocks[::-1]):
            above, below = (other[0], other[-1]) if swaps else (other[-1], other[0])
            rows = np.vstack([above, mine, below])
            new.append((rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4)
        change = max(np.abs(b - a).max() for a, b in zip(blocks, new, strict=True))
        blocks, steps = new, steps + 1
    return [(block, steps) for block in blocks]


def test_rows_swapped_on_two_ranks_are_never_right_by_chance() -> None:
    """On two ranks both neighbors are one: a rank with a single row could not tell its rows apart."""
    check = find_assignment("deadlock").check_named("any_number")
    for seed in range(40):
        (case,) = [one for one in check.cases(Seed(seed)) if one.ranks == 2]
        assert check.oracle(case, _smoothed_by(case, swaps=False)) is None
        assert check.oracle(case, _smoothed_by(case, swaps=True)) is not None, seed


def test_numbers_of_ranks_are_drawn_anew_within_the_range_told() -> None:
    drawn = {tuple(Seed(3).ranks(4, 24, 4, "any")) for _ in range(40)}
    assert len(drawn) > 4
    assert all(len(set(ranks)) == 4 and min(ranks) >= 4 and max(ranks) <= 24 for ranks in drawn)
    assert {p for ranks in (Seed(3).ranks(4, 6, 3) for _ in range(3)) for p in ranks} == {4, 5, 6}
    assert Seed(3, draw=9).ranks(4, 24, 4) == Seed(3, draw=9).ranks(4, 24, 4)
    for name in ("broadcast", "sort", "prefix_sum"):
        assert "drawn anew for every grading, from 1 to 64" in find_assignment(name).statement


@pytest.mark.parametrize(
    ("least", "most", "count"), [(4, 64, 4), (9, 24, 3), (5, 63, 3), (8, 8, 1), (4, 6, 3)]
)
def test_numbers_are_drawn_from_parts_without_gaps(least: int, most: int, count: int) -> None:
    drawn = [Seed(3, draw).ranks(least, most, count, "any") for draw in range(600)]
    parts = [{ranks[nth] for ranks in drawn} for nth in range(count)]
    assert sorted(p for part in parts for p in part) == list(range(least, most + 1)), "each p is in one part"


@pytest.mark.parametrize(("least", "most"), [(10, 64), (9, 64), (13, 63), (8, 64)])
def test_six_numbers_meet_every_interval_and_every_residue(least: int, most: int) -> None:
    for draw in range(200):
        found = Seed(3, draw).ranks(least, most, 6, "any")
        for n in range(least, most // 2 + 1):
            assert any(n <= p <= 2 * n for p in found), (found, n)
        assert {p % 2 for p in found} == {0, 1}
        assert {p % 3 for p in found} == {0, 1, 2}


def test_lengths_in_an_order_that_is_drawn_meet_every_interval() -> None:
    orders = set()
    for draw in range(200):
        found = Seed(3, draw).strata(64, 4000, 6, "bytes")
        orders.add(tuple(np.argsort(found)))
        assert all(any(n <= size <= 2 * n + 2 for size in found) for n in range(64, 2001))
    assert len(orders) > 50


def test_every_grading_of_a_broadcast_has_each_type_and_the_roots_at_the_ends() -> None:
    scaling = find_assignment("broadcast").check_named("scaling")
    for draw in range(20):
        cases = list(scaling.also(Seed(3, draw)))
        data = [own[0] for case in cases for own in case.arguments if own[0] is not None]
        assert len({one.dtype for one in data}) == len(data) == 6
        roots = [(case.arguments[0][1], case.ranks - 1) for case in cases]
        assert {root for root, _ in roots} > {0, 1}
        assert any(root == last for root, last in roots)
        lengths = sorted({16, 1600} | {len(one) for one in data if 16 < len(one) < 1600})
        assert all(many <= 4 * few for few, many in itertools.pairwise(lengths))


def test_no_agreement_depends_on_rounding() -> None:
    for name in ("stop", "any_number"):
        for draw in range(12):
            for case in find_assignment("deadlock").check_named(name).cases(Seed(5, draw)):
                blocks = [own[0] for own in case.arguments]
                assert case.arguments[0][1] > 1e-12 * max(np.abs(block).max() for block in blocks)


def test_every_grading_of_an_agreement_stops_after_even_and_odd_steps() -> None:
    for name in ("stop", "any_number"):
        for draw in range(4):
            cases = find_assignment("deadlock").check_named(name).cases(Seed(5, draw))
            assert {module_of("deadlock")._steps_of(case) % 2 for case in cases} == {0, 1}


def test_the_steps_of_an_agreement_follow_from_no_argument() -> None:
    found = set()
    for draw in range(8):
        for case in find_assignment("deadlock").check_named("stop").cases(Seed(5, draw)):
            most = case.arguments[0][2]
            found.add((most, module_of("deadlock")._steps_of(case)))
            assert module_of("deadlock")._steps_of(case) <= most
    assert len({round(8 * steps / most) for most, steps in found}) >= 6, "early and late stops"


def test_cases_of_equal_words_do_not_share_a_run() -> None:
    def cases(seed):
        return [Case(2, [(np.array([k]),), (np.array([0]),)], "2 numbers") for k in (1, 2, 3)]

    def oracle(case, results):
        return None if results[0] == case.arguments[0][0][0] else "wrong"

    right = _Bench(lambda ranks, arguments, **how: Outcome("finished", 2, results=[arguments[0][0][0], 0]))
    check = Correct("right", "Right", 1, cases, oracle)
    trial = Trial(right)
    assert check.judge(trial).score == 1
    assert (check.judge(trial).score, right.runs) == (1, 3), "the same case is run once"
    wrong = _Bench(lambda ranks, arguments, **how: Outcome("finished", 2, results=[1, 0]))
    assert check.judge(Trial(wrong)).score == 0
    odd = [Case(1, [(object(),)], "x") for _ in range(2)]  # of a teacher's own trial
    plain = _Bench(lambda *a, **k: Outcome("finished", 1, results=[0]))
    own_trial = Trial(plain)
    for case in odd:
        own_trial.run(case)
    assert plain.runs == 2


def test_huge_results_are_not_kept_for_the_whole_grading() -> None:
    few, many = np.zeros(1 << 20), np.zeros(10 << 20)
    other = many + 1
    bench = _Bench(lambda ranks, arguments, **how: Outcome("finished", 1, results=[arguments[0][0]]))
    trial = Trial(bench)
    for of in (many, few, other, few, many, other):
        assert trial.run(Case(1, [(of,)], "numbers")).results[0][0] == of[0]
    assert bench.runs == 4, "the first two are kept; for the third there is no room"


def test_charged_time_does_not_pass_where_growth_is_judged() -> None:
    asked = []

    def answer(ranks, arguments, **how):
        asked.append(how)
        return Outcome("finished", ranks, results=[0] * ranks, makespan_s=1.0 / ranks)

    check = Scaling("s", "S", 1, lambda p, seed: Case(p, [(p,)] * p, "x"), lambda case, results: None, "1/p",
                    bounds=[Bound("seconds", lambda case: 0.2, "0.2 s")])  # fmt: skip
    verdict = check.judge(Trial(_Bench(answer)))
    assert not asked[0]["charges"]
    assert verdict.score == 0
    assert "4 ranks, x: 250 ms of simulated time; at most 0.2 s = 200 ms are allowed." in verdict.feedback


def test_a_trial_of_ones_own_charges_nothing_for_growth_either() -> None:
    def parallel_sort(comm, keys):
        import time

        import labkit as lk

        lk.compute(seconds=1000 / comm.size)
        time.sleep(0)
        every = comm.gather(keys)
        blocks = None
        if comm.rank == 0:
            blocks = np.array_split(np.sort(np.concatenate(every)), comm.size)
        return comm.scatter(blocks)

    assert find_assignment("sort").try_out(parallel_sort, only=["scaling"]).points == 0


def test_rows_that_nobody_had_computed_were_guessed() -> None:
    """Whoever finds the set's constant from a few rows knows the others, in no simulated time."""
    import labkit as lk

    def knows_all_but(count: int):
        def answer(ranks, arguments, work, **how):
            n = len(work.results)
            dealt = [[y for y in range(count, n) if y % ranks == rank] for rank in range(ranks)]
            own = lk.run(lambda comm: comm.gather(bytes(8 * 48 * n)), ranks, on="star", trace=True)
            picture = [np.array(work.results)] + [None] * (ranks - 1)
            return Outcome("finished", ranks, results=picture, trace=own.trace, tasks=dealt, makespan_s=1e-3)

        return answer

    julia = find_assignment("julia")
    for name in ("right", "once", "speedup", "any_costs"):
        check = julia.check_named(name)
        assert check.judge(Trial(_Bench(knows_all_but(0)), Seed(7))).score == 1, name
        guessed = check.judge(Trial(_Bench(knows_all_but(1)), Seed(7)))
        assert guessed.score == 0
        assert "no rank has had task 0 done, one of 1: a result is computed, not guessed" in guessed.feedback


def test_what_grows_with_p_is_found_however_small_it_is_packed() -> None:
    def places(comm, keys, buckets):
        counts = np.bincount(keys, minlength=buckets)
        tables = comm.allgather(
            zlib.compress(counts.astype(np.int16))
        )  # far fewer bytes than the bound allows
        every = np.array([np.frombuffer(zlib.decompress(table), np.int16) for table in tables], int)
        first = np.cumsum(every.sum(0)) - every.sum(0) + every[: comm.rank].sum(0)
        found, order = np.empty(len(keys), np.int64), np.argsort(keys, kind="stable")
        within = np.arange(len(keys)) - (np.cumsum(counts) - counts)[keys[order]]
        found[order] = first[keys[order]] + within
        return found

    (found,) = find_assignment("scaling_bug").try_out(places, only=["volume"]).results
    assert found.points == 0
    assert "ranks the bytes received by the busiest rank grow from" in found.feedback


def test_what_a_function_does_to_its_arguments_changes_nothing_of_the_judgment() -> None:
    def forgets(comm, keys):
        keys[:] = 0
        return keys

    def smooths_in_place(comm, block, tolerance, most):
        for _ in range(most):
            above = comm.sendrecv(
                block[-1].copy(), (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size
            )
            below = comm.sendrecv(
                block[0].copy(), (comm.rank - 1) % comm.size, source=(comm.rank + 1) % comm.size
            )
            rows = np.vstack([above, block, below])
            block[:] = (rows[:-2] + 2 * rows[1:-1] + rows[2:]) / 4
        return block, most

    def adds_to_its_own(comm, shared):
        shared += comm.rank
        comm.barrier()
        return int(shared[0])

    assert OpenBench(adds_to_its_own).run(3, [(np.zeros(1),)] * 3).results == [0, 1, 2]
    assert find_assignment("sort").try_out(forgets, only=["easy"]).points == 0
    assert find_assignment("deadlock").try_out(smooths_in_place, only=["short", "long"]).points == 4
