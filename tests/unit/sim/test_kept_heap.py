"""A measured rank pays for the memory that it frees itself, never for that of the other ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm"),
    pytest.mark.skipif(
        "libasan" in os.environ.get("LD_PRELOAD", ""), reason="the checks' heap keeps what is freed"
    ),
]

OWN_BYTES, RANKS = 4 << 20, 24

PROGRAM = """
import os
import numpy as np
import labkit as lk

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def hold(comm):
    own = np.ones({own} // 8)
    comm.barrier()
    before = resident()
    del own
    return before - resident()

large = np.ones({own} // 8)
del large  # from here on glibc takes arrays of this size from the heap
for compute in {computes}:
    lk.run(hold, 2, compute=compute)  # imports
    before = resident()
    left = [max(lk.run(hold, {ranks}, compute=compute).results), resident() - before]
print(*left)
"""


def given_back(*computes: str) -> tuple[int, int]:
    """Return what one rank gave back at most, and what all left behind, bytes."""
    text = PROGRAM.format(own=OWN_BYTES, ranks=RANKS, computes=computes)
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    most, left = map(int, done.stdout.split())
    return most, left


@pytest.mark.parametrize("computes", [("measured",), ("charged", "measured"), ("measured", "measured:0.5")])
def test_no_measured_rank_gives_back_what_others_have_freed(computes):
    most, left = given_back(*computes)
    assert most <= 1.5 * OWN_BYTES
    assert left <= OWN_BYTES  # after the run, all of it is given back
