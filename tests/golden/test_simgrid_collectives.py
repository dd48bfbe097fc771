"""Collectives take as long as SMPI's algorithms of the same messages, at every rank.

The figures are SimGrid 3.32's own (`benchmarks/simgrid/smpi_names.py`). It measures all of SMPI's algorithms;
those whose messages differ from labkit's in order or number are not among the goldens.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labkit import registry
from labkit.machines.models import get
from labkit.sim.schedules import simulate

GOLDENS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("simgrid_collectives.json").read_text())


@pytest.mark.parametrize("smpi", sorted({golden["smpi"] for golden in GOLDENS}))
def test_every_rank_ends_when_it_does_there(smpi: str) -> None:
    for golden in GOLDENS:
        if golden["smpi"] == smpi:
            end = np.array(golden["end_s"])
            begin = np.broadcast_to(golden["begin_s"], end.shape)
            schedule = registry.get(golden["problem"], golden["name"]).build(len(end))
            run = simulate(schedule, golden["spec"], get("lab"), n_bytes=golden["bytes"], start_s=begin)
            assert np.abs(np.asarray(run.end_s) - end).max() <= 1e-6 * (end - begin).max(), golden["spec"]


def test_there_are_as_many_as_were_measured() -> None:
    assert len({golden["smpi"] for golden in GOLDENS}) >= 100
    assert {len(golden["end_s"]) for golden in GOLDENS} == {2, 16, 17, 64}
    assert {golden["spec"].partition(":")[0] for golden in GOLDENS} == {"star", "torus", "fattree"}
