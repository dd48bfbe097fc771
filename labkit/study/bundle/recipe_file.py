"""The recipe of a study as a document: machines, models, seeds and calls, each written down once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from labkit.checks import program_name
from labkit.local.costs import find_calibration
from labkit.real.slurm.options import is_slurm
from labkit.study.bundle.functions import Carrier
from labkit.study.bundle.plain import encode
from labkit.study.points import Point, is_real
from labkit.study.rows import HOST_METRICS

if TYPE_CHECKING:
    from labkit.study.recipe import Recipe

__all__ = ["RecipeWriter", "numbers", "spans"]

_LEFT_OUT = ("trace", "trace_ti", "calibration")  # what a run keeps beside its figures; what is a machine's


class RecipeWriter:
    """Writes a recipe down; `data` are the study's rows, with the labels that the recipe knows.

    Attributes
    ----------
    carrier : Carrier
        Holds the files of the functions.
    machines : dict
        Platforms, models, calibration and noise.
    """

    def __init__(self, recipe: Recipe, data: pd.DataFrame, notes: dict[str, Any]) -> None:
        self.recipe = recipe
        self.positions = {label: at for at, label in enumerate(data.index)}
        self.notes = notes
        self.carrier = Carrier(recipe.sources)
        options = recipe.job.options
        self.mapping = options["mapping"] if _is_file(options.get("mapping")) else None
        self.machines: dict[str, Any] = {
            "platforms": [],
            "models": [],
            "calibration": encode(find_calibration(options.get("calibration"))),
            "noise": str(options.get("noise") or "none"),
            "mapping": str(options.get("mapping") or "block"),
        }

    def document(self, host_metrics: Iterable[str]) -> dict[str, Any]:
        """Return the recipe as plain data.

        Raises
        ------
        ProgramError
            A function or value that can neither be written nor pickled.
        """
        job, carry = self.recipe.job, self.carrier.carry
        left_out = _LEFT_OUT if self.mapping is None else (*_LEFT_OUT, "mapping")
        document = {
            "program": self.carrier.carry_program(job.program),
            "program_name": program_name(job.program),
            "args": carry(list(job.args)),
            "measure": carry(job.measure),
            "host_metrics": sorted({*host_metrics, *HOST_METRICS}),
            "seed": job.seed,
            "repeats": job.repeats,
            "seed_of_repetition": "seed + repetition",
            "timeout_s": job.timeout_s,
            "points": [self._point(point, rows) for point, rows in self.recipe.points],
            "options": carry({name: one for name, one in job.options.items() if name not in left_out}),
        }
        self.carrier.finish()
        return document

    def _point(self, point: Point, labels: range) -> dict[str, Any]:
        entry: dict[str, Any] = {
            "ranks": int(point.ranks),
            "parameters": self.carrier.carry(point.parameters),
            "rows": spans(self.positions[label] for label in labels if label in self.positions),
            "rows_of_the_sweep": len(labels),
        }
        if point.options:
            entry["options"] = self.carrier.carry(point.options)
            entry["cells"] = {name: one for name, one in point.cells.items() if name not in point.parameters}
        if is_real(point.on):
            named = str(point.on) if isinstance(point.on, str) else "cluster"
            return {**entry, "real": "slurm" if is_slurm(point.on) else named}
        from labkit.platform import platform

        machine = platform(point.on)
        if self.mapping is not None:
            machine = machine.mapped(self.mapping)
        model = machine.network(point.model)
        about = self.notes.get("machines", {}).get(machine.name, {})
        return {
            **entry,
            "platform": self._kept("platforms", {"name": machine.name, "spec": machine.spec}, machine),
            "model": self._kept("models", {"name": model.name}, model),
            "deterministic": bool(about.get("deterministic", True) or about.get("is_recorded")),
        }

    def _kept(self, kind: str, head: dict[str, Any], thing: Any) -> int:
        """Return the number of a machine or model in its list, where it is added once."""
        entry = {**head, "object": encode(thing)}
        known: list[str] = [json.dumps(other, sort_keys=True) for other in self.machines[kind]]
        key = json.dumps(entry, sort_keys=True)
        if key not in known:
            self.machines[kind].append(entry)
        return [*known, key].index(key)


def spans(numbers: Iterable[int]) -> list[list[int]]:
    """Write ascending numbers as spans, each with its first number and the one behind its last.

    Examples
    --------
    >>> spans([0, 1, 2, 7])
    [[0, 3], [7, 8]]
    """
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number:
            found[-1][1] += 1
        else:
            found.append([number, number + 1])
    return found


def numbers(written: Iterable[Any], below: int) -> list[int]:
    """Return the numbers of `spans`.

    Raises
    ------
    ValueError
        A span that is none, or that reaches `below`: a few bytes can ask for any number of rows.
    """
    found: list[int] = []
    for first, stop in written:
        if not 0 <= first < stop <= below:
            raise ValueError(f"there are no rows {first} to {stop} in a table of {below}")
        found += range(first, stop)
    return found


def _is_file(value: Any) -> bool:
    return isinstance(value, str | os.PathLike) and Path(value).is_file()
