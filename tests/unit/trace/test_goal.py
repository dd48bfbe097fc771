"""GOAL in and out: times by hand, dependencies, round trips, refusals."""

import gzip

import numpy as np
import pytest

import labkit as lk
from labkit import registry
from labkit.errors import DataError, DeadlockError
from labkit.machines import models
from labkit.sim.replay import schedule_trace, without_collectives, write_goal
from labkit.sim.schedules import simulate
from labkit.trace.formats import read_actions
from tests.support.refusals import raises_code

RAW = {"on": "star", "model": "raw"}


def _time(size):
    return 2e-6 + (size + 16) / 1.25e9


def _file(folder, text, name="x.goal"):
    path = folder / name
    path.write_text(text)
    return path


def _goal(*ranks):
    return f"num_ranks {len(ranks)}\n" + "".join(f"rank {r} {{\n{text}\n}}\n" for r, text in enumerate(ranks))


def test_a_message_and_work_after_it(tmp_path):
    text = _goal(
        "l1: calc 1000\nl2: send 100b to 1 tag 7\nl2 requires l1",
        "a: recv 100b from 0 tag 7\nb: calc 500\nb requires a",
    )
    run = lk.replay(_file(tmp_path, text), **RAW)
    assert run.makespan_s == pytest.approx(1e-6 + _time(100) + 5e-7, rel=1e-12)
    assert (run.messages, run.bytes) == (1, 100)


def test_what_is_not_required_does_not_wait(tmp_path):
    """The receive is posted before the calculation, although it stands behind it."""
    text = _goal("send 1000000b to 1", "calc 5000000\nrecv 1000000b from 0\n")
    run = lk.replay(_file(tmp_path, text), **RAW)
    assert run.makespan_s == pytest.approx(5e-3, rel=1e-12)
    chained = _goal("send 1000000b to 1", "a: calc 5000000\nb: recv 1000000b from 0\nb requires a\n")
    assert lk.replay(_file(tmp_path, chained), **RAW).makespan_s == pytest.approx(
        5e-3 + _time(1000000), rel=1e-12
    )


def test_irequires_needs_the_start_only(tmp_path):
    first = "a: recv 8b from 0 tag 1\nb: send 8b to 0 tag 2\nb {} a"
    second = "x: recv 8b from 1 tag 2\ny: send 8b to 1 tag 1\ny requires x"
    run = lk.replay(_file(tmp_path, _goal(second, first.format("irequires"))), **RAW)
    assert run.makespan_s == pytest.approx(2 * _time(8), rel=1e-12)
    with raises_code(DeadlockError, "deadlock", "rank 0", "8", "1", "2"):
        lk.replay(_file(tmp_path, _goal(second, first.format("requires"))), **RAW)


def test_a_deadlock_names_sends_that_wait_and_tags_that_differ(tmp_path):
    both = "s: send {0}b to {1} tag 4\nr: recv {0}b from {1} tag 4\nr requires s"
    model = models.get("raw", detached_below_bytes=65536)
    lk.replay(_file(tmp_path, _goal(both.format(65535, 1), both.format(65535, 0))), "star:2", model=model)
    with raises_code(DeadlockError, "deadlock", "65,536 B", "waits for its receive"):
        lk.replay(_file(tmp_path, _goal(both.format(65536, 1), both.format(65536, 0))), "star:2", model=model)
    with raises_code(DeadlockError, "deadlock", "tag 3", "compare the tags"):
        lk.replay(_file(tmp_path, _goal("send 8b to 1 tag 3", "recv 8b from 0 tag 4")), "star:2", model=model)


def test_comments_gzip_and_free_form(tmp_path):
    text = "// made by hand\nnum_ranks 2\n/* two\nlines */ rank 0 { s1: send 8b to 1 tag 3 cpu 0 nic 0 }\n"
    text += "rank 1 {\nrecv 8 from 0 tag 3 }\n"
    (tmp_path / "x.gz").write_bytes(gzip.compress(text.encode()))
    assert lk.replay(tmp_path / "x.gz", **RAW).messages == 1


def test_further_processors_are_noted(tmp_path):
    body = "send 8b to 1 cpu {0}\ncalc 5 cpu {0}\nsend 8b to 1 nic {0}"
    for unit, said in ((0, False), (1, True)):
        run = lk.replay(_file(tmp_path, _goal(body.format(unit), "recv 8b from 0\nrecv 8b from 0")), **RAW)
        assert any("3 operations name a further cpu or nic" in note for note in run.notes) == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("num_ranks 0\n", ["line 1"]),
        ("num_ranks two\n", ["line 1", "'two'"]),
        ("num_ranks 1\nsend 8b to 0\n", ["line 2", "'send'"]),
        ("num_ranks 1\nrank 1 {\n}\n", ["line 2", "0 to 0", "'1'"]),
        ("num_ranks 1\nrank 0 {\n}\nrank 0 {\n}\n", ["line 4", "rank 0"]),
        ("num_ranks 1\nrank 0 {\nfly 8b\n}\n", ["line 3"]),
        ("num_ranks 1\nrank 0 {\na: calc -4\n}\n", ["line 3", "'-4'"]),
        ("num_ranks 1\nrank 0 {\na: calc 4\na: calc 4\n}\n", ["line 4", "'a'"]),
        ("num_ranks 1\nrank 0 {\na: calc 4\na requires b\n}\n", ["line 4", "'b'"]),
        (
            "num_ranks 1\nrank 0 {\na: calc 1\nb: calc 2\na requires b\nb requires a\n}\n",
            ["line 7", "rank 0"],
        ),
        ("num_ranks 1\nrank 0 {\ncalc 1 color 3\n}\n", ["line 3", "'color'"]),
        ("num_ranks 1\nrank 0 {\ncalc 1\n", ["line 3", "rank 0"]),
        ("num_ranks 1\nrank 0 {\n/* calc 1\n}\n", ["line 4", "rank 0"]),
    ],
)
def test_what_is_wrong_is_refused_with_its_line(tmp_path, text, words):
    with raises_code(DataError, "invalid-value", "x.goal", *words):
        lk.replay(_file(tmp_path, text), **RAW)


@pytest.mark.parametrize(
    ("problem", "name", "ranks", "size"),
    [
        ("bcast", "binomial", 7, 1000),
        ("allreduce", "ring", 5, 4000),
        ("alltoall", "bruck", 8, 64),
        ("gather", "binomial", 6, 512),
        ("barrier", "dissemination", 9, 0),
        ("reduce_scatter_block", "ring", 4, 256),
        ("alltoall", "linear", 6, 70_000),
    ],
)
def test_a_schedule_as_goal_takes_the_schedules_time(tmp_path, problem, name, ranks, size):
    schedule = registry.get(problem, name).build(ranks)
    expected = simulate(schedule, "star", "smpi", n_bytes=size)
    write_goal(tmp_path / "s.goal", schedule, n_bytes=size)
    run = lk.replay(tmp_path / "s.goal", "star", model="smpi")
    assert (run.messages, run.bytes) == (expected.messages, expected.bytes)
    assert run.makespan_s == pytest.approx(expected.makespan_s, rel=1e-9)
    trace = tmp_path / "s.txt"
    trace.write_bytes(schedule_trace(schedule, size))
    assert lk.replay(trace, "star", model="smpi").makespan_s == pytest.approx(expected.makespan_s, rel=1e-12)


def _program(comm):
    rank, p = comm.rank, comm.size
    lk.compute(seconds=1e-6 * (1 + rank))
    received = np.empty(500)
    requests = [comm.Irecv(received, (rank - 1) % p, 2), comm.Isend(np.ones(500), (rank + 1) % p, 2)]
    lk.compute(seconds=3e-6)
    for request in requests:
        request.Wait()
    comm.Allreduce(np.ones(100), np.empty(100))
    comm.Split(rank % 2, rank).Allgather(np.ones(5), np.empty(5 * (p // 2)))


def test_a_recorded_run_as_goal_takes_about_the_same_time(tmp_path):
    run = lk.run(_program, 8, "star", model="raw", trace_ti=tmp_path / "t.txt")
    write_goal(tmp_path / "t.goal.gz", tmp_path / "t.txt")
    again = lk.replay(tmp_path / "t.goal.gz", **RAW)
    assert (again.messages, again.bytes) == (run.messages, run.bytes)
    assert again.makespan_s == pytest.approx(run.makespan_s, rel=1e-3)


def test_a_trace_without_collectives_takes_the_same_time(tmp_path):
    run = lk.run(_program, 8, "star", trace_ti=tmp_path / "t.txt")
    (tmp_path / "flat.txt").write_bytes(without_collectives(tmp_path / "t.txt"))
    assert b"allreduce" not in (tmp_path / "flat.txt").read_bytes()
    assert lk.replay(tmp_path / "flat.txt", "star").makespan_s == pytest.approx(run.makespan_s, rel=1e-12)
    assert read_actions(tmp_path / "flat.txt").ranks == 8


def test_a_receive_that_goal_cannot_say_is_refused(tmp_path):
    path = _file(tmp_path, "0 irecv -1 0 8 6\n0 finalize\n1 compute 1\n", "t.txt")
    with pytest.raises(DataError):
        write_goal(tmp_path / "t.goal", path)
