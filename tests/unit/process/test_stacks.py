"""Reading the stacks that ranks write, and naming groups of ranks."""

from __future__ import annotations

from pathlib import Path

import labkit
from labkit.process.stacks import Frame, is_framework, places_text, read_stack
from labkit.text.units import ranks_text

TWO_THREADS = """\
Thread 0x00007f10 (most recent call first):
  File "/x/labkit/real/mpi/child.py", line 300 in _die_with_parent
  File "/usr/lib/python3.11/threading.py", line 982 in run

Current thread 0x00007f20 (most recent call first):
  File "/home/me/prog.py", line 7 in inner
  File "/home/me/prog.py", line 12 in program
  File "/x/labkit/real/mpi/child.py", line 190 in _until_exit
  File "/x/labkit/real/mpi/child.py", line 170 in run
"""


def test_stack_of_the_program_outermost_first(tmp_path):
    path = tmp_path / "stack"
    path.write_text(TWO_THREADS)
    assert read_stack(path) == [
        Frame("/home/me/prog.py", 12, "program"),
        Frame("/home/me/prog.py", 7, "inner"),
    ]


def test_frames_between_the_program_and_mpi_are_left_out_wherever_labkit_lies(tmp_path):
    path = tmp_path / "stack"
    path.write_text(
        "Current thread 0x00007f20 (most recent call first):\n"
        '  File "/x/labkit/trace/recorder/recorder.py", line 97 in noted\n'
        '  File "/x/labkit/trace/recorder/ledger.py", line 54 in call\n'
        '  File "/x/labkit/comm/surface.py", line 2 in recv\n'
        '  File "/x/labkit/algorithms/sorting/sample_sort.py", line 30 in exchange\n'
        '  File "/home/me/comm/prog.py", line 12 in program\n'
        '  File "/x/labkit/real/program.py", line 190 in run\n'
    )
    assert read_stack(path) == [
        Frame("/home/me/comm/prog.py", 12, "program"),
        Frame("/x/labkit/algorithms/sorting/sample_sort.py", 30, "exchange"),
    ]


def test_what_runs_programs_is_told_from_programs():
    package = Path(labkit.__file__).parent
    for file in (
        "launch/run.py", "result/run.py", "program/context.py", "comm/surface.py", "trace/recorder/ledger.py",
        "schedule/execute.py",
    ):  # fmt: skip
        assert (package / file).exists()
        assert is_framework(str(package / file))
    assert not is_framework(str(package / "timing" / "bench.py"))
    assert not is_framework(str(package / "algorithms" / "sorting" / "sample_sort.py"))
    assert not is_framework("/home/me/labkit/comm/prog.py")


def test_no_stack(tmp_path):
    assert read_stack(tmp_path / "missing") == []
    (tmp_path / "empty").write_text("")
    assert read_stack(tmp_path / "empty") == []


def test_groups_of_ranks():
    assert ranks_text([3]) == "rank 3"
    assert ranks_text([0, 1, 2, 5, 7, 8]) == "ranks 0-2, 5, 7-8"


def test_places_are_shown_with_their_ranks(tmp_path):
    path = tmp_path / "prog.py"
    path.write_text("one\ntwo = comm.recv()\n")
    places = {(Frame(str(path), 2, "program"),): [0, 1], "had finished": [2]}
    assert places_text(places) == (
        f'ranks 0-1:\n  File "{path}", line 2, in program\n    two = comm.recv()\nrank 2: had finished'
    )
