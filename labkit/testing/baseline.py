"""Baselines: the growth a program had, kept as JSON in its own repository."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labkit.errors import DataError
from labkit.plain import json_of, replace_file

if TYPE_CHECKING:
    from labkit.scaling import Model
    from labkit.study import Study

__all__ = ["Baseline", "by_place", "read_baseline", "write_baseline"]


@dataclass(frozen=True)
class Baseline:
    """What a program's growth was, and what it was measured with.

    Attributes
    ----------
    growth, model : str
        The order of growth, and the model with its numbers.
    parameter : str
        What was varied.
    values : dict of str to float
        The aggregated measurements, by the parameter's values.
    made_with : dict
        Where a change outside the program shows: labkit's version, the machines and digests of their content,
        the network models, and what the engine computes for a fixed program with each of them.
    """

    growth: str
    model: str
    parameter: str
    values: dict[str, float]
    made_with: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Model, study: Study) -> Baseline:
        """Return the baseline of a model fitted to a study."""
        return cls(
            str(model.term), model.formula, model.parameter,
            by_place(model.x, model.y), made_with(study),
        )  # fmt: skip

    def factor(self, values: Mapping[str, float]) -> tuple[float, str] | None:
        """Return how many times larger values are than these, and where that is; None where nothing compares.

        It is the larger one of the factor at the largest value of the parameter and the median of all.
        """
        found = {at: values[at] / old for at, old in self.values.items() if at in values and old > 0}
        if not found:
            return None
        last = max(found, key=float)
        middle = statistics.median(found.values())
        if found[last] >= middle:
            return found[last], f"at {self.parameter} = {last}"
        return middle, f"in the median of {len(found)} values of {self.parameter}"

    def changed(self, study: Study) -> list[str]:
        """Return in words what is not as it was when the baseline was made."""
        now = made_with(study)
        names = [name for name in {**self.made_with, **now} if self.made_with.get(name) != now.get(name)]
        return [f"{name} was {self.made_with.get(name)!r} and is {now.get(name)!r}" for name in names]


def by_place(x: Iterable[float], y: Iterable[float]) -> dict[str, float]:
    """Return measurements by the parameter's values, as a baseline keeps them."""
    return {f"{at:.15g}": float(value) for at, value in zip(x, y, strict=True)}


def made_with(study: Study) -> dict[str, Any]:
    """Return the versions and machines of a study."""
    import labkit

    def names(column: str) -> list[str]:
        return sorted({str(v) for v in study.data[column].dropna().unique() if v})

    described: dict[str, Any] = study.notes.get("machines", {})
    contents = {
        f"the content of {on} (platform, mapping, network model, calibration)": str(one["digest"])[:16]
        for on, one in sorted(described.items())
        if isinstance(one, dict) and one.get("digest")
    }
    probes = {f"engine with model {name}": probe(name) for name in names("model")}
    return {
        "labkit": labkit.__version__, "on": ", ".join(names("on")),
        "network model": ", ".join(names("model")), **contents, **probes,
    }  # fmt: skip


@cache
def probe(model: str) -> str:
    """Return what the engine computes for a fixed program: the same to the bit until the engine changes.

    Neighbours exchange a message above and one below the eager limit, then all ranks reduce: start-ups,
    shared links and the model's numbers are in it, collectives' algorithms too.
    """
    import labkit
    from labkit.errors import LabkitError

    def program(comm: Any) -> float:
        right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        for n_bytes in (100, 1_000_000):
            comm.sendrecv(bytes(n_bytes), dest=right, source=left)
        comm.allreduce(comm.rank)
        return 0.0

    try:
        run = labkit.run(program, 7, "torus:3x3", model=model)
    except LabkitError:  # a model of a file that is not here
        return "unknown"
    return f"7 ranks on torus:3x3 in {run.makespan_s!r} s"


def read_baseline(path: Path) -> Baseline | None:
    """Read a baseline; None where there is none.

    Raises
    ------
    DataError
        For a file that is no baseline.
    """
    try:
        found = json_of(path.read_text(encoding="utf-8"))
        return Baseline(**found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DataError(
            f"{path} is not a baseline of scaling tests ({error}); run pytest with --scaling-update"
        ) from None


def write_baseline(baseline: Baseline, path: Path) -> None:
    """Write a baseline, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, json.dumps(asdict(baseline), indent=2, ensure_ascii=False) + "\n")
