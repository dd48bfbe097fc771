"""A cluster that labkit has started ends with its owner, however that ends."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("ipyparallel")

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]

_OWNER = """
    import os, signal
    import labkit as lk

    cluster = lk.cluster(1)
    assert lk.run(lambda comm: comm.size, 1, cluster).results == [1]
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_cluster_dies_with_a_killed_owner():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_OWNER)], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr


_WITH_ITS_GUARD = """
    import os, signal
    import labkit as lk

    cluster = lk.cluster(2)
    assert lk.run(lambda comm: comm.size, 2, cluster).results == [2, 2]
    os.kill(cluster._parts.guard.pid, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_engines_and_controller_end_when_the_owner_and_its_guard_are_killed():
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(_WITH_ITS_GUARD)], capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
