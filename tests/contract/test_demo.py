"""The demo's simulated half: what it sweeps, judges and extrapolates is really simulated and checked."""

from __future__ import annotations

import numpy as np
import pytest

from labkit import registry
from labkit.cli import demo as module
from labkit.cli.demo import MACHINES, PLANS, SORTERS, Demo, Extent
from labkit.errors import CheckError
from tests.support.refusals import raises_code

P = (2, 4, 8, 16, 32)


@pytest.fixture(scope="module")
def small() -> Demo:
    demo = Demo(Extent((), P, 64, ()), {})
    demo.rows["simulated"] = [module.simulate(demo, "sample sort", "star")]
    return demo


def test_plans_take_the_five_sorts_and_every_machine() -> None:
    assert {name.replace(" ", "_") for name in SORTERS} < set(registry.names("sorting"))
    assert set(MACHINES) == {"star", "torus", "fat tree"}
    assert all(len(plan.simulated) >= 5 for plan in PLANS.values()), "a verdict needs five"


def test_every_sorter_promises_something_for_each_of_its_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SORTERS", tuple(registry.names("sorting")))
    demo = Demo(Extent((), P, 64, ()), {})
    for sorter in module.SORTERS:
        row = module.simulate(demo, sorter, "star")
        assert set(demo.tables[sorter]["star"].verdicts) == {
            *demo.studies[sorter]["star"].phases,
            "whole run",
        }
        assert row["keys"] == 32 * (registry.get("sorting", sorter).requirements.keys_per_rank or 1000)
        assert row["messages"] > 0
        assert row["largest / mean block"] >= 1


def test_the_largest_phase_is_named_with_its_share(small: Demo) -> None:
    times = small.studies["sample sort"]["star"].filter(ranks=32, metric="phase_s").data
    medians = times.groupby("phase")["value"].median()
    name, share = small.rows["simulated"][0]["largest phase"].rstrip(")%").split(" (")
    assert name in {"agree", "local sort", "splitters", "exchange", "merge"}
    assert medians[name] == medians.max()
    assert 20 <= int(share) < 100


def test_extrapolation_compares_with_a_run(small: Demo) -> None:
    row = module.extrapolate(small, "sample sort")
    again = Demo(Extent((), (4, 8, 16, 32, 64), 128, ()), {})
    assert row["simulated"] == module.simulate(again, "sample sort", "star")["p = 64"]
    model = small.tables["sample sort"]["star"].models["whole run"]
    assert model is not None
    assert row["best model"] == float(model.predict(64))


def test_a_wrong_sort_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsorted(comm: object, sorter: str, n_local: int, seed: int = 0) -> np.ndarray:
        from labkit.datasets import inputs
        from labkit.program.context import phase

        for name in ("agree", "local sort", "splitters", "exchange", "merge"):
            with phase(name):
                pass
        return inputs.keys("uniform", comm.rank, comm.size, n_local)

    monkeypatch.setattr(module, "sort_generated", unsorted)
    with raises_code(CheckError, "wrong-result", "NumPy", "ranks 2", "4", "8"):
        module.simulate(Demo(Extent((), P, 64, ()), {}), "sample sort", "star")
