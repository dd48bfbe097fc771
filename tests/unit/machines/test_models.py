"""Network models: the tables are SimGrid's, options change single numbers, nonsense is refused."""

from __future__ import annotations

import pytest

from labkit.errors import PlatformError
from labkit.machines import models
from tests.support.refusals import raises_code


def test_the_known_models() -> None:
    assert models.names() == [
        *("bgp", "bgq", "cm02", "graphene", "ib", "lab", "loggps", "lv08", "raw", "rdma", "smpi"),
    ]
    assert models.get().name == models.DEFAULT == "lab"
    for name in models.names():
        model = models.get(name)
        assert model.name == name
        assert model.title
        assert model.source


def test_what_tells_the_simgrid_models_apart() -> None:
    raw, cm02, lv08, smpi = (models.get(name) for name in ("raw", "cm02", "lv08", "smpi"))
    assert [m.weight_s_bytes for m in (raw, cm02, lv08, smpi)] == [0, 0, 20537, 8775]
    assert [m.cross_traffic for m in (raw, cm02, lv08, smpi)] == [False, True, True, True]
    assert [m.tcp_gamma_bytes for m in (raw, cm02, lv08, smpi)] == [0, 4194304, 4194304, 4194304]
    assert lv08.latency_factor == ((0, 13.01),)
    assert len(smpi.latency_factor) == len(smpi.bandwidth_factor) == 9


def test_lab_is_smpi_with_start_ups_that_cost() -> None:
    lab, smpi = models.get("lab"), models.get("smpi")
    different = {key for key in models.OPTIONS if getattr(lab, key) != getattr(smpi, key)}
    assert different == {"send_overhead", "isend_overhead", "recv_overhead"}
    assert smpi.send_overhead == smpi.isend_overhead == smpi.recv_overhead == ()
    assert all(table[0][1] > 1e-6 for table in (lab.send_overhead, lab.isend_overhead, lab.recv_overhead))


def test_messages_are_copied_below_the_length_from_which_a_byte_costs_no_time() -> None:
    limits = {name: models.get(name).copied_below_bytes for name in models.names()}
    assert {name: limit for name, limit in limits.items() if limit} == {
        "graphene": 327_680, "lab": 65_536, "loggps": 65_536,
    }  # fmt: skip
    at_the_end = models.get("smpi", recv_overhead=((0, 1e-6, 0.0), (70_000, 1e-6, 1e-9)))
    assert at_the_end.copied_below_bytes == 0  # what is longer than a detached message is not copied
    assert models.get("smpi", send_overhead=((0, 1e-6, 1e-9),)).copied_below_bytes == 65_536
    assert models.get("lab", detached_below_bytes=0, eager_below_bytes=0).copied_below_bytes == 0


def test_options_change_single_numbers_and_the_name_says_so() -> None:
    changed = models.get("smpi", cross_traffic=False, wtime_s=0.0)
    assert changed.name == "smpi(cross_traffic=False, wtime_s=0.0)"
    assert (changed.cross_traffic, changed.wtime_s) == (False, 0.0)
    assert changed.latency_factor == models.get("smpi").latency_factor
    assert models.get("smpi", cross_traffic=True) is models.get("smpi")
    assert models.get("raw", send_overhead=[[0, 1e-6, 0]]).send_overhead == ((0, 1e-6, 0),)


@pytest.mark.parametrize("name", ["infiniband", "LAB", "", "logp"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with raises_code(PlatformError, "unknown-name"):
        models.get(name)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"crosstraffic": False}, ("unknown-name", "cross_traffic")),
        ({"wtime_s": -1.0}, ("invalid-value", "wtime_s", "0")),
        ({"test_s": float("nan")}, ("invalid-value", "test_s", "0")),
        ({"latency_factor": [[5, 1.0], [5, 2.0]]}, ("invalid-value",)),
        ({"latency_factor": [[0, 0.0]]}, ("invalid-value",)),
        ({"bandwidth_factor": [[0, 1.0, 2.0]]}, ("invalid-value", "2")),
        ({"recv_overhead": [[0, -1e-6, 0.0]]}, ("invalid-value", "0")),
        ({"eager_below_bytes": 70000}, ("invalid-value",)),
    ],
)
def test_nonsense_is_refused(options: dict[str, object], wanted: tuple[str, ...]) -> None:
    with raises_code(PlatformError, *wanted):
        models.get("smpi", **options)


def test_a_model_is_a_name_or_a_model() -> None:
    with raises_code(PlatformError, "wrong-type"):
        models.get(3)  # type: ignore[arg-type]
