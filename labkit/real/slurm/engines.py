"""Start the MPI engines of an ipyparallel cluster where the batch script or ssh has brought us.

``python -m labkit.real.slurm.engines OPTIONS RANKS ARGUMENT...``: OPTIONS are those of `labkit.slurm` (JSON
in base64), the arguments are the engines' own. The launcher is found here, on the compute node, with the
settings of labkit's own batch jobs.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys

from labkit.errors import LabkitError
from labkit.real.slurm.inside import launch_words, step_environment, step_launcher
from labkit.real.slurm.options import Slurm

__all__ = ["main"]


def main(words: list[str]) -> int:
    """Become the launcher of the engines; return only where that fails."""
    options = Slurm(**json.loads(base64.urlsafe_b64decode(words[0])))
    try:
        launcher, more = step_launcher(options)
    except LabkitError as error:
        print(error)
        return 1
    command = launch_words(launcher, more, options, int(words[1]))
    command += [sys.executable, "-m", "ipyparallel.engine", "--mpi", *words[2:]]
    environment = step_environment(launcher, options, os.environ, os.environ.get("LABKIT_JOB", ""))
    path = shutil.which(command[0]) or command[0]
    os.execve(path, command, environment)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
