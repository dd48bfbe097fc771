"""Slurm's commands: what they are asked, within a limit of time, and what their answers mean."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from labkit import __version__
from labkit.errors import MachineError
from labkit.real.slurm.options import Slurm

__all__ = [
    "JobState",
    "SilentError",
    "batch_script",
    "cancel",
    "find_by_name",
    "job_details",
    "job_name",
    "job_states",
    "slurm_version",
    "submit",
]

#: how long Slurm's commands may take; a busy controller answers within its own MessageTimeout of 10 s
ANSWER_S = 60.0

#: a fragment of sbatch's complaint, and the options that it is about
_CULPRITS = (
    ("partition name", ("partition",)),
    ("account or account/partition", ("account", "partition")),
    ("account", ("account",)),
    ("qos", ("qos",)),
    ("time limit", ("time",)),
    ("--time", ("time",)),
    ("MaxSubmit", ("max_jobs", "qos")),
    ("accounting/QOS policy", ("max_jobs", "nodes", "time")),
    ("feature", ("constraint",)),
    ("gres", ("extra",)),
    ("unrecognized option", ("extra",)),
    ("invalid option", ("extra",)),
    ("Memory specification", ("mem",)),
    ("CPU count per node", ("ranks_per_node", "cpus_per_rank")),
    ("node configuration is not", ("nodes", "ranks_per_node", "cpus_per_rank", "mem", "constraint")),
    ("Node count specification", ("nodes", "ranks_per_node")),
    ("More processors requested", ("ranks_per_node", "nodes")),
)


class SilentError(Exception):
    """Slurm did not answer: its controller is down, busy, or cannot be reached for the moment."""


@dataclass(frozen=True)
class JobState:
    """What Slurm says about a job.

    `word`: PENDING, RUNNING, COMPLETED, FAILED, CANCELLED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, ...
    `reason`: Why it waits, or why it ended.
    `start`: When it started, or will at the latest; empty when that is not known.
    `exit_code`: As in ``0:53``; empty when it is not known.
    """

    word: str
    reason: str = ""
    start: str = ""
    exit_code: str = ""

    @property
    def is_over(self) -> bool:
        """Whether the job has ended, and will not run again."""
        return self.word not in (
            "PENDING", "RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "REQUEUED", "REQUEUE_HOLD",
            "REQUEUE_FED", "SPECIAL_EXIT", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED",
        )  # fmt: skip


def submit(script: Path, options: Slurm) -> tuple[str, str]:
    """Hand a batch script to sbatch."""
    try:
        done = _call(["sbatch", "--parsable", str(script)])
    except SilentError as error:
        raise MachineError(
            f"the job could not be submitted: {error}; try again later", code="scheduler-failed"
        ) from error
    number, _, cluster = (done.stdout.strip().splitlines() or [""])[-1].partition(";")
    if done.returncode == 0 and number.isdigit():
        return number, cluster
    raise MachineError(_rejection(done.stderr or done.stdout, options), code="scheduler-failed")


def _rejection(told: str, options: Slurm) -> str:
    if "configuration source" in told:
        return "sbatch is installed here, but this machine belongs to no Slurm cluster: it has no slurm.conf"
    lines = [re.sub(r"^sbatch: (error: |fatal: )?", "", line).strip() for line in told.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("Try ", "Warning"))]
    sentence = "; ".join(dict.fromkeys(lines)) or "no message"
    found = next((names for part, names in _CULPRITS if part.lower() in sentence.lower()), ())
    given = [f"{name}={getattr(options, name)!r}" for name in found if getattr(options, name)]
    hint = f"see {', '.join(given)}" if given else f"set {' or '.join(found)}" if found else "see the options"
    return f"Slurm rejected the job: {sentence}; {hint} of {options!r}"


def job_states(numbers: Sequence[str]) -> dict[str, JobState]:
    """Ask for the states of jobs; those that Slurm has forgotten are missing."""
    found: dict[str, JobState] = {}
    if not numbers:
        return found
    # Of several by number, one that Slurm has forgotten would spoil the question.
    one = len(numbers) == 1
    done = _queue(["--jobs", numbers[0]] if one else ["--user", str(os.geteuid())])
    if done.returncode and "Invalid job id" not in done.stderr:
        raise SilentError(_first_line(done.stderr))
    for line in done.stdout.splitlines():
        number, word, reason, start, *_ = [*line.split("|"), "", "", "", ""]
        if number in numbers:
            found[number] = JobState(word, reason, "" if start == "N/A" else start)
    return found


def find_by_name(name: str) -> str | None:
    """Find the newest job of this user with a name: one whose number nobody could write down."""
    done = _queue(["--name", name, "--user", str(os.geteuid())])
    if done.returncode:
        raise SilentError(_first_line(done.stderr))
    numbers = [line.partition("|")[0] for line in done.stdout.splitlines()]
    return max((number for number in numbers if number.isdigit()), key=int, default=None)


def job_details(number: str) -> JobState | None:
    """Ask how a job ended: the controller, then the accounting; None when neither knows."""
    try:
        done = _call(["scontrol", "show", "job", "--oneliner", number])
    except SilentError:
        return None
    fields = dict(re.findall(r"(\w+)=(\S*)", done.stdout))
    if done.returncode == 0 and "JobState" in fields:
        reason = fields.get("Reason", "")
        return JobState(
            fields["JobState"], "" if reason == "None" else reason, "", fields.get("ExitCode", "")
        )
    try:
        done = _call(["sacct", "-n", "-P", "-X", "-o", "State,Reason,ExitCode", "-j", number])
    except (SilentError, MachineError):
        return None
    if done.returncode or not done.stdout.strip():
        return None
    word, reason, code, *_ = [*done.stdout.strip().splitlines()[-1].split("|"), "", "", ""]
    return JobState(word.split()[0], "" if reason == "None" else reason, "", code)


def cancel(numbers: Iterable[str]) -> None:
    """Cancel jobs."""
    try:
        done = _call(["scancel", *numbers])
    except SilentError as error:
        raise MachineError(
            f"the jobs could not be cancelled: {error}; try again later", code="scheduler-failed"
        ) from error
    if done.returncode:
        raise MachineError(
            f"the jobs could not be cancelled: {_first_line(done.stderr)}", code="scheduler-failed"
        )


def slurm_version() -> str | None:
    """Return name and, where it is configured, version as sbatch reports them; None without sbatch."""
    path = shutil.which("sbatch")
    if path is None:
        return None
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "Slurm"
    return done.stdout.strip() or "Slurm"


def _queue(words: list[str]) -> subprocess.CompletedProcess[str]:
    return _call(["squeue", "--noheader", "--states=all", "--format=%i|%T|%r|%S", *words])


def _call(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Call one of Slurm's commands."""
    path = shutil.which(command[0])
    if path is None:
        raise MachineError(
            f"there is no {command[0]} on PATH: this is no login node of a Slurm cluster; run this where "
            'sbatch works, or use on="mpi" here',
            code="missing-tool",
        )
    try:
        done = subprocess.run(
            [path, *command[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=ANSWER_S,
            check=False,
            env=_environment(),
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        raise SilentError(f"{command[0]} did not answer within {ANSWER_S:g} s") from None
    except OSError as error:
        raise MachineError(f"{path} cannot be started: {error}", code="not-started") from error
    if done.returncode and re.search(
        r"Unable to contact slurm controller|Socket timed out|Connection refused|Transport endpoint|"
        r"Zero Bytes were transmitted|Slurm backup controller in standby",
        done.stderr,
    ):
        raise SilentError(_first_line(done.stderr))
    return done


def _environment() -> dict[str, str]:
    """Leave out the variables of a job that this process may itself run in: they would size the new one."""
    keep = ("SLURM_CONF", "SLURM_CLUSTERS", "SLURM_TIME_FORMAT")
    return {
        name: value for name, value in os.environ.items() if not name.startswith("SLURM_") or name in keep
    } | {"SLURM_TIME_FORMAT": "%Y-%m-%dT%H:%M:%S"}


def _first_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return re.sub(r"^\w+: (error: )?", "", lines[0]) if lines else "no message"


# The batch script: what it asks Slurm for, and the checks with which it begins.

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
    """Write the script of a job."""
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
