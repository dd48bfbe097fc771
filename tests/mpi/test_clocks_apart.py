"""Ranks of a real run whose clocks differ by far: each in a time namespace of Linux."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk

pytestmark = pytest.mark.mpi

#: seconds by which the ranks' clocks are ahead
AHEAD_S = (0, 5, 100)


def ring(comm: Any) -> None:
    token = np.zeros(1)
    for _ in range(50):
        if comm.rank == 0:
            comm.Send(token, 1)
            comm.Recv(token, comm.size - 1)
        else:
            comm.Recv(token, comm.rank - 1)
            comm.Send(token, (comm.rank + 1) % comm.size)
    comm.Barrier()


def test_clocks_are_led_over_to_that_of_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = ["unshare", "--time", "--monotonic"]
    try:
        tried = subprocess.run([*apart, "5", "true"], capture_output=True, check=False).returncode
    except FileNotFoundError:
        tried = 1
    if tried:
        pytest.skip("no time namespaces for this user")
    lines = ["#!/bin/sh", 'case "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}" in']
    lines += [
        f'{rank}) exec {" ".join(apart)} {ahead} {sys.executable} "$@";;'
        for rank, ahead in enumerate(AHEAD_S)
        if ahead
    ]
    started = tmp_path / "python"
    started.write_text("\n".join([*lines, "esac", f'exec {sys.executable} "$@"', ""]))
    started.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(started))
    trace = lk.run(ring, len(AHEAD_S), "mpi", trace=True).trace
    for rank, ahead in enumerate(AHEAD_S):
        assert trace.clocks.is_own(rank) == (ahead > 0)
        assert trace.clocks.samples[rank][0].offset_s == pytest.approx(-ahead, abs=0.5)
    assert len(trace.messages) == 150
    under_way = trace.messages["end_s"] - trace.messages["send_posted_s"]
    assert under_way.abs().max() < 1  # uncorrected they would end seconds before they began, or after
    assert "the clocks of 2 of 3 ranks corrected to that of rank 0" in repr(trace)
