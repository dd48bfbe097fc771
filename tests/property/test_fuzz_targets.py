"""A short form of `make fuzz`: the same seeds changed in the same ways every time."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.fuzz import run

TARGETS = sorted(path for path in run.HERE.glob("*.py") if path.name != "run.py")
#: inputs of each: a few seconds
INPUTS = {"archives": 24, "bundles": 120, "kept_files": 150, "notebooks": 24, "tables": 600}
OTHERS = 800


@pytest.mark.parametrize("name", ["kept_files", "platform_files", "tables", "traces"])
def test_seeds_are_read(name: str) -> None:
    """Of a seed that is refused only the first check is ever tried."""
    module = run.loaded(run.HERE / f"{name}.py")
    assert [seed for seed in module.SEEDS if not module.check(seed)] == []


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda path: path.stem)
def test_changed_seeds_are_read_or_refused(target: Path) -> None:
    if target.stem == "archives":
        pytest.importorskip("otf2")
    module, chance = run.loaded(target), random.Random(f"short {target.stem}")
    for _ in range(INPUTS.get(target.stem, OTHERS)):
        module.check(run.mutated(module.SEEDS, chance))
