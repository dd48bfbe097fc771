"""Python's hash seed, by which the order of sets of texts differs from process to process.

A program that goes through such a set and sends messages on the way is another program under another seed.
Workers of this host are all given the seed of this process where it is known (PYTHONHASHSEED), and the study
is that of a serial sweep whatever the program does. A seed that Python has drawn cannot be handed on: then
one point is run under two seeds, and a program that tells them apart is not spread.
"""

from __future__ import annotations

import os
import sys

__all__ = ["fingerprint", "known_seed", "workers_seed"]


def fingerprint() -> int:
    """Return a number that two processes with the same hash seed agree on."""
    return hash("labkit")


def known_seed() -> str | None:
    """Return the hash seed of this process; None if Python has drawn it."""
    if not sys.flags.hash_randomization:
        return "0"
    given = "" if sys.flags.ignore_environment else os.environ.get("PYTHONHASHSEED", "")
    return given if given.isdecimal() else None


def workers_seed() -> str:
    """Return the hash seed that all workers of this host get."""
    return known_seed() or "0"
