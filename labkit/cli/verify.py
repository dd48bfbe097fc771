"""``labkit verify bundle.zip``: check every hash, run the simulated part again, compare bit by bit."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING

from labkit.errors import MachineError

if TYPE_CHECKING:
    from labkit.study.bundle import BundleVerification

__all__ = ["EXIT_CODES", "configure", "execute"]

#: by `Verification.outcome`; 3: damaged, changed, hostile, no bundle, of a newer format
EXIT_CODES = {"same": 0, "whole": 0, "differs": 1, "undecided": 2}

_DESCRIPTION = """\
Verify a bundle that study.bundle("study.zip") wrote: its structure, the SHA-256 of every file, the versions;
then run the simulated part again and compare each row with the one in the bundle, bit by bit. Rows of real
machines are only checked for presence.

RUNNING IT AGAIN EXECUTES THE PROGRAM IN THE BUNDLE, with limits of time and memory; where the system permits
it, it can write nowhere but in a temporary folder and has no network (see the report). It can read
what you can read. On a terminal you are asked first. For a bundle whose author you do not trust: --no-run.
"""
_EPILOG = """\
exit code: 0 whole and the same, 1 rows differ, 2 undecided (could not be run again, or wrong usage),
3 refused (damaged, changed, no bundle, of a newer format)
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit verify``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("bundle", help="the zip")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--no-run", action="store_true", help="check only; run nothing from the bundle")
    choice.add_argument("--run", action="store_true", help="run its program without asking")
    add(
        "--timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="total time limit of all runs in seconds (default: 600)",
    )
    add(
        "--memory",
        type=float,
        default=4.0,
        metavar="GIB",
        help="memory limit of the program in GiB, in addition to Python's (default: 4)",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Verify, print what was found, and return the exit code.

    Raises DataError: The bundle is refused: exit code 3.
    """
    from labkit.study.bundle import verify

    is_to_run = not arguments.no_run
    if is_to_run and not arguments.run:
        verify(arguments.bundle, run=False)  # a bundle that is refused asks for no decision
        is_to_run = _may_run(arguments.bundle)
    found = verify(
        arguments.bundle,
        run=is_to_run,
        timeout_s=arguments.timeout,
        memory_bytes=_bytes(arguments.memory),
        progress=_show if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    code = EXIT_CODES[found.outcome]
    print(json.dumps({**found.to_dict(), "exit": code}, default=str) if arguments.json else _text(found))
    return code


def _bytes(gib: float) -> int:
    """Return a limit of memory in bytes."""
    if not 1 / 16 <= gib < 1 << 20:  # NaN is refused, too
        raise MachineError(f"--memory must be at least 0.0625 GiB, got {gib:g}", code="out-of-range")
    return int(gib * (1 << 30))


def _text(found: BundleVerification) -> str:
    text = repr(found)
    if found.outcome == "whole" and not found.was_run:
        text += (
            "\n  to run its simulated part again: labkit verify --run (this executes the bundle's program)"
        )
    return text


def _may_run(name: str) -> bool:
    """Explain what running means; ask if the input is a terminal."""
    print(
        f"labkit verify: running the simulated part of {name} again executes the program in it, which "
        "can read what you can read (--no-run only checks)",
        file=sys.stderr,
    )
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return True
    print("Run it? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _show(done: int, wanted: int) -> None:
    print(f"\r{done} of {wanted} runs", end="", file=sys.stderr, flush=True)
