"""labkit's selectors `smpi`, `ompi`, `mpich`, `mvapich2` and `impi` choose what smpirun's do.

The figures are SimGrid 3.32's own (`benchmarks/simgrid/smpi_selectors.py`): a selector took one that has
the very same times, as sometimes several have.
"""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest

from labkit.selector import Choices, selector_of

GOLDENS = json.loads(Path(__file__).with_name("simgrid_selectors.json").read_text())
NAMES = tomllib.loads((files("labkit.datasets") / "selectors" / "smpi_names.toml").read_text())
#: what SMPI makes of the selector's own choices, and which algorithm that is under this selector
MADE_OF = {
    ("allreduce", "redbcast"): "flat_bcast",
    ("reduce", "mvapich2_two_level"): "rabenseifner",
}


@pytest.mark.parametrize("selector", ["smpi", "ompi", "mpich", "mvapich2", "impi"])
def test_it_chooses_what_smpirun_chooses(selector: str) -> None:
    choices = Choices(selector_of(selector))
    points = [point[1:] for point in GOLDENS if point[0] == selector]
    assert len(points) >= 200
    wrong = []
    for operation, ranks, size, theirs in points:
        chosen = choices(operation, ranks, size)
        allowed = {NAMES[operation][name].partition(":")[0] for name in theirs}
        allowed |= {MADE_OF[operation, name] for name in theirs if (operation, name) in MADE_OF}
        if chosen.partition(":")[0] not in allowed:
            wrong.append((operation, ranks, size, chosen, sorted(allowed)))
    assert not wrong
