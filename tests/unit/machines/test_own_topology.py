"""A custom topology: the example of docs/developing/machines.md, as a file among the topologies."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.jupyter.explorers.topology_explorer import look
from labkit.machines import topologies
from labkit.machines.spec import kinds, reader
from labkit.machines.spec.cluster import KINDS
from labkit.machines.xml.writer import host_file, platform_xml
from labkit.plot import topology
from tests.support.refusals import raises_code

ROOT = Path(__file__).parents[3]


@pytest.fixture(autouse=True)
def hypercube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the example's file into the folder, and take it away again."""
    chapter = (ROOT / "docs/developing/machines.md").read_text("utf-8").split("## Add a topology")[1]
    found = re.search(r"```python\n(.*?)```", chapter, re.DOTALL)
    assert found is not None
    (tmp_path / "hypercube.py").write_text(found[1])
    monkeypatch.setattr(topologies, "__path__", [*topologies.__path__, str(tmp_path)])
    reader._load_topologies.cache_clear()
    yield
    reader._load_topologies.cache_clear()
    KINDS.pop("hypercube", None)
    sys.modules.pop("labkit.machines.topologies.hypercube", None)


def test_its_specification_is_read_and_written() -> None:
    machine = lk.platform("hypercube:4,lat=2us")
    assert machine.hosts == 16
    assert machine.spec == "hypercube:4,lat=2us"
    assert [lk.platform("hypercube").sized(ranks).hosts for ranks in (1, 2, 9)] == [2, 2, 16]
    assert "hypercube" in kinds()
    with raises_code(PlatformError, "out-of-range", "character 11", "'21'"):
        lk.platform("hypercube:21")
    with raises_code(PlatformError, "unknown-name", "'hypercube'", "DIMENSIONS"):
        lk.platform("hypercub:4")
    with raises_code(PlatformError, "conflicting-options"):
        lk.platform("hypercube:4,limiter=1GBps")


def test_programs_run_on_it_and_its_routes_are_the_shortest() -> None:
    assert lk.run(lambda comm: comm.allreduce(1), 8, on="hypercube:3").results == [8] * 8
    built = lk.platform("hypercube:5").build(1)
    for src in range(32):
        for dst in range(32):
            links, latency = built.route(src, dst)
            if src != dst:
                assert len(links) == (src ^ dst).bit_count()
                assert latency == pytest.approx(len(links) * 1e-6, rel=1e-12)


def test_its_measures() -> None:
    machine = lk.platform("hypercube:5")
    assert str(machine.diameter) == "5 links, 5us"
    assert str(machine.bisection) == "20GBps each way (16 cables along one dimension)"
    told = {kind.kind: kind.count for kind in machine.link_kinds()}
    assert told["links between hosts"] == 5 * 32
    assert sum(told.values()) == len(machine.links())
    assert lk.platform("hypercube:5,sharing=fatpipe").bisection is None


def test_it_is_drawn() -> None:
    machine = lk.platform("hypercube:3")
    layout = machine.description.lay_out()
    assert (len(layout.hosts), len(layout.cables)) == (8, 12)
    assert 'alt="8 hosts, 0 switches, 12 cables"' in machine._repr_html_()
    assert "3 links" in topology(machine, route=(0, 7)).reading
    assert "a smaller one" in topology("hypercube:10").reading
    assert look("hypercube:3", route=(0, 5), pattern="shift").route


def test_simgrids_file_of_it_is_the_same_machine(tmp_path: Path) -> None:
    machine = lk.platform("hypercube:3,model=smpi")
    file = tmp_path / "cube.xml"
    file.write_text(platform_xml(machine, 8))
    back = lk.platform(file)
    assert back.model == machine.model
    assert host_file(machine, 8) == host_file(back, 8)
    one, two = machine.build(8), back.build(8)
    assert all(one.route(a, b) == two.route(a, b) for a in range(8) for b in range(8))


def test_it_is_no_zone() -> None:
    with raises_code(PlatformError, "invalid-value"):
        lk.Zone("all").cluster("cube", "hypercube:3")


def test_the_name_of_one_of_labkits_own_is_taken() -> None:
    with raises_code(PlatformError, "name-taken", "'torus'"):
        type("TorusSpec", (kinds()["torus"],), {"KIND": "torus"})
