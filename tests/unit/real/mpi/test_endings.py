"""What launchers say, as recorded from Open MPI 5.0.11, Open MPI 4.1.4 and MPICH 5.0.2."""

from __future__ import annotations

import pytest

from labkit.real.failure import Ending, read_ending, telling_line

RULE = "-" * 74

OPEN_MPI_5_EXIT = f"""{RULE}
prterun detected that one or more processes exited with non-zero status,
thus causing the job to be terminated. The first process to do so was:

   Process name: [prterun-vm-9200@1,1]
   Exit code:    3
{RULE}
"""
OPEN_MPI_4_EXIT = """
mpiexec detected that one or more processes exited with non-zero status, thus causing
the job to be terminated. The first process to do so was:

  Process name: [[26466,1],1]
  Exit code:    3
"""
OPEN_MPI_5_SIGNAL = (
    "prterun noticed that process rank 1 with PID 9228 on node vm exited on\nsignal 9 (Killed)."
)
OPEN_MPI_4_SIGNAL = (
    "mpiexec noticed that process rank 2 with PID 0 on node vm exited on signal 11 (Segmentation fault)."
)
OPEN_MPI_5_IMPROPER = (
    "prterun has exited due to process rank 1 with PID 9216 on node vm exiting\nimproperly. There"
)
OPEN_MPI_5_ABORT = """
MPI_ABORT was invoked on rank 0 in communicator MPI COMMUNICATOR 3 SPLIT FROM 0
  Proc: [[36896,1],1]
  Errorcode: 5

prterun has exited due to process rank 1 with PID 0 on node vm calling
"abort". This may have caused other processes
"""
OPEN_MPI_4_ABORT = """
MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD
with errorcode 7.
"""
MPICH_ABORT = (
    "Abort(5) on node 1 (rank 1 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 5) - process 1"
)
MPICH_BAD = """
=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES
=   PID 31103 RUNNING AT vm
=   EXIT CODE: 9
"""


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        (OPEN_MPI_5_EXIT, Ending(1, status=3)),
        (OPEN_MPI_4_EXIT, Ending(1, status=3)),
        (OPEN_MPI_5_SIGNAL, Ending(1, signal=9)),
        (OPEN_MPI_4_SIGNAL, Ending(2, signal=11)),
        (OPEN_MPI_5_IMPROPER, Ending(1, status=0)),
        (OPEN_MPI_5_ABORT, Ending(1, abort=5)),
        (OPEN_MPI_4_ABORT, Ending(1, abort=7)),
        (MPICH_ABORT, Ending(1, abort=5)),
        (MPICH_BAD, Ending(4, signal=9)),
        (MPICH_BAD + "[mpiexec@vm] Exit codes: [vm] 9,768,9\n", Ending(1, status=3)),
        ("[mpiexec@vm] Exit codes: [a] 0,9 [b] 0,0", Ending(1, signal=9)),
        ("[mpiexec@vm] Exit codes: [vm] 9,9,11,9", Ending(2, signal=11)),
        ("[mpiexec@vm] Exit codes: [vm] 0,0,0,0", None),
        ("something else entirely", None),
        ("", None),
    ],
)
def test_ending(text, ending):
    assert read_ending(text, {31103: 4}) == ending


def test_endings_are_said_in_words():
    assert Ending(1, signal=9).text().startswith("was ended by signal 9 (SIGKILL); unless someone sent it")
    assert Ending(1, signal=11).text() == "was ended by signal 11 (SIGSEGV)"
    assert Ending(1, signal=99).text() == "was ended by signal 99 (unknown)"
    assert "exit status 3" in Ending(1, status=3).text()
    assert Ending(1, abort=5).text() == "aborted all ranks with error code 5"


def test_the_line_that_says_something():
    assert telling_line(f"\n{RULE}\n==  ==\nno slots left\nmore") == "no slots left"
    assert telling_line("") == "it printed nothing"
