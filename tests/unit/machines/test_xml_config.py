"""The <config> block of platform files: SimGrid's settings as a network model."""

from dataclasses import replace

import numpy as np
import pytest

import labkit as lk
from labkit.errors import PlatformError
from labkit.machines import models
from labkit.machines.xml.writer import platform_xml, smpirun_options
from tests.support.refusals import raises_code

PLATFORM = platform_xml(lk.platform("star:4"), 4)


def _file(tmp_path, settings):
    props = "\n".join(f'<prop id="{key}" value="{value}"/>' for key, value in settings)
    head, version, body = PLATFORM.partition('<platform version="4.1">\n')
    path = tmp_path / "machine.xml"
    path.write_text(f"{head}{version}<config>\n{props}\n</config>\n{body}")
    return path


def _numbers(model):
    return {name: getattr(model, name) for name in models.OPTIONS}


def _program(comm):
    x = np.ones(20_000)
    comm.Allreduce(x, np.empty_like(x))
    comm.Alltoall(np.ones(4000), np.empty(4000))
    comm.Bcast(np.ones(30), 1)
    request = comm.irecv(source=comm.rank)
    comm.send(1, comm.rank)
    request.wait()


@pytest.mark.parametrize("name", [name for name in models.names() if name not in ("bgp", "bgq", "loggps")])
def test_what_is_written_for_smpirun_is_read_back(tmp_path, name):
    path = _file(tmp_path, [option.split(":", 1) for option in smpirun_options(name)])
    machine = lk.platform(path)
    assert _numbers(machine.model) == _numbers(models.get(name))
    assert lk.run(_program, 4, path).makespan_s == lk.run(_program, 4, "star:4", model=name).makespan_s


def test_a_calibrations_model_comes_back_whole(tmp_path):
    rows = tuple((100 * i, 1e-6 / (i + 3), 1e-10 * i) for i in range(20))
    factors = tuple((float(7**i), 1 + 1 / (i + 3)) for i in range(9))
    model = replace(
        models.get("lab"), name="measured", send_overhead=rows, recv_overhead=rows[:3], isend_overhead=(),
        latency_factor=factors, bandwidth_factor=factors[1:], detached_below_bytes=4097,
        eager_below_bytes=513, wtime_s=3e-8,
    )  # fmt: skip
    path = _file(tmp_path, [option.split(":", 1) for option in smpirun_options(model)])
    machine = lk.platform(path)
    assert _numbers(machine.model) == _numbers(model)
    assert len(machine.model.name) < 400
    assert lk.run(_program, 4, path).makespan_s == lk.run(_program, 4, "star:4", model=model).makespan_s
    again = lk.platform(str(machine.description))  # the machine's words carry its model
    assert _numbers(again.model) == _numbers(model)


def test_the_model_can_be_spelled_in_a_specification():
    machine = lk.platform("star:8,speed=2Gf,model=smpi,cross_traffic=no,send_overhead=0:1e-6:0")
    assert not machine.model.cross_traffic
    assert machine.model.send_overhead == ((0, 1e-6, 0.0),)
    assert machine.model.bandwidth_factor == models.get("smpi").bandwidth_factor
    with raises_code(PlatformError, "unknown-name", "cross_traffic"):
        lk.platform("star:8,cross_traffic=no")


def test_without_a_model_it_is_that_of_smpirun(tmp_path):
    path = _file(tmp_path, [("network/crosstraffic", "0"), ("tracing", "yes")])
    machine = lk.platform(path)
    assert machine.model == models.get("smpi", cross_traffic=False)
    assert ("read over", "<config tracing> (line 6)") in machine.facts
    assert lk.platform(_file(tmp_path, [("tracing", "yes")])).model.name == models.DEFAULT


def test_how_simgrid_computes_is_read_over_and_rows_come_in_any_order(tmp_path):
    settings = [
        ("maxmin/precision", "0.00001"), ("surf/precision", "1e-9"), ("cpu/optim", "TI"),
        ("host/model", "compound"), ("smpi/bw-factor", "65472:0.94;15424:0.7;9376:0.59"),
    ]  # fmt: skip
    model = lk.platform(_file(tmp_path, settings)).model
    assert model.bandwidth_factor == ((9376, 0.59), (15424, 0.7), (65472, 0.94))


def test_old_spellings_and_single_factors(tmp_path):
    settings = [("network/model", "LV08"), ("network/TCP_gamma", "1000"), ("network/latency-factor", "2.5")]
    model = lk.platform(_file(tmp_path, settings)).model
    assert (model.tcp_gamma_bytes, model.latency_factor) == (1000, ((0, 2.5),))


REFUSED = [
    (
        [("network/model", "ns-3")],
        ("malformed-line", "line 5", "<config>", "'network/model'", "'ns-3'"),
    ),
    ([("network/loopback-lat", "0")], ("malformed-line", "line 5", "network/model")),
    (
        [("smpi/os", "0:1:0"), ("smpi/alltoall", "ring")],
        ("malformed-line", "line 6", "'smpi/alltoall'", "--coll"),
    ),
    ([("smpi/os", "0:1")], ("malformed-line", "line 5", "'smpi/os'", "'0:1'", "row 1")),
    ([("smpi/os", "x")], ("malformed-line", "line 5", "'smpi/os'", "'x'", "THRESHOLD")),
    ([("smpi/lat-factor", "3:2;3:1")], ("malformed-line", "line 5", "thresholds")),
    (
        [("smpi/lat_factor", "0:2"), ("smpi/lat-factor", "0:3")],
        ("malformed-line", "line 6", "line 5"),
    ),
    ([("network/crosstraffic", "maybe")], ("malformed-line", "line 5")),
    ([("smpi/grow-injected-times", "yes")], ("malformed-line", "line 5")),
    (
        [("network/model", "CM02"), ("smpi/bw-factor", "0:2")],
        ("malformed-line", "line 6", "network/model", "CM02"),
    ),
    ([("surf/nothing", "1e-9")], ("malformed-line", "line 5")),
    ([("netwrok/model", "SMPI")], ("malformed-line", "line 5", "'netwrok/model'", "'network'")),
    ([("host/model", "ptask_L07")], ("malformed-line", "line 5", "'host/model'", "'ptask_L07'")),
]


@pytest.mark.parametrize(("settings", "wanted"), REFUSED)
def test_what_cannot_be_read_is_named_with_its_line(tmp_path, settings, wanted: tuple[str, ...]):
    with raises_code(PlatformError, *wanted):
        lk.platform(_file(tmp_path, settings))


@pytest.mark.parametrize("inside", ["<foo/>", '<prop id="smpi/os" value="0:0:0"/>', "text"])
def test_a_setting_contains_nothing(tmp_path, inside):
    path = _file(tmp_path, [("smpi/wtime", "1e-8")])
    path.write_text(path.read_text().replace('value="1e-8"/>', f'value="1e-8">{inside}</prop>'))
    with raises_code(PlatformError, "malformed-line", "line 5", "<prop>"):
        lk.platform(path)


#: the first words of the names of SimGrid's other settings
OTHERS = (
    "clean-atexit", "cfg", "contexts", "dbg", "debug", "disk", "exception", "for-loop", "log", "msg", "ns3",
    "model-check", "path", "plugin", "precision", "storage", "tracing", "verbose-exit", "simix", "xbt", "sd",
)  # fmt: skip


@pytest.mark.parametrize("word", OTHERS)
def test_settings_about_other_things_are_passed_over(tmp_path, word):
    machine = lk.platform(_file(tmp_path, [(f"{word}/x", "1")]))
    assert _numbers(machine.model) == _numbers(lk.platform(_file(tmp_path, [])).model)
