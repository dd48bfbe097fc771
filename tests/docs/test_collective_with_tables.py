"""A collective whose blocks are of any sizes is a folder and an entry, too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.test_contributing_examples import BEFORE

ALGORITHM = '''
"""All receives and all sends at once."""

from labkit.algorithms.alltoall import linear

ALGORITHM = linear.ALGORITHM.taken_as("hand_overv")
'''

PROGRAM = """
import numpy as np

import labkit as lk
from labkit import registry
from labkit.schedule import PROBLEMS, Problem, check

PROBLEMS["hand_overv"] = Problem(
    "hand_overv", "table", {"send": "all", "recv": "all"}, PROBLEMS["alltoallv"].final, doc="Hand over."
)
assert check(registry.get("hand_overv", "linear").build(5))


def program(comm):
    sizes = [other + 1 for other in range(comm.size)]
    given, taken = np.repeat(comm.rank, sum(sizes)), np.empty(comm.size * (comm.rank + 1), int)
    comm.Hand_overv([given, sizes], [taken, [comm.rank + 1] * comm.size])
    return taken.tolist()


assert lk.run(program, ranks=3, on="star").results == [
    [0, 1, 2], [0, 0, 1, 1, 2, 2], [0, 0, 0, 1, 1, 1, 2, 2, 2]
]
"""

UNREADABLE = """
from labkit.errors import ScheduleError
from labkit.schedule import PROBLEMS, Problem

PROBLEMS["shift_v"] = Problem("shift_v", "table", {"send": "one", "recv": "one"}, PROBLEMS["scan"].final)
try:
    from labkit import MPI
    MPI.COMM_WORLD
except ScheduleError as error:
    assert "shift_v: no reader of tables of sizes" in str(error)
else:
    raise AssertionError("nothing was said")
"""


def run(folder: Path, program: str) -> None:
    script = folder / "program.py"
    script.write_text(BEFORE + program)
    command = [sys.executable, "-P", "-W", "error", str(script)]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, ended.stderr


def test_it_is_a_folder_and_an_entry(tmp_path: Path) -> None:
    folder = tmp_path / "algorithms" / "hand_overv"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text('"""Blocks of any sizes, handed over."""\n')
    (folder / "linear.py").write_text(ALGORITHM)
    run(tmp_path, PROGRAM)


def test_a_form_without_a_reader_is_refused(tmp_path: Path) -> None:
    run(tmp_path, UNREADABLE)
