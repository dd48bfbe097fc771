"""Traces read and replayed: times by hand, requests by key, collectives, refusals."""

import gzip
import resource

import pytest

import labkit as lk
from labkit.errors import DataError, DeadlockError, PlatformError, ScheduleError, TimeLimitError
from labkit.trace.formats.ti_writer import write_actions, write_plain
from tests.support.refusals import raises_code

#: without factors, overheads and cross-traffic: 1 us a link and direction, 1.25 GB/s, 16 bytes of envelope
RAW = {"on": "star", "model": "raw"}


def _time(size):
    return 2e-6 + (size + 16) / 1.25e9


def _file(folder, text, name="trace.txt"):
    path = folder / name
    path.write_text(text)
    return path


def test_compute_and_sleep_take_their_time(tmp_path):
    run = lk.replay(_file(tmp_path, "0 init\n0 compute 2e9\n0 sleep 0.25\n0 finalize\n"), **RAW)
    assert run.makespan_s == 2.25
    assert run.messages == 0
    assert run.machine["actions"] == 2


def test_a_message_is_a_message(tmp_path):
    run = lk.replay(_file(tmp_path, "0 send 1 7 100 0\n1 recv 0 7 100 0\n"), **RAW)
    assert run.makespan_s == pytest.approx(_time(800), rel=1e-12)
    assert (run.messages, run.bytes) == (1, 800)


@pytest.mark.parametrize(("word", "element"), [("", 1), (" 1", 8)])
def test_the_default_datatype_is_what_init_says(tmp_path, word, element):
    run = lk.replay(_file(tmp_path, f"0 init{word}\n0 send 1 0 10\n1 init{word}\n1 recv 0 0 10\n"), **RAW)
    assert run.bytes == 10 * element


def test_a_wait_takes_the_oldest_request_of_its_key(tmp_path):
    """The second message is large: a wait for it alone would end much later than one for the first."""
    lines = ["0 isend 1 0 0 6", "0 isend 1 0 1250000 6", "0 waitall 2"]
    lines += ["1 irecv 0 0 0 6", "1 irecv 0 0 1250000 6", "1 wait 0 1 0", "1 send 0 1 0 6"]
    lines += ["0 recv 1 1 0 6", "1 wait 0 1 0"]
    run = lk.replay(_file(tmp_path, "\n".join(lines)), **RAW)
    assert run.machine["finish_s"][1] == pytest.approx(_time(1250000), rel=1e-3)
    assert not run.notes


def test_a_wait_without_a_request_goes_on_and_is_told(tmp_path):
    run = lk.replay(_file(tmp_path, "0 wait 0 0 3\n0 compute 1e9\n"), **RAW)
    assert run.makespan_s == 1.0
    assert "1 wait found no open request" in run.notes[0]


GOAL = "num_ranks 2\nrank 0 {\nl1: send 8b to 1 tag 5\n}\nrank 1 {\nl1: calc 5\n}\n"


@pytest.mark.parametrize(
    ("text", "name", "words"),
    [
        ("0 send 1 7 3\n0 isend 1 8 3\n1 compute 1\n", "trace.txt", ("2 messages", "rank 1 with tag 7")),
        ("0 send 1 7 3\n1 recv 0 7 3\n0 bcast 8\n1 bcast 8\n", "trace.txt", ()),
        (GOAL, "trace.goal", ("1 message", "from rank 0 to rank 1 with tag 5")),
    ],
)
def test_what_nobody_receives_is_reported(tmp_path, text, name, words):
    notes = " ".join(lk.replay(_file(tmp_path, text, name), **RAW).notes)
    assert ("never received" in notes) == bool(words)
    assert all(word in notes for word in words)


@pytest.mark.parametrize("action", ["send 1 0 3", "barrier", "init", "repeat 3", "wait 0 1 0"])
def test_calls_after_finalize_are_refused(tmp_path, action):
    text = f"0 init\n0 finalize\n0 {action}\n1 recv 0 0 3\n"
    with raises_code(DataError, "invalid-value", "line 3", "finalize", "rank 0"):
        lk.replay(_file(tmp_path, text), **RAW)


def test_computation_and_a_place_after_finalize_are_read(tmp_path):
    text = "0 init\n0 finalize\n0 compute 2e9\n"
    assert lk.replay(_file(tmp_path, text), **RAW).makespan_s == 2.0


def test_what_was_never_waited_for_is_waited_for_at_the_end(tmp_path):
    run = lk.replay(_file(tmp_path, "0 isend 1 0 1000000 6\n1 sleep 1\n1 recv 0 0 1000000 6\n"), **RAW)
    assert run.machine["finish_s"][0] == pytest.approx(1 + _time(1000000), rel=1e-12)


def test_a_test_that_succeeds_takes_the_request(tmp_path):
    lines = ["0 send 1 0 8 6", "1 irecv 0 0 8 6", "1 sleep 1", "1 test 0 1 0", "1 wait 0 1 0"]
    run = lk.replay(_file(tmp_path, "\n".join(lines)), **RAW)
    assert run.notes
    assert 1.0 <= run.makespan_s < 1.001


def test_files_of_one_rank_each_in_a_list_and_packed(tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "a").write_bytes(gzip.compress(b"# a comment\n\n0 send 1 0 8\n"))
    _file(tmp_path / "parts", "1 recv 0 0 8\n", "b")
    path = _file(tmp_path, "parts/a\nparts/b\n", "list.txt")
    merged = _file(tmp_path, "0 send 1 0 8\n1 recv 0 0 8\n")
    assert lk.replay(path, **RAW).makespan_s == lk.replay(merged, **RAW).makespan_s


def test_a_list_of_one_file_holds_all_ranks(tmp_path):
    _file(tmp_path, "0 send 1 0 8\n1 recv 0 0 8\n", "all.txt")
    assert lk.replay(_file(tmp_path, "all.txt\n", "list.txt"), **RAW).ranks == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 send 1 0\n1 recv 0 0 8\n", ["trace.txt, line 1"]),
        ("0 fly 1\n", ["line 1", "'fly'"]),
        ("0 compute much\n", ["line 1", "'much'"]),
        ("0 compute -1\n", ["line 1", "'-1'"]),
        ("0 sleep inf\n", ["line 1", "'inf'"]),
        ("0 send 4 0 8\n1 recv 0 0 8\n", ["line 1", "'4'"]),
        ("0 send 1 0 8 99\n1 barrier\n", ["line 1", "'99'"]),
        ("0 send 1 0 1.5\n1 barrier\n", ["line 1", "'1.5'"]),
        ("0 send 1 -2 8\n1 barrier\n", ["line 1", "'-2'"]),
        ("0 recv -5 0 8\n", ["line 1", "'-5'"]),
        ("0 barrier\n2 barrier\n", ["rank 1"]),
        ("0 barrier\n-1 barrier\n", ["line 2", "'-1'"]),
        ("0 alltoallv 1 1 1 1 1\n1 barrier\n", ["line 1", "alltoallv"]),
        ("0 bcast 1 2\n1 bcast 1 2\n", ["line 1", "'2'"]),
        ("0 allgather 1 2 6 6\n", ["line 1"]),
        ("0 barrier comm=3\n", ["line 1", "comm=3"]),
        ("#+ comm 3 0-0\n0 barrier comm=3\n1 barrier comm=3\n", ["line 3", "rank 1"]),
        ("0 barrier color=3\n", ["line 1", "'color=3'"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused_with_its_line(tmp_path, text, words):
    with raises_code(DataError, "invalid-value", *words):
        lk.replay(_file(tmp_path, text), **RAW)


def test_a_line_of_another_rank_is_refused(tmp_path):
    _file(tmp_path, "1 barrier\n", "a")
    _file(tmp_path, "1 barrier\n", "b")
    with raises_code(DataError, "invalid-value", "line 1", "rank 1", "rank 0"):
        lk.replay(_file(tmp_path, "a\nb\n"), **RAW)


def test_a_missing_file_of_a_list_is_named_with_its_line(tmp_path):
    with raises_code(DataError, "malformed-line", "trace.txt", "line 1", "'nowhere.txt'"):
        lk.replay(_file(tmp_path, "nowhere.txt\n"), **RAW)


def test_a_damaged_file_is_refused(tmp_path):
    with raises_code(DataError, "malformed-line"):
        lk.replay(_file(tmp_path, "0\n"), **RAW)
    with raises_code(DataError, "damaged-file"):
        lk.replay(_file(tmp_path, ""), **RAW)
    (tmp_path / "t.gz").write_bytes(gzip.compress(b"0 barrier\n" * 1000)[:-20])
    with raises_code(DataError, "unreadable-file", "t.gz"):
        lk.replay(tmp_path / "t.gz", **RAW)
    with raises_code(DataError, "missing-file"):
        lk.replay(tmp_path / "nothing", **RAW)


def test_a_deadlock_names_ranks_lines_and_the_cycle(tmp_path):
    text = "0 compute 1\n0 recv 1 0 8 6\n1 recv 0 3 8 6\n2 compute 5\n"
    with pytest.raises(DeadlockError) as caught:
        lk.replay(_file(tmp_path, text), **RAW)
    report = str(caught.value)
    assert "2 of 3 ranks" in report
    assert "rank 0: recv 1 0 8 at" in report
    assert "trace.txt, line 2" in report
    assert "trace.txt, line 3" in report
    assert "cycle: rank 0 waits for rank 1 waits for rank 0" in report


def test_a_collective_somebody_never_comes_to_is_a_deadlock(tmp_path):
    with raises_code(DeadlockError, "deadlock", "rank 0", "4", "8", "line 1"):
        lk.replay(_file(tmp_path, "0 allreduce 4 0 0\n1 compute 1\n"), **RAW)


def test_ranks_in_different_collectives_are_a_mistake(tmp_path):
    with raises_code(DataError, "invalid-value", "line 2", "rank 1", "4", "8"):
        lk.replay(_file(tmp_path, "0 allreduce 4 0 0\n1 bcast 4 0 0\n"), **RAW)


def test_a_message_longer_than_its_receive_is_a_mistake(tmp_path):
    with raises_code(DataError, "invalid-value", "line 2", "rank 1", "0", "8"):
        lk.replay(_file(tmp_path, "0 send 1 0 16\n1 recv 0 0 8\n"), **RAW)
    assert lk.replay(_file(tmp_path, "0 send 1 0 16\n1 recv 0 0 -1\n"), **RAW).bytes == 16


def test_the_time_limit_ends_a_replay(tmp_path):
    path = _file(tmp_path, "0 compute 1\n" * 200_000)
    with raises_code(TimeLimitError, "time-limit", "0.0001 s"):
        lk.replay(path, timeout_s=0.0001, **RAW)


def test_machines_and_algorithms_are_refused_as_in_run(tmp_path):
    path = _file(tmp_path, "0 barrier\n1 barrier\n")
    with raises_code(PlatformError, "too-many-ranks", "2"):
        lk.replay(path, on="star:1")
    with pytest.raises(ScheduleError):
        lk.replay(path, coll={"allreduce": "magic"})


def test_collectives_of_a_part_of_the_ranks(tmp_path):
    lines = ["#+ comm 1 0-2:2", "0 bcast 1000 0 6 comm=1", "2 bcast 1000 0 6 comm=1", "1 compute 1"]
    run = lk.replay(_file(tmp_path, "\n".join(lines)), coll={"bcast": "binomial"}, **RAW)
    assert run.messages == 1
    assert run.machine["finish_s"][2] == pytest.approx(_time(1000), rel=1e-12)


def test_flops_of_a_reduction_follow_it(tmp_path):
    def makespan_s(flops):
        text = f"0 allreduce 1 {flops} 0\n1 allreduce 1 {flops} 0\n"
        return lk.replay(_file(tmp_path, text), **RAW).makespan_s

    assert makespan_s(3e9) == pytest.approx(makespan_s(0) + 3.0, rel=1e-12)


def _wavefront(comm, steps):
    """Planes one after another inside steps, as an SSOR sweep does; an object is summed up in between."""
    for _ in range(steps):
        for _ in range(6):
            if comm.rank:
                comm.recv(source=comm.rank - 1)
            lk.compute(1e3 * (comm.rank + 1))
            if comm.rank + 1 < comm.size:
                comm.send(b"x" * 100, dest=comm.rank + 1)
        comm.allreduce(1.0)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8])
def test_a_recorded_loop_is_written_once_and_replays_the_same(tmp_path, ranks):
    sizes, plain = {}, tmp_path / "plain.txt"
    for steps in (7, 40, 41, 400):
        path = tmp_path / f"{steps}.txt"
        run = lk.run(_wavefront, ranks, "star", args=(steps,), trace_ti=path)
        sizes[steps] = path.stat().st_size
        again = lk.replay(path, f"star:{ranks}")
        assert again.makespan_s == pytest.approx(run.makespan_s, rel=1e-12)
        assert again.messages == run.messages
        assert write_plain(plain, path) == plain
        text = plain.read_text()
        assert " repeat " not in text
        assert (
            sum(" init" not in line and " finalize" not in line for line in text.splitlines())
            == (again.machine["actions"])
        )
        assert lk.replay(plain, f"star:{ranks}").machine["finish_s"] == again.machine["finish_s"]
    assert sizes[400] - sizes[40] <= ranks * 8  # a digit of the count
    assert sizes[400] < 700 * ranks


def test_loops_of_many_files_and_packed_ones_are_written_out(tmp_path):
    for rank in range(2):
        lines = [f"{rank} repeat 3", f"#+ {rank} phase begin a", f"{rank} barrier", f"#+ {rank} phase end a"]
        _file(tmp_path, "\n".join([*lines, f"{rank} end"]), f"{rank}.txt")
    listed = _file(tmp_path, "0.txt\n1.txt\n", "list.txt")
    path = write_plain(tmp_path / "plain.txt.gz", listed)
    text = gzip.decompress(path.read_bytes()).decode()
    assert text.count("barrier\n") == text.count("phase begin a\n") == 6
    assert lk.replay(path, **RAW).makespan_s == lk.replay(listed, **RAW).makespan_s
    with pytest.raises(DataError):
        write_plain(tmp_path / "other.txt", _file(tmp_path, "0 repeat 3\n0 barrier\n"))
    assert not (tmp_path / "other.txt").exists()


def test_loops_without_end_are_written_line_by_line_until_the_disk_is_full(tmp_path):
    loop = "0 repeat 1000000000\n0 repeat 1000\n0 compute 1\n0 end\n0 end\n"
    with raises_code(DataError, "unwritable-file", "dev/full"):
        write_plain("/dev/full", _file(tmp_path, loop))


def _without_room(write):
    """Call what writes where a file may have 4 kB at most, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with raises_code(DataError, "unwritable-file"):
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("is_folder", [False, True])
def test_no_part_of_a_trace_is_left_on_a_full_disk(tmp_path, is_folder):
    target = tmp_path / "traces"
    if is_folder:
        target.mkdir()
    _without_room(lambda: write_actions(target, 2, lambda rank: b"0 compute 1\n" * 1000))
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_no_part_of_a_plain_trace_is_left_on_a_full_disk(tmp_path):
    loop = _file(tmp_path, "0 repeat 100000\n0 compute 1\n0 end\n")
    _without_room(lambda: write_plain(tmp_path / "plain.txt", loop))
    assert not (tmp_path / "plain.txt").exists()


def test_a_loop_of_nearly_no_end_meets_the_limit(tmp_path):
    path = _file(tmp_path, "0 repeat 1000000000000\n0 compute 0\n0 end\n0 recv 0 0 1\n")
    with pytest.raises(TimeLimitError):
        lk.replay(path, timeout_s=0.5, **RAW)
