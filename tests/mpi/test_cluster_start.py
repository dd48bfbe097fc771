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
