"""What the start of a rank imports: with many ranks on few cores it is what a launch costs."""

from __future__ import annotations

import subprocess
import sys


def test_a_rank_starts_without_numpy_and_dataclasses() -> None:
    code = (
        "import sys; before = {*sys.modules}; import labkit.real.mpi.child; "
        "heavy = {'numpy', 'pandas', 'dataclasses', 'inspect', 'ctypes', 'json', 'threading'}; "
        "print(sorted(heavy & ({*sys.modules} - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


def test_a_launch_begins_without_the_algorithms() -> None:
    code = (
        "import sys; import labkit.real.mpi.client; "
        "print(sorted({'numpy', 'labkit.registry', 'labkit.selector', 'labkit.schedule'} & {*sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"
