"""The server of workers that other jobs connect to: it needs separate processes."""

from __future__ import annotations

from typing import NoReturn

from labkit.errors import UnsupportedError

__all__ = ["main"]


def main() -> NoReturn:
    """Refuse: jobs cannot connect to a simulated one."""
    raise UnsupportedError(
        "mpi4py.futures.server waits for other jobs to connect, and a simulated job is alone; start the pool "
        "with -m mpi4py.futures, or run on real MPI (--on mpi)"
    )


if __name__ == "__main__":
    main()
