"""Named machines: they build, run, cite every figure, and are found by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import models, named
from tests.support.refusals import raises_code

FOLDER = Path(__file__).parents[3] / "datasets" / "machines"
HOSTS = {
    "graphene": 144, "jugene": 73_728, "juqueen": 28_672, "juropa": 3_288, "lichtenberg": 704,
    "piz-daint": 5_376, "tibidabo": 128,
}  # fmt: skip


def program(comm: object) -> int:
    return comm.allreduce(comm.rank)  # type: ignore[attr-defined, no-any-return]


def test_all_are_there() -> None:
    assert set(named.names()) == set(HOSTS) == {path.stem for path in FOLDER.glob("*.toml")}


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_every_figure_has_a_source_or_is_marked_as_assumed(name: str) -> None:
    table = tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))
    assert table["title"]
    assert len(table["facts"]) >= 8
    for fact in table["facts"]:
        assert set(fact) in ({"what", "value", "source"}, {"what", "value", "assumed"})
        assert all(text.strip() for text in fact.values())
    shown = lk.platform(name)._repr_html_()
    for fact in table["facts"]:
        assert fact["what"].replace("'", "&#x27;") in shown
    assert "source:" in shown
    assert "assumed:" in shown


@pytest.mark.parametrize("name", sorted(HOSTS))
def test_each_builds_and_runs(name: str) -> None:
    machine = lk.platform(name)
    assert (machine.name, machine.hosts) == (name, HOSTS[name])
    run = lk.run(program, 64, name)
    assert run.results == [64 * 63 // 2] * 64
    assert 1e-6 < run.makespan_s < 0.1
    assert name in str(run.on)


def test_graphene_is_the_papers(tmp_path: Path) -> None:
    """Limiters of 1.5 B at the nodes and of 13 Gb/s between cabinets; its own thresholds."""
    machine = lk.platform("graphene")
    built = machine.build(144)
    names, _ = built.route(0, 143)
    assert names == [
        "cabinet1: limiter 0", "cabinet1: up 0", "limiter1", "uplink1 up", "uplink4 down", "limiter4",
        "cabinet4: down 39", "cabinet4: limiter 39",
    ]  # fmt: skip
    assert built.route(0, 38)[0] == [
        "cabinet1: limiter 0", "cabinet1: up 0", "cabinet1: down 38", "cabinet1: limiter 38",
    ]  # fmt: skip
    assert machine.description.host_number("graphene-75.nancy.grid5000.fr") == 74
    model = machine.model
    assert (model.name, model.eager_below_bytes, model.detached_below_bytes) == ("graphene", 65536, 327680)


def test_two_way_traffic_of_a_node_gets_one_and_a_half_times_its_bandwidth() -> None:
    """Paper section 3.2: concurrent exchanges see B_s + B_r = 1.5 B, not 2 B."""

    def exchange(comm: object) -> float:
        import numpy as np

        peer = comm.rank ^ 1  # type: ignore[attr-defined]
        data = np.zeros(4 << 20, np.uint8)
        begin = lk.MPI.Wtime()
        comm.Sendrecv(data, peer, recvbuf=np.empty_like(data), source=peer)  # type: ignore[attr-defined]
        return float(lk.MPI.Wtime() - begin)

    took = max(lk.run(exchange, 2, lk.platform("graphene").mapped("cyclic")).results)
    both = 2 * (4 << 20) / took
    factor = 0.940694  # SMPI's bandwidth factor of large messages
    assert both / 125e6 == pytest.approx(1.5 * factor / 1.0, rel=0.06)


def test_a_name_is_found_in_any_case_and_takes_options() -> None:
    assert lk.platform("JUQUEEN") == lk.platform("juqueen")
    changed = lk.platform("juropa,lat=1us,model=lab")
    assert (changed.description.lat, changed.model.name) == (1e-6, "lab")  # type: ignore[attr-defined]
    assert changed.description.bw == 4e9  # type: ignore[attr-defined]
    assert changed.name == "juropa, lat=1us,model=lab"
    with raises_code(PlatformError, "conflicting-options"):
        lk.platform("graphene,lat=1us")


@pytest.mark.parametrize(
    ("wrong", "near"), [("grafene", "graphene"), ("juquen", "juqueen"), ("piz-dain", "piz-daint")]
)
def test_unknown_names_suggest_near_ones(wrong: str, near: str) -> None:
    with raises_code(PlatformError, "unknown-name", repr(near)):
        lk.platform(wrong)


def test_models_of_machines_are_models_like_others() -> None:
    for name in ("graphene", "rdma"):
        assert models.get(name).source.strip()
