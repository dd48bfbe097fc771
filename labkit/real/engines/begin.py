"""Becomes an MPI engine whose waits can be noted: ``python -m labkit.real.engines.begin ARGUMENT...``.

What notes calls of MPI has to be there before MPI is; the arguments are those of ipyparallel's engine.
"""

from __future__ import annotations

from labkit.real.mpi.loopback import restore_preload
from labkit.real.mpi.waits_library import load_library

__all__ = ["main"]


def main() -> None:
    """Load the library, and become the engine."""
    restore_preload()
    load_library()
    from ipyparallel.engine.app import main as engine

    engine()


if __name__ == "__main__":
    main()
