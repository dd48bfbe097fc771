"""Clusters of engines: ids and ranks, refusals and error texts, with engines and clients that are made up."""

from __future__ import annotations

import platform

import pytest

import labkit as lk
from labkit.errors import MachineError, RankError, TimeLimitError
from labkit.real.engines import client as cluster_report
from labkit.real.engines.client import Reports, engine_failure
from labkit.real.engines.target import Target, choose, is_cluster
from tests.support.refusals import raises_code


def _about(rank, size=4, **more):
    return {
        "rank": rank, "size": size, "host": "here", "pid": 100 + rank, "cores": 2, "labkit": "1.0",
        "python": platform.python_version(), "library": "Open MPI",
    } | more  # fmt: skip


ENGINES = {7: _about(2), 8: _about(0), 9: _about(3), 11: _about(1)}


def test_ranks_decide_and_not_engine_ids():
    places = choose(ENGINES, 3, "1.0")
    assert [(place.rank, place.engine) for place in places] == [(0, 8), (1, 11), (2, 7)]


def test_view_of_some_engines_needs_the_first_ranks():
    first = {engine: ENGINES[engine] for engine in (8, 11)}
    assert [place.engine for place in choose(first, 2, "1.0")] == [8, 11]
    others = {engine: ENGINES[engine] for engine in (7, 8)}
    with raises_code(MachineError, "machine-failed", "rank 1"):
        choose(others, 2, "1.0")


def _without(about, *names):
    return {name: value for name, value in about.items() if name not in names}


@pytest.mark.parametrize(
    ("found", "ranks", "wanted"),
    [
        (ENGINES, 5, ("too-many-ranks", "5", "4", "labkit.cluster")),
        ({0: _about(0, 2), 1: _about(0, 2)}, 1, ("machine-failed",)),
        ({0: _about(0, 1), 1: _about(0, 1)}, 2, ("unsupported", "0", "1", "MPI", "labkit.cluster")),
        ({3: _without(_about(0), "rank", "size")}, 1, ("unsupported", "3", "MPI")),
        (
            {0: _about(0) | {"mpi_error": "ImportError: no"}},
            1,
            ("not-started", "mpi4py", "0", "ImportError"),
        ),
        ({0: _about(0, labkit="0.9")}, 1, ("version-mismatch", "0", "0.9", "1.0")),
        (
            {0: _without(_about(0), "labkit") | {"labkit_error": "No module"}},
            1,
            ("not-started", "1"),
        ),
        ({0: _about(0, labkit_error="boom")}, 1, ("machine-failed", "0")),
        ({0: _about(0, python="3.2.1")}, 1, ("version-mismatch", "0", "3.2.1")),
    ],
)
def test_engines_that_cannot_be_used_are_refused(found, ranks, wanted: tuple[str, ...]):
    with raises_code(MachineError, *wanted):
        choose(found, ranks, "1.0")


def test_names_and_platforms_are_no_clusters():
    assert not any(is_cluster(on) for on in ("mpi", "star:4", lk.platform("star:4"), None))


@pytest.mark.parametrize("name", ["cluster", "ipyparallel"])
def test_cluster_by_name_says_how_to_give_one(name):
    with raises_code(MachineError, "conflicting-options", "labkit.cluster", "4"):
        lk.run(lambda comm: None, 2, name)


def test_other_things_of_ipyparallel_are_refused():
    ipyparallel = pytest.importorskip("ipyparallel")
    with raises_code(MachineError, "not-started"):
        lk.run(lambda comm: None, 2, ipyparallel.Cluster(engines="mpi", n=2))
    with raises_code(MachineError, "conflicting-options"):
        lk.run(lambda comm: None, 2, ipyparallel.Cluster(engines="mpi", n=2), model="lab")


# -- error texts ---------------------------------------------------------------------------------------------


class _Client:
    cluster = None

    def __init__(self, ids):
        self.ids = ids


def _record(rank, status, **more):
    return {
        "rank": rank, "kind": status, "text": "", "time": float(rank), "place": [], "reason": "",
        "has_finished": status == "done", "output": b"", "shares": [], "leftover": [], "is_clean": True,
    } | more  # fmt: skip


def _fail(records, ids=(7, 8, 9, 11), **more):
    outcome = Reports(records={one["rank"]: one for one in records}, **more)
    places = choose(ENGINES, 4, "1.0")
    return engine_failure(Target(_Client(list(ids)), [7, 8, 9, 11], "do this"), places, outcome, 5.0, 1000)


def test_no_error_when_all_ranks_are_done():
    assert _fail([_record(rank, "done") for rank in range(4)]) is None


def test_first_failure_counts_and_interrupted_ranks_do_not():
    error = _fail([
        _record(0, "interrupted"), _record(1, "exception", time=9.0, text="E: late"),
        _record(2, "exception", time=8.0, text="E: early", output=b"said\n"), _record(3, "done"),
    ])  # fmt: skip
    assert isinstance(error, RankError)
    assert error.rank == 2
    assert error.traceback == "E: early"
    assert error.output == ["", "", "said\n", ""]


def test_time_limit_names_every_rank_and_what_to_do_about_the_stuck_one():
    place = [("/x/prog.py", 7, "program")]
    error = _fail(
        [_record(0, "interrupted", place=place), _record(1, "interrupted", place=place), _record(2, "done")],
        is_late=True, stuck=[3],
    )  # fmt: skip
    assert isinstance(error, TimeLimitError)
    said = (
        'ranks 0-1:\n  File "/x/prog.py", line 7, in program',
        "rank 2: had finished",
        "rank 3: could not be",
    )
    assert all(one in str(error) for one in said)
    assert "do this" in error.__notes__[0]


def test_time_limit_on_other_hosts_says_that_a_deadlock_is_not_recognized_there():
    waiting = [_record(rank, "interrupted") for rank in range(4)]
    error = _fail(waiting, is_late=True, sees_waits=False)
    assert "only on engines that labkit has started on this host" in error.__notes__[0]
    assert not hasattr(_fail(waiting, is_late=True), "__notes__")


def test_dead_engine_is_named():
    lost = RuntimeError("Engine 11 died")
    alive = [_record(rank, "interrupted") for rank in (0, 2, 3)]
    error = _fail(alive, ids=(7, 8, 9), lost={1: lost})
    assert isinstance(error, RankError)
    assert error.rank == 1
    assert "engine 11" in error.traceback


_WORDS = "The first process to do so was:\n\n   Process name: [prterun-vm-37@1,{}]\n   Exit code:    3\n"


@pytest.mark.parametrize(("rank", "kind"), [(2, RankError), (6, MachineError)])
def test_launcher_tells_which_of_the_dead_engines_was_first(rank, kind, tmp_path, monkeypatch):
    path = tmp_path / "engines.log"
    path.write_text(_WORDS.format(rank))
    monkeypatch.setattr(Target, "launcher_files", lambda self: [str(path)])
    error = _fail([], ids=(), lost={rank: RuntimeError("gone") for rank in range(4)})
    assert type(error) is kind
    assert all(fact in str(error) for fact in (f"rank {rank}", "exit status 3"))


def test_dead_engines_without_a_word_of_the_launcher(monkeypatch):
    monkeypatch.setattr(cluster_report, "_WORDS_S", 0.0)
    error = _fail([], ids=(), lost={rank: RuntimeError("gone") for rank in range(4)})
    assert isinstance(error, MachineError)
    assert "the engines of ranks 0-3 died" in str(error)


def test_interrupt_from_outside_is_told():
    error = _fail([_record(0, "interrupted"), *(_record(rank, "done") for rank in (1, 2, 3))])
    assert isinstance(error, MachineError)
    assert "rank 0 got an interrupt from outside" in str(error)
