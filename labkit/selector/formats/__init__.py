"""Files of rules, labkit's own and those of MPI libraries: which form a file has, and reading it.

By its ending: ``.toml`` labkit's own; ``.json`` labkit's own, Open MPI's or MPICH's, depending on its keys;
``.conf`` Open MPI's classic dynamic rules; ``.prf`` a profile of PGMPITuneLib, or a folder of them; ``.cfg``
flags of SMPI.
"""

from __future__ import annotations

import os
from pathlib import Path

from labkit.errors import ScheduleError
from labkit.selector.formats import mpich, open_mpi, pgmpi, smpi
from labkit.selector.rules import Rules
from labkit.text.files import json_of, text_of

__all__ = ["ENDINGS", "read_rules"]

#: what a file of rules may end with
ENDINGS = (".toml", ".json", ".conf", ".prf", ".cfg")


def read_rules(path: str | os.PathLike[str]) -> Rules:
    """Read a file of rules of any form.

    Raises ScheduleError: It cannot be read, or is no table of rules.
    """
    path, where = Path(path), str(path)
    if path.suffix == ".prf":
        files = sorted(path.glob("*.prf")) if os.path.isdir(path) else [path]
        if not files:
            raise ScheduleError(f"{where}: the folder has no profile (*.prf)", code="missing-file")
        texts = [(text_of(file, ScheduleError), str(file)) for file in files]
        return Rules([row for text, file in texts for row in pgmpi.read(text, file)], where)
    if path.suffix == ".conf":
        return open_mpi.read_classic(text_of(path, ScheduleError), where)
    if path.suffix == ".cfg":
        return smpi.read(text_of(path, ScheduleError), where)
    if path.suffix == ".json" and isinstance(table := _json(path), dict):
        if "collectives" in table:
            return open_mpi.read_json(table, where)
        if any(key.strip().startswith("collective") for key in table):
            return mpich.read(table, where)
    return Rules.read(path)


def _json(path: Path) -> object:
    try:
        return json_of(text_of(path, ScheduleError))
    except ValueError as error:
        raise ScheduleError(
            f"cannot read rules from {str(path)!r}: {error}", code="unreadable-file"
        ) from error
