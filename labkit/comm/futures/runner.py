"""The runner of ``-m mpi4py.futures``, for programs that import it."""

from __future__ import annotations

from typing import NoReturn

from labkit.errors import UnsupportedError

__all__ = ["main"]


def main() -> NoReturn:
    """Refuse: a job has its pool from its start, or none."""
    raise UnsupportedError(
        "a simulated job becomes a pool where it starts: labkit run -n 5 -m mpi4py.futures prog.py; in a "
        "program that runs already, use MPIPoolExecutor"
    )
