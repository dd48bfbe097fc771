"""The MPICH that some tests of real MPI run under, too: ``make build/mpich/bin/mpiexec`` puts it there."""

from __future__ import annotations

from pathlib import Path

import pytest

__all__ = ["MPICH", "needs_mpich"]

#: its mpiexec
MPICH = Path(__file__).parents[2] / "build/mpich/bin/mpiexec"

needs_mpich = pytest.mark.skipif(
    not MPICH.exists(), reason="no MPICH in build/mpich; make build/mpich/bin/mpiexec puts it there"
)
