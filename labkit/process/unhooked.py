"""A start without hooks at forks: ``python -m labkit.process.unhooked MODULE ...`` runs a module so.

Python's random and threading have something done in every child after a fork: other random numbers, new
locks. To a process that has one thread, and seeds its children, that is of no use, and each child pays for
it.
"""

from __future__ import annotations

import os
import runpy
import sys

__all__ = ["main"]


def main() -> None:
    """Run the module that is named first, with the arguments after it."""
    os.register_at_fork = _forget  # before a module is there that uses it
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _forget(**_: object) -> None:
    """Register nothing."""


if __name__ == "__main__":
    main()
