"""Several hosts for real MPI: a host file, and what they mean for files, clocks and cores."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.real.mpi.find import Launcher
from labkit.text.files import text_of

__all__ = [
    "FOLDER_VARIABLE",
    "HOSTFILE_VARIABLE",
    "HostFile",
    "clocks",
    "find_host_file",
    "hosts_note",
    "shared_cores",
]

#: environment variable with the path of the host file that real runs use
HOSTFILE_VARIABLE = "LABKIT_MPI_HOSTFILE"
#: environment variable with a folder that all its hosts share; without it: where the host file lies
FOLDER_VARIABLE = "LABKIT_MPI_FOLDER"

_LINE = re.compile(
    r"(?P<host>[A-Za-z0-9][A-Za-z0-9._-]*)(?:\s+slots\s*=\s*(?P<slots>\d+)|:(?P<count>\d+))?\s*"
)


@dataclass(frozen=True)
class HostFile:
    """The hosts of a run.

    `path`: Where it was read from.
    `slots`: Each host and how many ranks it takes before they share cores.
    `folder`: A folder that all the hosts see under this path: the ranks' files lie there.
    """

    path: str
    slots: tuple[tuple[str, int], ...]
    folder: str

    @property
    def total(self) -> int:
        """The slots of all hosts."""
        return sum(count for _, count in self.slots)

    def text(self, launcher: Launcher) -> str:
        """Write it down as a launcher reads it."""
        form = "{}:{}\n" if launcher.kind == "mpich" else "{} slots={}\n"
        return "".join(form.format(host, count) for host, count in self.slots)


def find_host_file(choice: str | os.PathLike[str] | None = None) -> HostFile | None:
    """Read the host file that real runs are to use."""
    path = os.fspath(choice or os.environ.get(HOSTFILE_VARIABLE, "").strip())
    if not path:
        return None
    source = "hostfile" if choice else HOSTFILE_VARIABLE
    try:
        lines = text_of(Path(path), MachineError).splitlines()
    except MachineError as error:
        raise MachineError(f"the host file of {source}: {error}", code=error.code) from None
    counts: Counter[str] = Counter()
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        found = _LINE.fullmatch(text)
        slots = int(found["slots"] or found["count"] or 1) if found else 0
        if found is None or slots < 1:
            raise MachineError(
                f"line {number} of the host file {path!r} is {text!r}; a host with its slots is written "
                "as node1 slots=4",
                code="malformed-line",
            )
        counts[found["host"]] += slots
    if not counts:
        raise MachineError(
            f"the host file {path!r} names no host; write one on each line, as node1 slots=4",
            code="missing-tool",
        )
    folder = os.environ.get(FOLDER_VARIABLE, "").strip() or os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise MachineError(
            f"{FOLDER_VARIABLE}={folder!r} is no folder; name one that all hosts of {path!r} share",
            code="wrong-kind-of-file",
        )
    return HostFile(path, tuple(counts.items()), folder)


def clocks(abouts: Sequence[Mapping[str, object]]) -> list[list[int]]:
    """Group the ranks by the clock that they read."""
    groups: dict[str, list[int]] = {}
    for rank, about in enumerate(abouts):
        groups.setdefault(str(about.get("boot", "")), []).append(rank)
    return list(groups.values())


def hosts_note(abouts: Sequence[Mapping[str, object]]) -> list[str]:
    """Return as sentences on which hosts the ranks were, when there were several."""
    hosts = Counter(str(about.get("host", "")) for about in abouts)
    if len(hosts) < 2:
        return []
    notes = ["ranks by host: " + ", ".join(f"{count} on {host}" for host, count in hosts.items())]
    if len(clocks(abouts)) > 1:
        notes.append(
            "their clocks differ: the times on each machine count from its first rank's entry, just behind a "
            "barrier"
        )
    return notes


def shared_cores(abouts: Sequence[Mapping[str, Any]]) -> list[tuple[int, int, str]]:
    """Find the machines whose ranks are more than the cores they may use.

    Containers of one machine share its cores, however many of them there are.
    """
    found = []
    for ranks in clocks(abouts):
        cores = {str(abouts[rank].get("host", "")): abouts[rank].get("cores") for rank in ranks}
        if None in cores.values():
            continue
        most = max(int(abouts[rank]["machine_cores"]) for rank in ranks)
        limit = min(most, sum(int(count) for count in cores.values() if count is not None))
        if len(ranks) > limit:
            name = f"the machine of {' and '.join(sorted(cores))}" if len(cores) > 1 else next(iter(cores))
            found.append((len(ranks), limit, name))
    return found
