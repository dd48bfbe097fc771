"""Open MPI reads the rules that tuning writes, and acts on them: its own monitoring counts the messages."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import labkit as lk
from labkit.real.mpi.find import find_launcher
from labkit.selector import Situation
from labkit.selector.formats import read_rules
from labkit.tuning.tuned import Leaf, Tuned

pytestmark = pytest.mark.mpi

PROGRAM = """
import sys
import numpy as np
from mpi4py import MPI

data = np.zeros(int(sys.argv[2]), np.uint8)
every = np.zeros(4 * len(data), np.uint8)
given = {"bcast": (data,), "allgather": (data, every)}[sys.argv[1]]
for _ in range(7):
    getattr(MPI.COMM_WORLD, sys.argv[1].capitalize())(*given)
"""


def messages_of_the_root(rules: Path, operation: str, size: int, folder: Path) -> int:
    """Call it seven times among four ranks; how many messages rank 0 has sent for each."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    switches = {
        "coll_tuned_use_dynamic_rules": "1", "coll_tuned_dynamic_rules_filename": rules,
        "pml_monitoring_enable": "1", "pml_monitoring_enable_output": "3",
        "pml_monitoring_filename": folder / "mon",
    }  # fmt: skip
    words = [str(word) for name, value in switches.items() for word in ("--mca", name, value)]
    command = [find_launcher().path, "--allow-run-as-root", "--oversubscribe", "-n", "4", *words]
    subprocess.run(
        [*command, sys.executable, str(program), operation, str(size)],
        check=True,
        timeout=120,
        capture_output=True,
    )
    sent = re.findall(r"^E\t0\t\d+\t\d+ bytes\t(\d+) msgs", (folder / "mon.0.prof").read_text(), re.MULTILINE)
    assert sum(map(int, sent)) % 7 == 0
    return sum(map(int, sent)) // 7


@pytest.mark.parametrize(
    ("operation", "names", "messages"),
    [
        ("bcast", ("linear", "chain"), (3, 1)),
        ("allgather", ("ring", "recursive_doubling"), (3, 2)),  # Open MPI counts the blocks of all ranks
    ],
)
def test_it_takes_what_the_rules_say(operation, names, messages, tmp_path):
    tuned = lk.tune(operation, "star:4", [4], [8, 4096], library="ompi")
    everywhere, inf = (0.0, float("inf")), float("inf")
    planted = [
        Leaf(everywhere, (0.0, 1000.0), names[0], 0.0, 1),
        Leaf(everywhere, (1000.0, inf), names[1], 0.0, 1),
    ]
    changed = Tuned(tuned.operation, tuned.machine, tuned.times)
    changed.__dict__["tree"] = planted
    rules = changed.save(tmp_path / "rules.conf")
    for size, name, count in zip((999, 1000), names, messages, strict=True):
        assert messages_of_the_root(rules, operation, size, tmp_path) == count
        assert read_rules(rules).choose(Situation(operation, 4, size)) == name
