"""The recipe of a study as a document: machines, models, seeds and calls, each written down once."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.checks import program_name
from labkit.real.slurm.options import is_slurm
from labkit.study.bundle.functions import Carrier
from labkit.study.bundle.plain import encode
from labkit.study.points import is_real
from labkit.study.recipe import Recipe, RecipePoint

__all__ = ["RecipeWriter", "numbers", "spans"]

_LEFT_OUT = ("trace", "trace_ti")  # what a run keeps beside its figures


class RecipeWriter:
    """Writes a recipe down.

    Parameters
    ----------
    recipe : Recipe
    data : DataFrame
        The study's rows, with the labels that the recipe knows.
    notes : mapping
        The study's notes: what was found of each machine.

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
        self.carrier = Carrier(recipe.captured)
        self.machines: dict[str, Any] = {"platforms": [], "models": []}

    def document(self, host_metrics: Iterable[str]) -> dict[str, Any]:
        """Return the recipe as plain data.

        Raises
        ------
        ProgramError
            A function or value that can neither be written nor pickled.
        """
        recipe = self.recipe
        options = {name: value for name, value in recipe.options.items() if name not in _LEFT_OUT}
        text = {
            "program": self.carrier.carry_program(recipe.program),
            "program_name": program_name(recipe.program),
            "args": self.carrier.carry(list(recipe.args)),
            "measure": self.carrier.carry(recipe.measure),
            "host_metrics": sorted(host_metrics),
            "seed": recipe.seed,
            "repeats": recipe.repeats,
            "seed_of_repetition": "seed + repetition",
            "timeout_s": recipe.timeout_s,
            "points": [self._point(point, options) for point in recipe.points],
            "options": self.carrier.carry(self._options(options)),
        }
        self.carrier.finish()
        return text

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of every run; what names files is written into the points."""
        from labkit.local.costs import find_calibration

        calibration = find_calibration(options.get("calibration"))
        self.machines["calibration"] = encode(calibration)
        self.machines["noise"] = str(options.get("noise") or "none")
        self.machines["mapping"] = str(options.get("mapping") or "block")
        if _is_file(options.get("mapping")):
            options = {name: value for name, value in options.items() if name != "mapping"}
        return {name: value for name, value in options.items() if name != "calibration"}

    def _point(self, point: RecipePoint, options: dict[str, Any]) -> dict[str, Any]:
        rows = [self.positions[label] for label in point.rows if label in self.positions]
        entry: dict[str, Any] = {
            "ranks": int(point.ranks),
            "parameters": self.carrier.carry(point.parameters),
            "rows": spans(rows),
            "rows_of_the_sweep": len(point.rows),
        }
        if is_slurm(point.on):
            return {**entry, "real": "slurm"}
        if is_real(point.on):
            return {**entry, "real": str(point.on) if isinstance(point.on, str) else "cluster"}
        from labkit.platform import models, platform

        machine = platform(point.on)
        if _is_file(options.get("mapping")):
            machine = machine.mapped(options["mapping"])
        model = models.get(machine.model if point.model is None else point.model)
        about = self.notes.get("machines", {}).get(machine.name, {})
        return {
            **entry,
            "platform": self._kept("platforms", {"name": machine.name, "spec": machine.spec}, machine),
            "model": self._kept("models", {"name": model.name}, model),
            "deterministic": bool(about.get("deterministic", True)),
        }

    def _kept(self, kind: str, head: dict[str, Any], thing: Any) -> int:
        """Return the number of a machine or model in its list, where it is added once."""
        entry = {**head, "object": encode(thing)}
        key = json.dumps(entry, sort_keys=True)
        known: list[dict[str, Any]] = self.machines[kind]
        for number, other in enumerate(known):
            if json.dumps(other, sort_keys=True) == key:
                return number
        known.append(entry)
        return len(known) - 1


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
