"""The batch script: what it asks Slurm for, and the checks with which it begins."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from labkit import __version__
from labkit.real.slurm.options import Slurm

__all__ = ["batch_script", "job_name"]

_HEAD = """\
#!/bin/bash{login}
# Written by labkit {version}. Submitting it again (sbatch script.sh) continues what is unfinished.
{options}

folder={folder}
python={python}
refuse() {{ # one sentence for whoever waits for this job
  printf '%s\\n' "$1" > "$folder/.refused" && mv "$folder/.refused" "$folder/refused"
  echo "$1"
  exit 1
}}
if ! cd "$folder"; then
  echo "$folder is not there on $(hostname)"
  exit 1
fi
rm -f refused
"""

_TAIL = """\
cd {work} 2>/dev/null || cd "$folder"
command -v "$python" > /dev/null || refuse "there is no $python on the compute node $(hostname); give \
python=, the path of an interpreter with labkit on a file system that the compute nodes share"
said=$("$python" -P -c 'import labkit, mpi4py' 2>&1) || refuse "the Python of the compute node $(hostname), \
$python, cannot import labkit and mpi4py: ${{said##*$'\\n'}}; install both there, or give python="
exec "$python" -P -m {command}
"""


def job_name(token: str, program: str) -> str:
    """Return the job's name in the queue; the token finds it again."""
    return f"labkit-{token}-{''.join(c if c.isalnum() or c in '_-.' else '_' for c in program)[:40]}"


def batch_script(
    options: Slurm,
    folder: Path,
    *,
    name: str,
    ranks: int,
    seconds: int | None,
    work: str,
    command: str = 'labkit.real.slurm.inside "$folder"',
) -> str:
    """Write the script of a job.

    Parameters
    ----------
    options : Slurm
        What the user asks for.
    folder : Path
        The job's folder.
    name : str
        The job's name.
    ranks : int
        The most ranks that one of its points has.
    seconds : int or None
        The time limit where the user gave none.
    work : str
        The folder in which the ranks run, where the compute nodes have it.
    command : str
        The module that the script becomes, and its arguments.
    """
    asked = _asked(options, folder, name, ranks, seconds)
    lines = [f"#SBATCH {line}" for line in asked]
    words = {"folder": shlex.quote(str(folder)), "python": shlex.quote(options.python or sys.executable)}
    head = _HEAD.format(
        login=" -l" if options.modules else "", version=__version__, options="\n".join(lines), **words
    )
    middle = [
        f'module load {shlex.quote(module)} || refuse "module load {_plain(module)} failed on $(hostname)"'
        for module in options.modules
    ]
    middle += options.setup
    return "\n".join([head.rstrip("\n"), *middle, _TAIL.format(work=shlex.quote(work), command=command)])


def _asked(options: Slurm, folder: Path, name: str, ranks: int, seconds: int | None) -> list[str]:
    nodes, per_node = options.node_count(ranks), options.ranks_on_node(ranks)
    time = options.time or (None if seconds is None else str(max(1, -(-seconds // 60))))
    pairs: list[tuple[str, object]] = [
        ("--job-name", name),
        ("--output", str(folder / "slurm.out").replace("%", "%%")),
        ("--open-mode", "append"),
        ("--ntasks", ranks),
        ("--nodes", nodes),
        ("--ntasks-per-node", per_node),
        ("--cpus-per-task", options.cpus_per_rank),
        ("--partition", options.partition),
        ("--account", options.account),
        ("--qos", options.qos),
        ("--time", time),
        ("--mem", options.mem),
        ("--constraint", options.constraint),
    ]
    asked = [f"{option}={_quoted(str(value))}" for option, value in pairs if value is not None]
    return asked + (["--exclusive"] if options.exclusive else []) + list(options.extra)


def _quoted(text: str) -> str:
    """Quote a value for a line of sbatch options: its own rules, not the shell's."""
    if all(c.isalnum() or c in "_-./:%,+@=~[]" for c in text):
        return text
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _plain(text: str) -> str:
    return "".join(c if c.isalnum() or c in "_-./+:" else "?" for c in text)
