"""A decision tree as a file of rules: labkit's own form, and those of MPI libraries."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.errors import DataError
from labkit.plain import replace_file
from labkit.selector.formats import mpich, open_mpi, pgmpi, smpi
from labkit.selector.formats.bands import Band, Step
from labkit.selector.libraries import library_names, names_table
from labkit.tune.tree import Leaf
from labkit.units import format_share

__all__ = ["write_rules"]

_FORMS = (
    ".toml or .json (labkit's own), .conf or .ompi.json (Open MPI's), .mpich.json (MPICH's), .prf (a folder "
    "of PGMPITuneLib's profiles) or .cfg (SMPI's flags)"
)


def write_rules(
    path: Path, operation: str, tree: Sequence[Leaf], rows: Sequence[Mapping[str, Any]], title: str,
    times: pd.DataFrame,
) -> Path:  # fmt: skip
    """Write a tree in the form that the file's ending says; see `labkit.tune.Tuned.save`.

    Raises
    ------
    DataError
        Another ending; an algorithm that the library has not; a file that cannot be written.
    """
    ranks = sorted({int(p) for p in times["ranks"]})
    texts: dict[Path, str]
    if path.suffix == ".prf":
        profiles = pgmpi.write(operation, _bands(tree, ranks), ranks, title)
        texts = {path / f"{operation}_{p}.prf": text for p, text in profiles.items()}
    else:
        texts = {path: _text(path, operation, tree, rows, title, times, ranks)}
    try:
        if path.suffix == ".prf":
            path.mkdir(exist_ok=True)
        for file, text in texts.items():
            replace_file(file, text)
    except OSError as error:
        raise DataError(f"cannot write {path}: {error.strerror or error}") from error
    return path


def _text(
    path: Path, operation: str, tree: Sequence[Leaf], rows: Sequence[Mapping[str, Any]], title: str,
    times: pd.DataFrame, ranks: Sequence[int],
) -> str:  # fmt: skip
    if path.name.endswith(".mpich.json"):
        library_names("mpich", operation)
        return mpich.write(operation, _bands(tree, ranks))
    if path.suffix == ".conf" or path.name.endswith(".ompi.json"):
        library_names("ompi", operation)
        is_all = names_table("ompi")[operation].get("counts_all")
        bands = _bands(tree, ranks if is_all else ())
        by_size = names_table("ompi")[operation].get("by_size", True)
        if not by_size and any(len(band.steps) > 1 for band in bands):
            raise DataError(
                f"Open MPI's ranks do not agree on the size of a {operation}, and would wait for ever where "
                "it decides: tune for one size"
            )
        return (open_mpi.write_classic if path.suffix == ".conf" else open_mpi.write_json)(
            operation, bands, title
        )
    if path.suffix == ".cfg":
        return smpi.write(operation, *_one_for_all(operation, tree, times), title)
    if path.suffix == ".json":
        return json.dumps({"title": title, "rules": list(rows)}, indent=1) + "\n"
    if path.suffix == ".toml":
        body = "".join(
            f"  {{ {', '.join(f'{k} = {json.dumps(v)}' for k, v in row.items())} }},\n" for row in rows
        )
        return f"title = {json.dumps(title)}\n\nrules = [\n{body}]\n"
    raise DataError(f"{path.name}: rules are written as {_FORMS}")


def _bands(tree: Sequence[Leaf], ranks: Sequence[int]) -> list[Band]:
    """Return a tree as bands from 1 rank on: one for each number of ranks at which something changes.

    Parameters
    ----------
    tree : sequence of Leaf
    ranks : sequence of int
        Where a band begins besides: sizes that are counted over all blocks are exact there.
    """
    starts = sorted({1, *ranks, *(int(leaf.ranks[0]) for leaf in tree if leaf.ranks[0] > 0)})
    bands = []
    for low, high in zip(starts, [*starts[1:], inf], strict=True):
        here = [leaf for leaf in tree if leaf.ranks[0] <= low < leaf.ranks[1]]
        steps = [Step(*leaf.bytes, leaf.algorithm) for leaf in sorted(here, key=lambda leaf: leaf.bytes)]
        bands.append(Band(low, high, steps or [Step(0, inf, None)]))
    return bands


def _one_for_all(operation: str, tree: Sequence[Leaf], times: pd.DataFrame) -> tuple[str, str]:
    """Return the algorithm that loses least where one is taken everywhere, and what is lost, as a sentence.

    Raises
    ------
    DataError
        None of SMPI's can be used at all points.
    """
    known = library_names("smpi", operation)
    wide = times.pivot_table(index=["ranks", "bytes"], columns="algorithm", values="time_s")
    best = wide.min(axis=1)
    wide = wide[[name for name in wide.columns if name in known]].dropna(axis=1)
    if wide.empty:
        raise DataError(
            f"none of SMPI's algorithms for {operation} was measured at all points: tune with "
            "library='smpi', or with fewer numbers of ranks"
        )
    lost = wide.div(best.where(best > 0, 1.0), axis=0).sub(1).where(best > 0, 0.0)
    name = str(lost.mean().idxmin())
    mean, most = float(lost[name].mean()), float(lost[name].max())
    leaves = len({leaf.algorithm for leaf in tree})
    return name, (
        f"one algorithm for all ranks and bytes, where the decision tree takes {leaves}: on average "
        f"{format_share(mean)} slower than the fastest at each point, at most {format_share(most)}"
    )
