"""Mutated traces and GOAL: what comes back is a replay or a DataError with a file, never anything else."""

import gzip

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import labkit as lk
from labkit import _kernels
from labkit.errors import DataError, LabkitError

TRACE = b"""\
#+ comm 3 0-1
0 init
0 compute 1e6
0 isend 1 0 1024 6
0 irecv 1 5 8
0 waitall 2
0 sendRecv 10 1 10 1 6 6
0 bcast 100 0 0
0 allreduce 10 5e3 0 comm=3
0 alltoallv 4 2 2 4 2 2 6 6
0 gatherv 3 3 3 0 6 6
0 scatterv 1 1 1 0 6 6
0 reducescatter 4 4 10 0
0 test 0 1 0
0 wait 0 1 0 nth=1
0 finalize
1 init
1 recv 0 0 1024 6
1 send 0 5 8 mode=sync
1 sendRecv 10 0 10 0 6 6
1 bcast 100 0 0
1 allreduce 10 5e3 0 comm=3
1 alltoallv 4 2 2 4 2 2 6 6
1 gatherv 3 0 0 0 6 6
1 scatterv 0 0 1 0 6 6
1 reducescatter 4 4 10 0
1 sleep 1e-6
1 finalize
"""
GOAL = b"""\
num_ranks 2
rank 0 {
l1: calc 100
l2: send 10b to 1 tag 4
l2 requires l1
l3: recv 0b from 1 tag 5 cpu 0
l3 irequires l2
}
rank 1 {
l1: recv 10b from 0 tag 4
l2: send 0b to 0 tag 5 /* answer */
l2 requires l1
}
"""
INTERESTING = [
    *(b"", b"\n", b" ", b"-1", b"0", b"1", b"2", b"99999999999999999999", b"1e308", b"nan", b"4294967296"),
    *(b"comm=3", b"comm=9", b"nth=2", b"element=3", b"#+ comm 4 0-1:1\n", b"{", b"}", b":", b"requires"),
    *(b"/*", b"\x00", b"\xff\xfe", b"0 barrier\n", b"1 barrier\n", b"waitall 7", b"-333", b"2147483647"),
]


@st.composite
def mutated(draw, seed):
    """Words, lines or bytes of the text taken out, doubled, exchanged or put in."""
    data = seed
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(data)))
        length = draw(st.integers(0, 12))
        kind = draw(st.sampled_from(["cut", "put", "double", "byte", "line"]))
        if kind == "cut":
            data = data[:at] + data[at + length :]
        elif kind == "put":
            data = data[:at] + draw(st.sampled_from(INTERESTING)) + data[at:]
        elif kind == "double":
            data = data[:at] + data[at : at + length] * 2 + data[at + length :]
        elif kind == "byte":
            data = data[:at] + draw(st.binary(min_size=1, max_size=3)) + data[at + 1 :]
        else:
            lines = data.split(b"\n")
            first, second = (draw(st.integers(0, len(lines) - 1)) for _ in range(2))
            lines[first], lines[second] = lines[second], lines[first]
            data = b"\n".join(lines)
    return data


FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def _replay(path):
    try:
        run = lk.replay(path, "star", model="raw", timeout_s=20)
    except LabkitError as error:
        return str(error)
    return run.makespan_s


@pytest.mark.parametrize("seed", [TRACE, GOAL], ids=["trace", "goal"])
def test_the_seeds_themselves_are_replayed(tmp_path, seed):
    (tmp_path / "t").write_bytes(seed)
    assert _replay(tmp_path / "t") > 0


@FUZZ
@given(data=mutated(TRACE))
def test_mutated_traces(tmp_path, data):
    (tmp_path / "t").write_bytes(data)
    assert _replay(tmp_path / "t") == _replay(tmp_path / "t")


@FUZZ
@given(data=mutated(GOAL))
def test_mutated_goal(tmp_path, data):
    (tmp_path / "t").write_bytes(b"num_ranks 2\n" + data)
    _replay(tmp_path / "t")
    (tmp_path / "t").write_bytes(data)
    _replay(tmp_path / "t")


@FUZZ
@given(data=mutated(gzip.compress(TRACE, mtime=0)))
def test_mutated_packed_files(tmp_path, data):
    (tmp_path / "t").write_bytes(data)
    _replay(tmp_path / "t")


def _read(reader, data, cuts):
    """Feed in pieces; what was read, or what was said."""
    try:
        for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            reader.feed(data[begin:end])
        if hasattr(reader, "end"):
            reader.end()
        trace = reader.take()
    except DataError as error:
        return str(error)
    return (
        [trace.records(rank) for rank in range(trace.ranks)] if hasattr(trace, "records") else trace.actions
    )


@FUZZ
@given(data=mutated(TRACE), data_of_cuts=st.data())
def test_where_the_pieces_end_does_not_matter(data, data_of_cuts):
    cuts = sorted(data_of_cuts.draw(st.lists(st.integers(0, len(data)), max_size=5)))

    def reader():
        made = _kernels.TraceReader(2, 1 << 30)
        made.begin("t", -1)
        return made

    assert _read(reader(), data, cuts) == _read(reader(), data, [])
