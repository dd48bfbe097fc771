"""The communicator's calls take SimGrid 3.32's time: the goldens' programs, written with mpi4py's calls."""

from __future__ import annotations

import communicator
import golden_files
import numpy as np
import pytest

import labkit as lk
from labkit.machines import models

EVERY = golden_files.every_golden()
#: Collectives have a test of their own, and the ping-pongs differ only in sizes.
KINDS = {"blocking", "posted", "any", "linear", "self", "zero", "two", "pairs", "exchange", "cores", "iprobe"}
#: Collectives; a clock that costs something; Waitany, which here takes the first of its list that is over.
OTHERS = ("cores-rounds", "cores-calls", "cores-waitany")
CHOSEN = [name for name in EVERY if name.split("-")[0] in KINDS and not name.startswith(OTHERS)]


@pytest.mark.parametrize("name", CHOSEN)
def test_every_mark_agrees(name: str) -> None:
    golden = EVERY[name]
    model = models.get(golden["model"], **golden["options"])
    machine = lk.platform(golden["spec"])
    ours, _ = communicator.marks_of(golden["program"], golden["ranks"], machine, model, {})
    np.testing.assert_allclose(ours, np.concatenate(golden["marks_s"]), rtol=1e-6)
