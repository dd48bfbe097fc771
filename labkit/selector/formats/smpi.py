"""SMPI's flags: ``--cfg=smpi/allreduce:rdb``, one algorithm for a collective, whatever ranks and bytes."""

from __future__ import annotations

import re

from labkit.errors import DataError, ScheduleError, nearest
from labkit.selector.libraries import library_names, names_table
from labkit.selector.rules import Rules

__all__ = ["read", "write"]

_FLAG = re.compile(r"(?:--cfg=)?smpi/([a-z_-]+):(\S+)")


def write(operation: str, name: str, lost: str, title: str) -> str:
    """Write the flag of one algorithm, below comments that say what is lost."""
    if name not in library_names("smpi", operation):
        raise DataError(
            f"SMPI has no {operation}/{name}: tune with library='smpi', which tries its own only",
            code="no-counterpart",
        )
    table = names_table("smpi")[operation]
    flag = next(of for of, ours in table.items() if ours == name)
    return f"# {title}\n# {lost}\n# smpirun $(grep -v '^#' FILE) ...\n--cfg=smpi/{operation}:{flag}\n"


def read(text: str, where: str) -> Rules:
    """Read flags, separated by blanks, commas or lines; of several for an operation the last one counts.

    SimGrid's flags about anything but collectives are passed over, with their values.
    """
    chosen: dict[str, str] = {}
    for line in text.splitlines():
        takes_value = False
        for word in line.partition("#")[0].replace(",", " ").split():
            flag = _FLAG.fullmatch(word)
            is_passed_over = (word.startswith("-") or takes_value) and "smpi/" not in word
            if flag is None and not is_passed_over:
                raise ScheduleError(
                    f"{where}: {word[:60]!r} is no flag such as --cfg=smpi/bcast:binomial_tree",
                    code="malformed-line",
                )
            takes_value = word.startswith("-") and "=" not in word
            operation = flag[1].replace("-", "_") if flag else ""
            if operation == "coll_selector" and flag:
                raise ScheduleError(
                    f"{where}: {word} is a selector of SMPI, not an algorithm; labkit's own ompi, mpich, "
                    "mvapich2, impi and smpi decide as those do (--coll ompi)",
                    code="malformed-line",
                )
            if flag is None:
                continue
            if operation not in _operations():
                if meant := nearest(operation, _operations(), 1, 0.7):
                    raise ScheduleError(
                        f"{where}: SMPI has no collective {flag[1]!r}{meant}", code="unknown-name"
                    )
                continue
            table = names_table("smpi")[operation]
            if flag[2] not in table:
                raise ScheduleError(
                    f"{where}: labkit has no counterpart of SMPI's {operation} {flag[2]!r}; it has those of "
                    f"{', '.join(table)}",
                    code="no-counterpart",
                )
            chosen[operation] = table[flag[2]]
    if not chosen:
        raise ScheduleError(
            f"{where}: no flag such as --cfg=smpi/bcast:binomial_tree is there", code="malformed-line"
        )
    return Rules([{"operation": operation, "use": use} for operation, use in chosen.items()], where)


def _operations() -> list[str]:
    return [name for name in names_table("smpi") if not name.startswith("differs")]
