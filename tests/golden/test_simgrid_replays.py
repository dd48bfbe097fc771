"""Replays of time-independent traces against SimGrid 3.32's own (benchmarks/replay.py --goldens)."""

import json
from pathlib import Path

import pytest

import labkit as lk

HERE = Path(__file__).parent / "replay"
CASES = json.loads((HERE / "index.json").read_text())["cases"]


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_the_makespan_is_simgrids(case):
    run = lk.replay(HERE / f"{case['name']}.txt.gz", case["on"], model=case["model"], coll=case["coll"])
    assert run.makespan_s == pytest.approx(case["makespan_s"], rel=1e-6)
