"""What a calibration says, writes and refuses."""

from __future__ import annotations

import json
import shutil
import subprocess
import tomllib

import numpy as np
import pandas as pd
import pytest

import labkit as lk
from labkit import plot
from labkit.calibration import fit_pieces, from_measurements
from labkit.calibration.fit import frame, medians
from labkit.calibration.result import judge_quality
from labkit.cli.main import main
from labkit.errors import DataError
from labkit.machines.models import OPTIONS
from labkit.machines.xml.writer import host_file
from tests.support.refusals import raises_code

SMALL = {"points": 20, "repeats": 3, "refine": 0, "max_bytes": 300_000}


@pytest.fixture(scope="module")
def found():
    return lk.calibrate("star:2,lat=12us,bw=125MBps", model="lab", name="my machine", **SMALL)


def test_the_files_hold_what_was_found(found, tmp_path):
    files = {path.name.partition(".")[2]: path for path in found.save(tmp_path / "new")}
    model = tomllib.loads(files["model.toml"].read_text())
    assert set(model) == {"title", "source", "network", "protocol", "calls"}
    for section in ("network", "protocol", "calls"):
        for key, value in model[section].items():
            wanted = getattr(found.model, key)
            assert (tuple(map(tuple, value)) if isinstance(value, list) else value) == wanted
    assert lk.platform(files["toml"]).spec == found.platform.spec
    assert lk.platform(files["toml"]).name == "my machine"
    assert len(pd.read_csv(files["measurements.csv"])) == len(found.data)


def test_labkit_reads_the_file_it_writes_for_simgrid(found, tmp_path):
    """Platform and model come back from one file: the same times to the last bit."""
    found.save(tmp_path)
    read = lk.platform(tmp_path / "my-machine.xml")
    options = {name: getattr(found.model, name) for name in OPTIONS}
    assert {name: getattr(read.model, name) for name in OPTIONS} == options

    def program(comm):
        for size in (1, 700, 5000, 70_000, 300_000):
            comm.sendrecv(b"x" * size, 1 - comm.rank)
        return lk.MPI.Wtime()

    times = lk.run(program, 2, read).results
    assert times == lk.run(program, 2, found.platform, model=found.model).results


def test_recorded_measurements_give_the_same_fit(found, tmp_path):
    found.save(tmp_path)
    again = from_measurements(tmp_path / "my-machine.measurements.csv")
    assert again.fit.bandwidth_bytes_per_s == pytest.approx(found.fit.bandwidth_bytes_per_s, rel=1e-6)
    sizes = np.geomspace(20, 3e5, 50)
    np.testing.assert_allclose(again.fit.curves["wire"](sizes), found.fit.curves["wire"](sizes), rtol=1e-6)


@pytest.mark.skipif(shutil.which("smpirun") is None, reason="SimGrid is not installed")
def test_simgrid_reads_the_platform_and_its_options(found, tmp_path):
    """SimGrid's own ping-pong on the written platform takes what labkit predicts."""
    source = tmp_path / "p.c"
    source.write_text(
        "#include <mpi.h>\n#include <stdio.h>\n#include <stdlib.h>\nint main(int c, char** v) {"
        "MPI_Init(&c, &v); int r, n = 100000; MPI_Comm_rank(MPI_COMM_WORLD, &r); char* b = malloc(n);"
        "double t = MPI_Wtime(); for (int i = 0; i < 2; i++) if ((i + r) % 2 == 0)"
        " MPI_Send(b, n, MPI_CHAR, 1 - r, 7, MPI_COMM_WORLD); else"
        " MPI_Recv(b, n, MPI_CHAR, 1 - r, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);"
        'if (r == 0) printf("%.12e\\n", MPI_Wtime() - t); MPI_Finalize(); return 0; }'
    )
    found.save(tmp_path)
    (tmp_path / "hosts").write_text(host_file(found.platform, 2))
    program = tmp_path / "p"
    subprocess.run(["smpicc", "-O1", "-o", program, source], check=True, timeout=60)
    done = subprocess.run(
        ["smpirun", "-np", "2", "-platform", tmp_path / "my-machine.xml", "-hostfile", tmp_path / "hosts",
         "--log=root.thres:critical", program],
        check=True, timeout=60, capture_output=True, text=True,
    )  # fmt: skip

    def twice(comm):
        data = np.zeros(100_000, np.uint8)
        begin = lk.MPI.Wtime()
        for i in range(2):
            comm.Send(data, 1 - comm.rank) if (i + comm.rank) % 2 == 0 else comm.Recv(data, 1 - comm.rank)
        return lk.MPI.Wtime() - begin

    predicted = lk.run(twice, 2, found.platform, model=found.model).results[0]
    assert float(done.stdout.split()[-1]) == pytest.approx(predicted, rel=1e-6)


def test_a_calibration_shows_itself(found):
    assert "senders go on" in repr(found)
    assert "<table" in found._repr_html_()
    figure = plot.calibration(found)
    assert "ping-pong: median" in figure.reading
    assert "<html" in figure.to_page()


def test_the_command_writes_and_prints_one_json_object(tmp_path, capsys):
    arguments = ["--points", "20", "--repeats", "3", "--refine", "0", "--max-bytes", "100000"]
    code = main(["calibrate", "--on", "star:2", "--out", str(tmp_path), *arguments, "--json"])
    record = json.loads(capsys.readouterr().out)
    assert code == record["exit"] == 0
    assert record["detached_below_bytes"] == 65536
    assert all(name.startswith(str(tmp_path)) for name in record["files"])
    assert (tmp_path / "calibrated.html").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"points": 3}, ("out-of-range", "8")),
        ({"repeats": 1}, ("out-of-range", "3")),
        ({"statistic": "mean"}, ("unknown-name", "statistic")),
        ({"pairs": 3}, ("out-of-range", "pairs", "1", "2")),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(options, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        lk.calibrate("star:2", **options)


def test_tables_that_are_no_measurements_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    with raises_code(DataError, "missing-key"):
        from_measurements(tmp_path / "x.csv")
    with raises_code(DataError, "malformed-file"):
        from_measurements(tmp_path / "none.csv")
    with raises_code(DataError, "not-enough-data", "4"):
        fit_pieces([1, 2, 3], [1, 2, 3])


def noisy(spread=0.0, tail=0.0, drift=0.0):
    rng = np.random.default_rng(1)
    rows = []
    for number in range(10):
        for size in range(1, 40):
            seconds = 1e-5 * size * (1 + spread * rng.standard_normal()) * (1 + drift * (number >= 5))
            seconds *= 10 if rng.random() < tail else 1
            rows.append(("pingpong", size, number, seconds, seconds, 0.0))
    return frame(rows)


@pytest.mark.parametrize(
    ("noise", "load", "switches", "is_valid", "word"),
    [
        ({}, 0.1, 0, True, None),
        ({"spread": 0.2}, 0.1, 0, True, "spread by"),
        ({"tail": 0.2}, 0.1, 0, True, "over three times their median"),
        ({"drift": 0.3}, 0.1, 0, True, "slower while it was measured"),
        ({}, 1e3, 0, True, "was busy when it began"),
        ({}, 0.1, 100_000, True, "interrupted 10000 times a second"),
        ({}, 0.1, 0, False, "more ranks than cores"),
    ],
)
def test_noise_is_named(noise, load, switches, is_valid, word):
    data = noisy(**noise)
    quality = judge_quality(data, medians(data), switches, 10.0, load, is_valid)
    if word is None:
        assert quality.warnings == []
    else:
        assert any(word in warning for warning in quality.warnings)
