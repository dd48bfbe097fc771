"""SMPI's flags: ``--cfg=smpi/allreduce:rdb``, one algorithm for a collective, whatever ranks and bytes."""

from __future__ import annotations

import re

from labkit.errors import DataError, ScheduleError
from labkit.selector.libraries import library_names, names_table
from labkit.selector.rules import Rules

__all__ = ["read", "write"]

_FLAG = re.compile(r"(?:--cfg=)?smpi/([a-z_-]+):(\S+)")


def write(operation: str, name: str, lost: str, title: str) -> str:
    """Write the flag of one algorithm, below comments that say what is lost."""
    if name not in library_names("smpi", operation):
        raise DataError(f"SMPI has no {operation}/{name}: tune with library='smpi', which tries its own only")
    table = names_table("smpi")[operation]
    flag = next(of for of, ours in table.items() if ours == name)
    return f"# {title}\n# {lost}\n# smpirun $(grep -v '^#' FILE) ...\n--cfg=smpi/{operation}:{flag}\n"


def read(text: str, where: str) -> Rules:
    """Read flags, separated by blanks or lines; SimGrid's others are passed over."""
    rows = []
    for line in text.splitlines():
        for word in line.partition("#")[0].split():
            flag = _FLAG.fullmatch(word)
            operation = flag[1].replace("-", "_") if flag else ""
            if operation == "coll_selector" and flag:
                raise ScheduleError(
                    f"{where}: {word} is a selector of SMPI, no algorithm; labkit's own ompi, mpich and smpi "
                    "decide as those do (--coll ompi)"
                )
            if flag is None or operation not in names_table("smpi"):
                continue
            table = names_table("smpi")[operation]
            if flag[2] not in table:
                raise ScheduleError(
                    f"{where}: labkit has no counterpart of SMPI's {operation} {flag[2]!r}; it has those of "
                    f"{', '.join(table)}"
                )
            rows.append({"operation": operation, "use": table[flag[2]]})
    if not rows:
        raise ScheduleError(f"{where}: no flag such as --cfg=smpi/bcast:binomial_tree is there")
    return Rules(rows, where)
