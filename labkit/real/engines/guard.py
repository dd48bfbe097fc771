"""Ends a cluster whose owner is gone, however it went: run as a separate process next to the cluster.

The owner holds the other end of standard input and never writes to it again after the first line, so reading
returns when the owner closes it or dies.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys

from labkit.process.tree import end_processes

__all__ = ["main"]


def main() -> None:
    """Read the cluster's token and folders, wait for the owner's end, then end what is left."""
    first = sys.stdin.readline()
    if not first:
        return
    token, folders, command = json.loads(first)
    sys.stdin.read()
    if command:  # what runs on other hosts
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    end_processes(token)
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
