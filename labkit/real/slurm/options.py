"""Options of a batch job: ``lk.slurm(partition="debug", ranks_per_node=16)``, or as text.

``[default]`` holds what every job needs (account, modules, the shared folder); the other tables build on it::

    [default]
    account = "project42"
    folder = "/scratch/$USER/labkit"
    modules = ["python/3.11", "openmpi/5.0"]
    mpi = "system"

    [debug]
    partition = "debug"
    time = "0:10:00"
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import MachineError, nearest
from labkit.text.files import text_of, toml_of

__all__ = ["Slurm", "is_slurm", "slurm", "slurm_of", "time_seconds"]


#: what labkit sets itself, and so may not stand in `extra`
_OWN = (
    "--array", "--chdir", "--error", "--input", "--job-name", "--nodes", "--ntasks", "--ntasks-per-node",
    "--output", "--parsable", "--test-only", "--wait", "--wrap", "-D", "-J", "-N", "-W", "-a", "-e", "-i",
    "-n", "-o",
)  # fmt: skip

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<fields>\d+(?::\d+){0,2})")


@dataclass(frozen=True)
class Slurm:
    """A Slurm cluster as a machine: what its jobs ask for; made by `labkit.slurm`, which see for the options.

    `profile`: The profile that the options came from, as named in ``on="slurm:NAME"``.
    """

    #: marks this as a machine for `labkit.run`
    labkit_slurm = True

    profile: str = ""
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    time: str | None = None
    nodes: int | None = None
    ranks_per_node: int | None = None
    cpus_per_rank: int | None = None
    mem: str | None = None
    constraint: str | None = None
    exclusive: bool = False
    extra: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    launcher: str = "mpiexec"
    mpi: str | None = None
    python: str | None = None
    folder: str = "~/labkit-jobs"
    name: str = ""
    max_jobs: int = 8
    wait_s: float | None = None

    def __post_init__(self) -> None:
        for one in dataclasses.fields(self):
            reader = _READERS.get(one.name, _read_text)
            object.__setattr__(self, one.name, reader(one.name, getattr(self, one.name)))

    @property
    def label(self) -> str:
        """How the machine is named in runs and studies."""
        return f"slurm:{self.profile}" if self.profile else "slurm"

    @property
    def folder_path(self) -> str:
        """The folder of the jobs, with ``~`` and variables filled in."""
        return os.path.abspath(os.path.expanduser(os.path.expandvars(self.folder)))

    def changed(self, **options: object) -> Slurm:
        """Return the same with some options changed.

        Raises MachineError: An option is not known, or its value makes no sense.
        """
        return dataclasses.replace(self, **known_options(options))

    def node_count(self, ranks: int) -> int | None:
        """Return the number of nodes that the ranks need; None if Slurm decides.

        Raises MachineError: They do not fit.
        """
        if self.nodes is None:
            return None if self.ranks_per_node is None else math.ceil(ranks / self.ranks_per_node)
        if self.ranks_per_node is not None and ranks > self.nodes * self.ranks_per_node:
            raise MachineError(
                f"{ranks} ranks do not fit on nodes={self.nodes} with ranks_per_node={self.ranks_per_node}; "
                "leave one of the two out, or raise it",
                code="too-many-ranks",
            )
        return min(self.nodes, ranks)

    def ranks_on_node(self, ranks: int) -> int | None:
        """Return how many ranks a node gets; None where Slurm decides."""
        nodes = self.node_count(ranks)
        if nodes is None:
            return None
        return min(self.ranks_per_node or math.ceil(ranks / nodes), ranks)

    def record(self) -> dict[str, Any]:
        """Return the options that were given, as plain data."""
        given = {
            one.name: getattr(self, one.name)
            for one in dataclasses.fields(self)
            if getattr(self, one.name) != one.default
        }
        return {name: list(value) if isinstance(value, tuple) else value for name, value in given.items()}

    def __repr__(self) -> str:
        given = self.record()
        words = [repr(given.pop("profile"))] if "profile" in given else []
        return f"slurm({', '.join(words + [f'{name}={value!r}' for name, value in given.items()])})"


def slurm(profile: str = "", **options: object) -> Slurm:
    """Describe a Slurm cluster, to be given as ``on=``; in short ``on="slurm"`` or ``on="slurm:PROFILE"``.

    A run or sweep with it submits batch jobs, waits for them and brings everything back. Interrupted, or
    after its process died, the same call finds its jobs again, none is resubmitted. A deadlock is reported
    with its cycle in a job on one node; on several it ends at the time limit of the run.

    Parameters
    ----------
    profile : str
        A table of ``~/.config/labkit/slurm.toml``, or the path of such a file, with ``:NAME`` behind it for
        another table than ``default``. Every table builds on ``default``.
    partition, account, qos, constraint, mem : str
        As for sbatch; ``mem`` is per node.
    time : str or int
        Time limit of a job as for sbatch: minutes, or ``"1:30:00"``. Default: what its runs may take at most.
    nodes, ranks_per_node, cpus_per_rank : int
        Number of nodes and cores; Slurm decides if not given. With `nodes`, every job has that number.
    exclusive : bool
        Whether the nodes are reserved for the job alone.
    extra : str or list of str
        Further options of sbatch, such as ``"--gres=gpu:1"``.
    modules, setup : str or list of str
        Modules to load, and lines of the batch script behind them, such as the activation of an environment.
    launcher : str
        What starts the ranks: ``"mpiexec"`` (the one that `mpi` chooses) or ``"srun --mpi=pmix"``, with its
        options.
    mpi : str
        ``"bundled"``, ``"system"`` (the first mpiexec on the job's PATH, so that of a module) or the path of
        an mpiexec. With srun, which library the ranks load; default: the one that mpi4py finds.
    python : str
        The compute nodes' interpreter; default: this one. It has labkit and mpi4py.
    folder : str
        Where the jobs' folders are made, on a file system that the compute nodes share.
    name : str
        Keeps results under this name: the same call with the same name returns them again. Without a name
        results are handed out once, and the same call then measures again.
    max_jobs : int
        Into how many jobs a sweep is divided at most. Each number of nodes has its own job; beyond
        this limit neighboring sizes share the larger allocation.
    wait_s : float
        How long to wait for the jobs, in seconds; by default until they end.

    Returns
    -------
    Slurm

    Raises
    ------
    MachineError
        An option is not known or makes no sense, or the profile cannot be read.

    Examples
    --------
    >>> import labkit as lk
    >>> lk.slurm(partition="debug", ranks_per_node=16, time="0:10:00")
    slurm(partition='debug', time='0:10:00', ranks_per_node=16)
    """
    known_options(options)
    return Slurm(profile=profile, **{**known_options(profile_options(profile)), **options})


def is_slurm(on: object) -> bool:
    """Whether `on` is a Slurm cluster: an object of `slurm`, or its text."""
    if isinstance(on, str):
        return re.match(r"\s*slurm\s*($|[:,])", on, re.IGNORECASE) is not None
    return hasattr(type(on), "labkit_slurm")


def slurm_of(on: object) -> Slurm:
    """Read a cluster: ``slurm``, ``slurm:PROFILE``, with options behind commas: ``slurm:debug,nodes=2``."""
    if isinstance(on, Slurm):
        return on
    head, *words = str(on).split(",")
    options: dict[str, object] = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.strip():
            raise MachineError(
                f"on={on!r}: options are written name=value, got {word!r}", code="malformed-specification"
            )
        options[name.strip()] = value.strip()
    return slurm(head.partition(":")[2].strip(), **options)


def known_options(options: dict[str, object]) -> dict[str, Any]:
    """Refuse options that Slurm machines do not have, and return the others."""
    names = [one.name for one in dataclasses.fields(Slurm) if one.name != "profile"]
    for name in options:
        if name not in names:
            hint = nearest(name, names, 1) or f"; known are {', '.join(names)}"
            raise MachineError(f"Slurm machines have no option {name!r}{hint}", code="unknown-name")
    return options


def time_seconds(text: str | None) -> int | None:
    """Return the seconds of a time limit as sbatch reads it; None for none.

    Examples
    --------
    >>> time_seconds("90"), time_seconds("1:30"), time_seconds("1:30:00"), time_seconds("1-2")
    (5400, 90, 5400, 93600)
    """
    if text is None:
        return None
    found = _TIME.fullmatch(text)
    if found is None:
        raise MachineError(
            f"time={text!r} is no time limit of Slurm: minutes, minutes:seconds, hours:minutes:seconds, "
            "days-hours or days-hours:minutes:seconds",
            code="malformed-value",
        )
    fields = [int(field) for field in found["fields"].split(":")]
    by_length: dict[int, tuple[int, ...]] = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}
    units = (3600, 60, 1) if found["days"] else by_length[len(fields)]
    return int(found["days"] or 0) * 86400 + sum(a * b for a, b in zip(fields, units, strict=False))


def _read_text(name: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str | os.PathLike) or any(ord(c) < 32 for c in os.fspath(value)):
        raise MachineError(f"{name} takes one line of text, got {value!r}", code="malformed-value")
    return os.fspath(value).strip()


def _read_path(name: str, value: object) -> str:
    text = _read_text(name, value)
    if not text:
        raise MachineError(f"{name} must not be empty", code="malformed-value")
    return text


def _read_time(name: str, value: object) -> str | None:
    if not isinstance(value, bool) and isinstance(value, numbers.Integral):
        value = str(int(value))
    text = _read_text(name, value)
    seconds = time_seconds(text)
    if seconds is not None and seconds <= 0:
        raise MachineError(f"{name}={text!r} leaves no time", code="out-of-range")
    return text


def _read_count(name: str, value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 19:
        value = int(value)
    if value is None and name != "max_jobs":
        return None
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
        raise MachineError(f"{name} must be a whole number of at least 1, got {value!r}", code="out-of-range")
    return int(value)


def _read_seconds(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = math.nan
    if isinstance(value, bool) or not seconds > 0:
        raise MachineError(
            f"{name} must be a number of seconds above 0, or None; got {value!r}", code="out-of-range"
        )
    return seconds


def _read_flag(name: str, value: object) -> bool:
    if isinstance(value, str):
        value = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}.get(
            value.lower(), value
        )
    if not isinstance(value, bool):
        raise MachineError(f"{name} is True or False, got {value!r}", code="wrong-type")
    return value


def _read_lines(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = value.split() if name in ("modules", "extra") else value.splitlines()
    if not isinstance(value, list | tuple):
        raise MachineError(f"{name} takes a text or a list of texts, got {value!r}", code="wrong-type")
    lines = tuple(line for line in (_read_text(name, one) for one in value) if line)
    if name == "extra":
        for line in lines:
            _check_extra(line)
    return lines


def _check_extra(line: str) -> None:
    if not line.startswith("-"):
        raise MachineError(
            f"extra takes options of sbatch such as '--gres=gpu:1', got {line!r}", code="malformed-value"
        )
    word = re.split(r"[=\s]", line)[0]
    if word in _OWN:
        raise MachineError(
            f"extra cannot set {word}: labkit does; ranks, nodes and ranks_per_node give the size, folder "
            "the place",
            code="conflicting-options",
        )


def _read_name(name: str, value: object) -> str:
    text = _read_text(name, value) or ""
    if not re.fullmatch(r"[\w.+-]*", text) or text.startswith("."):
        raise MachineError(f"{name} takes letters, digits and _ . + -, got {value!r}", code="malformed-name")
    return text


_READERS: dict[str, Any] = {
    "profile": _read_text,
    "time": _read_time,
    "nodes": _read_count,
    "ranks_per_node": _read_count,
    "cpus_per_rank": _read_count,
    "max_jobs": _read_count,
    "exclusive": _read_flag,
    "extra": _read_lines,
    "modules": _read_lines,
    "setup": _read_lines,
    "launcher": _read_path,
    "folder": _read_path,
    "name": _read_name,
    "wait_s": _read_seconds,
}


# Profiles: options of a site's Slurm in a TOML file, a table a profile.


def profile_file() -> Path:
    """Return where the profiles are by default: ``~/.config/labkit/slurm.toml``."""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return Path(base) / "labkit" / "slurm.toml"


def profile_options(profile: str) -> dict[str, Any]:
    """Read the options of a profile."""
    path, name = _split(profile)
    if path is None:
        path = profile_file()
        if not path.is_file() and not name:
            return {}
    if not path.is_file():
        hint = f"write a table [{name}] there" if name else "give the path of a profile file"
        raise MachineError(
            f"slurm profile {profile!r}: there is no file {str(path)!r}; {hint}", code="missing-file"
        )
    tables = _read(path)
    if name and name not in tables:
        known = ", ".join(tables) or "none"
        raise MachineError(
            f"slurm profile {name!r} is not in {str(path)!r}; its tables are: {known}", code="unknown-name"
        )
    return {**tables.get("default", {}), **tables.get(name or "default", {})}


def _split(profile: str) -> tuple[Path | None, str]:
    """Distinguish a path, with or without a name behind it, from a name."""
    head, sign, tail = profile.rpartition(":")
    if sign and head.endswith(".toml"):
        return Path(head).expanduser(), tail
    if profile.endswith(".toml") or os.sep in profile:
        return Path(profile).expanduser(), ""
    return None, profile


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        tables = toml_of(text_of(path, MachineError))
    except tomllib.TOMLDecodeError as error:
        raise MachineError(
            f"the slurm profiles in {str(path)!r} cannot be read: {error}", code="unreadable-file"
        ) from error
    loose = [name for name, table in tables.items() if not isinstance(table, dict)]
    if loose:
        raise MachineError(
            f"{str(path)!r}: {loose[0]!r} stands outside of a table; put [default] (or a profile's name) "
            "above it",
            code="name-taken",
        )
    return tables
