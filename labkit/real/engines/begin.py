"""Becomes an engine or the controller: ``python -m labkit.real.engines.begin engine|controller ARGUMENT...``.

Both end with the owner of the cluster, also when it and its guard are killed together. What notes an engine's
calls of MPI has to be there before MPI is. The arguments are those of ipyparallel.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import shutil
import sys

from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import PIPE, kill_oneself, wait_for_end
from labkit.real.mpi.environment import restore_preload
from labkit.real.mpi.waits_page import load_library

__all__ = ["FOLDERS_VARIABLE", "main"]

#: environment variable with the folders of a cluster: in the first is the pipe that its owner holds
FOLDERS_VARIABLE = "LABKIT_CLUSTER_FOLDERS"


def main() -> None:
    """Tie this process to the owner, and become what the first argument names."""
    role = sys.argv.pop(1)
    folders = json.loads(os.environ.pop(FOLDERS_VARIABLE, "[]"))
    if folders:
        _thread.start_new_thread(_end_with_owner, (folders, role))
    restore_preload()
    if role == "controller":
        from ipyparallel.controller.app import main as controller

        controller()
        return
    load_library()
    from ipyparallel.engine.app import main as engine

    engine()


def _end_with_owner(folders: list[str], role: str) -> None:
    """End this process when the owner is gone; the controller ends all others, and removes the folders."""
    with contextlib.suppress(OSError):  # without the pipe the owner is gone already
        wait_for_end(os.path.join(folders[0], PIPE))
    if role == "controller":
        end_processes(os.environ.get(JOB_VARIABLE, ""))
        for folder in reversed(folders):
            shutil.rmtree(folder, ignore_errors=True)
    kill_oneself()


if __name__ == "__main__":
    main()
