"""Node-local costs of named machines: of their own cores, with sources, near what others have published."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import labkit as lk
from labkit import local
from labkit.errors import DataError, PlatformError
from labkit.local.costs import KernelCosts, find_calibration
from labkit.machines import named
from tests.support.refusals import raises_code

FOLDER = Path(__file__).parents[3] / "datasets" / "calibrations"
DERIVED = sorted(path.stem for path in FOLDER.glob("*.toml") if path.stem not in ("default", "packing"))
#: seconds for 10^7 64-bit keys on one core: the order of magnitude that a reader expects
SORTS_S = {
    "graphene": (0.9, 1.4), "jugene": (3, 5), "juqueen": (2, 4), "juropa": (0.8, 1.3),
    "lichtenberg": (0.7, 1.1), "piz-daint": (0.7, 1.1), "tibidabo": (3, 8),
}  # fmt: skip


@pytest.mark.parametrize("name", named.names())
def test_a_local_sort_takes_what_the_cores_of_the_machine_take(name: str) -> None:
    run = lk.run(keys_sorted, 1, name, args=(10**7,))
    low, high = SORTS_S[name]
    assert low < run.makespan_s < high
    assert not any("node-local costs" in note for note in run.notes)
    assert run.machine["calibration"] in DERIVED


def keys_sorted(comm: Any, n: int) -> None:
    from labkit.local.costs import charge

    charge("sort", 8, n, n)
    comm.Barrier()


@pytest.mark.parametrize("name", DERIVED)
def test_every_figure_has_its_source_and_published_times_are_near(name: str) -> None:
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    for fact in table["facts"]:
        assert set(fact) in ({"what", "value", "source"}, {"what", "value", "assumed"})
    costs = find_calibration(name)
    published = table.get("published", [])
    for row in published:
        assert row["source"]
        took = costs.seconds(row["kernel"], row["itemsize"], row["items"], row["items"])
        assert took == pytest.approx(row["seconds"], rel=0.25)
    none = next((fact for fact in table["facts"] if fact["what"] == "published sorts"), None)
    assert len(published) >= 2 or none is not None


def test_no_flop_rate_scales_them() -> None:
    times = {
        on: lk.run(keys_sorted, 1, on, args=(10**6,), model="raw").makespan_s
        for on in (
            "lichtenberg",
            "lichtenberg,speed=1Gf",
            "lichtenberg,speed=1Tf",
            "star:1,calibration=xeon-e5-2670",
        )
    }
    assert list(times.values()) == pytest.approx([times["lichtenberg"]] * len(times), rel=1e-9)


def test_the_run_and_the_process_may_choose_others() -> None:
    own = lk.run(keys_sorted, 1, "lichtenberg", args=(10**6,))
    default = lk.run(keys_sorted, 1, "lichtenberg", args=(10**6,), calibration="default")
    assert (own.machine["calibration"], default.machine["calibration"]) == ("xeon-e5-2670", "default")
    assert own.makespan_s > 5 * default.makespan_s
    previous = local.use_calibration("xeon-x5570")
    try:
        assert lk.run(keys_sorted, 1, "lichtenberg", args=(10,)).machine["calibration"] == "xeon-x5570"
    finally:
        local.use_calibration(previous)


def test_a_machine_shows_what_its_cores_take() -> None:
    shown = repr(lk.platform("lichtenberg"))
    assert "seconds per 10^6 keys  " in shown
    assert "sort 0.0777 s" in shown
    assert "bandwidth of memory" in shown
    assert "52.48GBps a host" in shown
    assert "has no node-local costs" in repr(lk.platform("star:4,speed=2Gf"))
    assert "node-local" not in repr(lk.platform("star:4"))


def test_a_machine_without_costs_of_its_own_says_so_where_kernels_ran() -> None:
    def idle(comm: Any) -> None:
        comm.Barrier()

    note = "star:2,speed=2Gf has no node-local costs"
    assert any(text.startswith(note) for text in lk.run(keys_sorted, 1, "star:2,speed=2Gf", args=(9,)).notes)
    assert not any(note in text for text in lk.run(idle, 2, "star:2,speed=2Gf").notes)
    named = lk.run(keys_sorted, 1, "star:2,speed=2Gf", args=(9,), calibration="powerpc-a2")
    assert not any(note in text for text in named.notes)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("[scaled]\nsort = 0\n", ("unreadable-file", "0")),
        ("[scaled]\nsorting = 2\n", ("unreadable-file", "2")),
        ("[memory]\nbytes_per_s = -1\n", ("unreadable-file", "bytes_per_s", "0", "-1")),
        ("[kernels.sort.8]\nitems_s = 1e-9\n", ("unreadable-file", "call_s")),
    ],
)
def test_what_is_no_cost_is_refused(text: str, wanted: tuple[str, ...]) -> None:
    whole = 'base = "default"\n[machine]\ncpu = "none"\n' + text
    whole += "" if "[kernels" in text else "[kernels]\n"
    with raises_code(DataError, *wanted):
        KernelCosts.read(whole, "mine")


def test_a_specification_names_costs_that_are_there() -> None:
    assert str(lk.platform("torus:4,calibration=powerpc-a2").description) == "torus:4,calibration=powerpc-a2"
    with raises_code(PlatformError, "unknown-name", "'powerpc-a3'"):
        lk.platform("torus:4,calibration=powerpc-a3")
