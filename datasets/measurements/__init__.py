"""Recorded measurements of real machines, each in a folder with what it was measured on and how.

``2026-11-21-namespaces``: collectives of 100 kB to 4 MB over MPICH between hosts in network namespaces whose
links are shaped, and the calibration of two such hosts; see the folder's README.md.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pandas as pd

__all__ = ["NAMESPACES", "collectives", "folder"]

#: the folder of the collectives between network namespaces
NAMESPACES = "2026-11-21-namespaces"


def folder(name: str = NAMESPACES) -> Path:
    """Return the folder of a recording.

    Raises
    ------
    FileNotFoundError
        There is none of that name.
    """
    path = Path(str(files(__package__).joinpath(name)))
    if not path.is_dir():
        raise FileNotFoundError(f"no measurements {name!r} are recorded; there is {NAMESPACES!r}")
    return path


def collectives(name: str = NAMESPACES) -> pd.DataFrame:
    """Return every round of the collectives of a recording.

    Returns
    -------
    DataFrame
        Columns problem, algorithm, bytes, ranks, round, seconds, network, congestion, load.
    """
    return pd.read_csv(folder(name) / "collectives.csv")
