"""A measured rank pays for the memory that it frees itself, never for that of the other ranks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/statm")

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
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, env={**os.environ}
    )
    most, left = map(int, done.stdout.split())
    return most, left


@pytest.mark.parametrize("computes", [("measured",), ("charged", "measured"), ("measured", "measured:0.5")])
def test_no_measured_rank_gives_back_what_others_have_freed(computes):
    most, left = given_back(*computes)
    assert most <= 1.5 * OWN_BYTES
    assert left <= OWN_BYTES  # after the run, all of it is given back


def test_the_heap_that_is_not_kept_is_given_back_by_one_rank():
    """What the test above would see if nothing were done: glibc's own way, in a run that measures nothing."""
    libc = os.confstr("CS_GNU_LIBC_VERSION") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ""
    if not libc or "MALLOC_TRIM_THRESHOLD_" in os.environ:
        pytest.skip("another C library, or one that was told otherwise")
    most, _ = given_back("charged")
    assert most > RANKS // 2 * OWN_BYTES
