"""The assignments that are taught one by one: right answers pass, and nothing else does."""

from __future__ import annotations

import heapq
import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DeadlockError, MismatchError
from labkit.grading.bench import SandboxBench
from labkit.grading.checks import Correct
from labkit.grading.sandbox import Limits, Sandbox
from labkit.grading.seeds import Seed
from labkit.grading.trial import Trial
from tests.support.course import ASSIGNMENTS, module_of
from tests.support.submissions import missed_here
from tests.support.submissions_taught import CORPORA, TAUGHT, Taught

LIMITS = Limits(cpu_s=2, idle_s=2)
#: whose wrong answers were recorded with one draw: others may miss a check more or less
ONE_DRAW, DRAW = ("compaction", "summa", "bfs", "list_ranking", "cg", "work_stealing"), 20_261_128
COURSE = Path(__file__).parents[3] / "course" / "source"
SOURCES = {(one.assignment, one.name): one for one in TAUGHT if one.file_name.endswith("_script.py")}
FEW = [
    ("deadlock", "parity"), ("deadlock", "tags_only"), ("deadlock", "one_after_another"),
    ("julia", "arrays"), ("julia", "diagonal"), ("julia", "knows_the_patterns"), ("julia", "farm_of_pairs"),
    ("julia", "blocks"), ("julia", "mirror"),
    ("torus_broadcast", "both_ways_round"), ("torus_broadcast", "binomial"),
    ("torus_broadcast", "collective"),
    ("scaling_bug", "hillis"), ("scaling_bug", "as_given"), ("scaling_bug", "own_table_too"),
    ("scaling_bug", "messages_on_few"), ("scaling_bug", "narrow_chain"), ("scaling_bug", "three_collectives"),
    ("scaling_bug", "narrow_on_many"), ("scaling_bug", "half_narrow_on_many"),
    ("compaction", "probes"), ("compaction", "alltoallv"), ("compaction", "gathers_floats_on_few"),
    ("compaction", "chain_unless_power"), ("compaction", "flags_of_all"), ("compaction", "sends_twice"),
    ("summa", "objects"), ("summa", "ring"), ("summa", "everything_on_flat"), ("summa", "flat"),
    ("summa", "through_the_first_of_a_row"),
    ("bfs", "sets"), ("bfs", "gathers_some"), ("bfs", "sends_all_again"), ("bfs", "fixed_levels"),
    ("list_ranking", "dictionaries"), ("list_ranking", "gathers_even"),
    ("list_ranking", "one_link_unless_few"), ("list_ranking", "stops_alone"),
    ("cg", "split_product"), ("cg", "one_sum"), ("cg", "reduce_and_bcast"), ("cg", "hidden_on_even"),
    ("work_stealing", "steals"), ("work_stealing", "rounds"), ("work_stealing", "static_parts"),
    ("work_stealing", "keeps_what_it_gives"), ("work_stealing", "asks_before_the_answer"),
]  # fmt: skip


def _missed(one: Taught) -> set[str]:
    """Return the checks that a submission misses in this process."""
    corpus = CORPORA[one.assignment]
    source = {**corpus.RIGHT, **corpus.WRONG}[one.name]
    text = source if isinstance(source, str) else source[0]
    if one.assignment not in ONE_DRAW:
        return missed_here(one.assignment, text)
    with mock.patch("labkit.grading.seeds.secrets.randbits", return_value=DRAW):
        return missed_here(one.assignment, text)


def test_there_are_enough_and_no_two_are_the_same() -> None:
    for name in CORPORA:
        kinds = [one.kind for one in SOURCES.values() if one.assignment == name]
        right, others = (15, 25) if name in ONE_DRAW else (10, 20)
        assert kinds.count("right") >= right
        assert len(kinds) - kinds.count("right") >= others
        texts = [one.content for one in TAUGHT if one.assignment == name]
        assert len(set(texts)) == len(texts)


@pytest.mark.slow
@pytest.mark.parametrize("which", FEW, ids=" ".join)
def test_a_few_get_what_they_deserve(which: tuple[str, str]) -> None:
    assert SOURCES[which].wronged(_missed(SOURCES[which])) == (set(), set())


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_what_is_right_for_the_ranks_that_are_always_asked_for_is_not_enough(name: str) -> None:
    """No draw may fall among those: else a program that knows them passes now and then."""
    checks = {check.name: check for check in ASSIGNMENTS[name].checks}
    check = checks.get("any_number") or checks["right"]
    assert isinstance(check, Correct)
    ranks = [{case.ranks for case in check.cases(Seed(7, draw))} for draw in range(600)]
    always = set.intersection(*ranks)
    assert all(max(drawn) > max(always) for drawn in ranks)


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_all_get_what_they_deserve(name: str) -> None:
    ours = [one for (of, _), one in SOURCES.items() if of == name and one.kind != "hostile"]
    wronged = {one.name: one.wronged(_missed(one)) for one in ours}
    assert {name: both for name, both in wronged.items() if any(both)} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", CORPORA)
def test_hostile_ones_pass_nothing_that_they_are_after(sandbox: Sandbox, name: str) -> None:
    assignment = ASSIGNMENTS[name]
    hostile = [one for (of, _), one in SOURCES.items() if of == name and one.kind == "hostile"]
    for one in hostile[:: max(1, len(hostile) // 4)]:  # all of them: benchmarks/grading_taught.py
        if one.name == "endless_asking":
            continue
        bench = SandboxBench(sandbox, one.content, assignment.function, assignment.also)
        draw = DRAW if name in ONE_DRAW else None
        trial = Trial(bench, Seed(7, draw), assignment.only_messages)
        for check in assignment.checks:
            if check.name in one.missed and trial.endless < 2:
                assert check.judge(trial).score < 1, f"{one.name} passes {check.name}"


def _given(name: str, function: str, *mended: tuple[str, str]) -> Any:
    """Return the program that students are given, with some of it mended."""
    cells = json.loads((COURSE / name / f"{name}.ipynb").read_text())["cells"]
    marks = [cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells]
    text = "".join(cells[marks.index(f"{name}_given")]["source"])
    for wrong, right in mended:
        assert wrong in text
        text = text.replace(wrong, right)
    scope: dict[str, Any] = {"np": np, "lk": lk}
    exec(text, scope)
    return scope[function]


def test_the_given_program_hangs_for_three_reasons_one_after_another() -> None:
    given = _given("deadlock", "hangs")

    def run(program: Any, tolerance: float, **how: Any) -> None:
        blocks = [np.full((2, 3), float(rank == 0)) for rank in range(6)]
        lk.run(lambda comm: program(comm, blocks[comm.rank], tolerance, 9), 6, **how)

    with pytest.raises(DeadlockError):
        run(given, 0.0)
    tags = ("below, down, tag=2", "below, down, tag=1"), ("above, up, tag=1", "above, up, tag=2")
    mended = _given("deadlock", "hangs", *tags)
    run(mended, 0.0)
    with pytest.raises(DeadlockError):
        run(mended, 0.0, model="lab,detached_below_bytes=0")
    with pytest.raises((DeadlockError, MismatchError)):
        run(mended, 0.2)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8, 12])
def test_the_bytes_that_explain_the_bug_are_those_that_the_engine_counts(ranks: int) -> None:
    given, buckets = _given("scaling_bug", "slow_places"), 6
    keys = [np.arange(rank + 3) % buckets for rank in range(ranks)]
    done = lk.run(lambda comm: given(comm, keys[comm.rank], buckets), ranks, trace=True)
    bug = module_of("scaling_bug")
    assert bug._GROWTH == "p"
    spans = done.phases[done.phases["phase"] == bug._PHASE].set_index("rank")
    messages = done.trace.messages
    for rank in range(ranks):
        begin_s, end_s = spans.loc[rank, ["begin_s", "end_s"]]
        own = messages[(messages["destination"] == rank) & messages["end_s"].between(begin_s, end_s, "right")]
        assert own["bytes"].sum() == bug._bytes_received(ranks, buckets)


def test_blocks_of_rows_are_unbalanced_and_dealt_rows_are_not_in_every_draw() -> None:
    """The worst number of ranks decides: blocks fail on one of them, dealt rows on none."""
    for seed in range(12):
        blocks = []
        for case in module_of("julia")._large(Seed(seed)):
            assert case.work is not None
            costs, p = np.array(case.work.seconds), case.ranks
            share = costs.sum() / p
            blocks.append(share / max(part.sum() for part in np.array_split(costs, p)))
            assert share / max(costs[r::p].sum() for r in range(p)) > 0.8
            assert share / _by_a_farmer_who_helps(costs, p) > 0.61
        assert min(blocks) < 0.58


def _by_a_farmer_who_helps(costs: Any, p: int) -> float:
    """Return the time until all rows are done, where rank 0 answers only after a row that it computes."""
    n, farmer, idle, asks = 0, 0.0, 0, [0.0] * (p - 1)
    while idle < p - 1 or n < len(costs):
        if asks and (asks[0] <= farmer or n == len(costs)):
            farmer = max(farmer, heapq.heappop(asks))
            if n < len(costs):
                heapq.heappush(asks, farmer + costs[n])
                n += 1
            else:
                idle += 1
        else:
            farmer += costs[n]
            n += 1
    return farmer


def test_a_task_takes_its_time_and_is_told_to_who_has_it_done_only(sandbox: Sandbox) -> None:
    source = (
        "def julia(comm, n, row):\n"
        "    try:\n        row(n)\n    except IndexError as error:\n        return str(error)\n"
    )
    case = module_of("julia")._case(1, 2, 3)
    bench = SandboxBench(sandbox, source, "julia")
    refused = bench.run(2, case.arguments, work=case.work)
    assert refused.results == ["there is no task 3: they are numbered from 0 to 2"] * 2
    assert refused.makespan_s < min(case.work.seconds)  # type: ignore[union-attr]
    own = "def julia(comm, n, row):\n    return [row(comm.rank), row(comm.rank)]\n"
    done = SandboxBench(sandbox, own, "julia").run(2, case.arguments, work=case.work, charges=False)
    assert done.tasks == [[0, 0], [1, 1]]
    seconds = case.work.seconds  # type: ignore[union-attr]
    assert done.makespan_s >= 2 * max(seconds[0], seconds[1])
    assert np.array_equal(done.results[1][0], case.work.results[1])  # type: ignore[union-attr]
