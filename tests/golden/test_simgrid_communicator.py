"""The communicator's calls take SimGrid 3.32's time: the goldens' programs, written with mpi4py's calls."""

from __future__ import annotations

import json
from pathlib import Path

import communicator
import numpy as np
import pytest

import labkit as lk
from labkit.platform import models

FOLDER = Path(__file__).parent / "simgrid"
#: Collectives have a test of their own, and the ping-pongs differ only in sizes.
KINDS = {"blocking", "posted", "any", "linear", "self", "zero", "two", "pairs", "exchange", "cores", "iprobe"}
#: Collectives; a clock that costs something; Waitany, which here takes the first of its list that is over.
OTHERS = ("cores-rounds", "cores-calls", "cores-waitany")
FILES = sorted(
    path
    for path in FOLDER.glob("*.json")
    if path.stem.split("-")[0] in KINDS and not path.stem.startswith(OTHERS)
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_mark_agrees(path: Path) -> None:
    golden = json.loads(path.read_text())
    model = models.get(golden["model"], **golden["options"])
    machine = lk.platform(golden["spec"])
    ours, _ = communicator.marks_of(golden["program"], golden["ranks"], machine, model, {})
    np.testing.assert_allclose(ours, np.concatenate(golden["marks_s"]), rtol=1e-6)
