"""What a bundle holds, and that verifying it computes the same rows again, or says which differ."""

from __future__ import annotations

import functools
import hashlib
import json
import linecache
import socket
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import labkit as lk
from labkit.cli import main
from labkit.errors import DataError, MachineError
from labkit.study.bundle import verify
from tests.support.refusals import raises_code

# As in a notebook: defined in a cell, of which Python knows the text but no file.
CELL = """
import numpy as np
import labkit as lk

TABLE = np.arange(5)

def program(comm, n=1, work=None):
    with lk.phase("all"):
        comm.allreduce(TABLE[:n].sum())
    if work is not None:
        work(comm)

def broadcast(comm):
    comm.bcast(bytes(1000))
"""
linecache.cache["<cell of test_bundle>"] = (len(CELL), None, CELL.splitlines(True), "<cell of test_bundle>")
NAMES = {"__name__": "__main__"}
exec(compile(CELL, "<cell of test_bundle>", "exec", dont_inherit=True), NAMES)
program, broadcast = NAMES["program"], NAMES["broadcast"]


def swept(**more):
    how = {"on": ["star", "torus:2x2x2,lat=3us"], "n": [1, 2], "work": [None, broadcast], "progress": False}
    return lk.sweep(program, [2, 4], **(how | more))


@pytest.fixture(scope="module")
def study():
    return swept(measure=lambda run: {"twice_s": 2 * run.makespan_s})


@pytest.fixture(scope="module")
def bundle(study, tmp_path_factory):
    path = tmp_path_factory.mktemp("bundle") / "study.zip"
    study.bundle(path)
    return path


def rewritten(path, target, change):
    """Write a bundle whose files were changed and whose hashes fit: an honest look, and other content."""
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    change(files)
    document = json.loads(files["bundle.json"])
    document["files"] = {
        name: {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        for name, content in files.items() if name != "bundle.json"
    }  # fmt: skip
    files["bundle.json"] = json.dumps(document).encode()
    with zipfile.ZipFile(target, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return target


def again(study):
    """How many rows can be computed again anywhere: what arrays take may change with NumPy."""
    return int((study.data["metric"] != "rank_memory_bytes").sum())


@pytest.mark.slow
def test_every_row_is_the_same_when_it_is_run_again(bundle, study):
    found = verify(bundle)
    assert (found.outcome, found.compared, found.differences) == ("same", again(study), [])
    assert found
    assert "to the last bit" in repr(found)
    assert "<ul>" in found._repr_html_()


def test_it_is_a_study_too(bundle, study):
    loaded = lk.load(bundle)
    assert loaded.data["value"].tolist() == study.data["value"].tolist()
    assert loaded.recipe is None


@pytest.mark.slow
def test_the_same_study_gives_the_same_bytes(study, tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    one, two = study.bundle(tmp_path / "1.zip"), study.bundle(tmp_path / "2.zip")
    assert one.path.read_bytes() == two.path.read_bytes()
    assert one.identity == two.identity
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000001")
    three = study.bundle(tmp_path / "3.zip")
    with zipfile.ZipFile(one.path) as first, zipfile.ZipFile(three.path) as third:
        other = [name for name in first.namelist() if first.read(name) != third.read(name)]
    assert other == ["bundle.json"]


def test_it_says_what_is_in_it(bundle):
    with zipfile.ZipFile(bundle) as archive:
        environment = json.loads(archive.read("environment.json"))
        machines = json.loads(archive.read("machines.json"))
        recipe = json.loads(archive.read("recipe.json"))
        assert b"numpy==" in archive.read("packages.txt")
    assert environment["python"] == sys.version.split()[0]
    assert {"cpu", "cores", "mpi", "labkit", "labkit_sources_sha256", "platform"} <= environment.keys()
    assert [one["name"] for one in machines["platforms"]] == ["star", "torus:2x2x2,lat=3us"]
    assert machines["models"][0]["object"]["state"]["send_overhead"]
    assert machines["calibration"]["state"]["costs"]
    assert recipe["seed"] == 0


def test_a_figure_that_was_changed_is_found_though_the_hashes_fit(bundle, tmp_path):
    def change(files):
        lines = files["data.csv"].decode().split("\n")
        at = next(i for i, line in enumerate(lines) if "makespan_s" in line)
        cells = lines[at].split(",")
        column = lines[0].split(",").index("value")
        cells[column] = repr(np.nextafter(float(cells[column]), 1.0).item())
        lines[at] = ",".join(cells)
        files["data.csv"] = "\n".join(lines).encode()

    found = verify(rewritten(bundle, tmp_path / "x.zip", change))
    assert (found.outcome, len(found.differences)) == ("differs", 1)
    assert "makespan_s, ranks=2, on star" in str(found.differences[0])
    assert "DIFFERS" in repr(found)


def test_a_parameter_that_was_changed_is_found(bundle, tmp_path):
    def change(files):
        files["data.csv"] = files["data.csv"].replace(b"torus:2x2x2", b"torus:9x9x9", 1)

    found = verify(rewritten(bundle, tmp_path / "x.zip", change))
    assert [one.column for one in found.differences] == ["on"]


def test_a_program_that_was_changed_is_found(bundle, tmp_path):
    def change(files):
        files["program/broadcast.py"] = files["program/broadcast.py"].replace(b"1000", b"5000")

    found = verify(rewritten(bundle, tmp_path / "x.zip", change))
    assert {one.column for one in found.differences} == {"value"}
    assert 0 < len(found.differences) < found.compared


def test_nothing_of_it_runs_with_run_false(bundle, tmp_path, capfd):
    def change(files):
        files["program/broadcast.py"] += b"\nimport os\nos._exit(7)\n"

    path = rewritten(bundle, tmp_path / "x.zip", change)
    assert main(["verify", str(path), "--no-run"]) == 0
    assert "executes the bundle's program" in capfd.readouterr().out
    assert main(["verify", str(path)]) == 2
    told = capfd.readouterr()
    assert "left with exit status 7" in told.out
    assert "executes the program in it, which can read what you can read" in told.err


def test_it_writes_nowhere_else_and_has_no_network(bundle, tmp_path):
    """As far as this system permits, which the report says; in its own folder it may do as it likes."""
    mark = tmp_path / "ran"
    attempts = f"""
import os, pathlib, socket
pathlib.Path(os.environ["TMPDIR"], "own").write_text("mine")

def is_done(what):
    try:
        what()
    except OSError:
        return False
    return True

place = pathlib.Path({str(mark)!r})
done = [is_done(lambda: place.write_text("x")), is_done(place.with_name("folder").mkdir)]
server = socket.socket()
done.append(is_done(lambda: server.connect(("127.0.0.1", PORT))))
raise RuntimeError(f"done: {{done}}")
"""
    with socket.create_server(("127.0.0.1", 0)) as server:
        text = attempts.replace("PORT", str(server.getsockname()[1])).encode()
        path = rewritten(
            bundle, tmp_path / "x.zip", lambda files: files.update({"program/broadcast.py": text})
        )
        found = verify(path)
    said = " ".join(found.lines())
    is_shut = "no files written outside its own folder" in found.walls
    assert f"done: {[not is_shut, not is_shut, 'no network' not in found.walls]}" in said, said
    assert mark.exists() == (not is_shut)


@pytest.mark.slow
def test_memory_is_limited(tmp_path):
    def needs(files):
        files["program/broadcast.py"] = b"""
import numpy as np

def broadcast(comm):
    x = np.ones(1 << 24)
    comm.bcast(bytes(1000))
"""

    small = lk.sweep(program, [2], work=[None, broadcast], progress=False).bundle(tmp_path / "small.zip")
    path = rewritten(small.path, tmp_path / "x.zip", needs)
    starved = verify(path, memory_bytes=64 << 20)
    if "at most 0.0625 GiB of memory" not in starved.walls:
        pytest.skip("this system limits no process's memory")
    assert starved.outcome == "undecided", starved
    assert "need more than the limit of 0.0625 GiB of memory; allow more" in starved.undecided
    assert starved.compared > 0  # the points without it
    assert verify(path, memory_bytes=2 << 30).outcome == "same"
    assert main(["verify", str(path), "--run", "--memory", "0.0625"]) == 2
    for bad in (0, 1.5e9, True, None, 1000):
        with raises_code(MachineError, "wrong-type", "memory_bytes"):
            verify(path, memory_bytes=bad)
    assert main(["verify", str(path), "--memory", "nan"]) == 3


@pytest.mark.slow
def test_a_program_that_fails_or_never_ends_is_reported(bundle, tmp_path):
    def fails(files):
        files["program/broadcast.py"] = b"def broadcast(comm):\n    raise RuntimeError('no more')\n"

    found = verify(rewritten(bundle, tmp_path / "x.zip", fails))
    assert "the run failed: RankError: rank 0 failed: RuntimeError: no more" in str(found.differences[0])

    def hangs(files):
        files["program/broadcast.py"] = b"while True: pass\n"

    found = verify(rewritten(bundle, tmp_path / "y.zip", hangs), timeout_s=3)
    assert "the limit of 3 s" in found.undecided

    def ends(files):
        files["program/broadcast.py"] = b"import os\nos._exit(7)\n"

    found = verify(rewritten(bundle, tmp_path / "z.zip", ends))
    assert (found.outcome, "left with exit status 7" in found.undecided) == ("undecided", True)


def test_real_rows_are_only_checked_for_presence(study, tmp_path):
    rows = study.data.copy()
    rows["on"] = "mpi"
    measured = lk.Study(rows, study.notes)
    written = measured.bundle(tmp_path / "x.zip")
    assert written.again == 0
    assert "no recipe" in repr(written)
    found = verify(tmp_path / "x.zip")
    assert (found.outcome, found.compared) == ("whole", 0)


def test_rows_that_were_taken_out_are_said(study, tmp_path):
    less = swept()
    less.data = less.data[less.data["ranks"] == 4]
    written = less.bundle(tmp_path / "x.zip")
    assert f"{written.rows} rows of the sweep were taken out" in " ".join(written.remarks)
    assert verify(tmp_path / "x.zip").compared == written.again == again(less)


def test_noise_repetitions_and_options_come_again(tmp_path):
    noisy = lk.sweep(
        functools.partial(program, n=2), [4, 8], lk.graph([(i, (i + 1) % 8) for i in range(8)]), repeats=3,
        progress=False, seed=5, tolerance=0.01, model="lab,cross_traffic=no",
        options={"noise": "jitter=5us,period=20us,stragglers=1", "mapping": "random:3",
                 "coll": {"allreduce": "ring"}},
    )  # fmt: skip
    assert noisy.data["repetition"].max() == 2
    assert noisy.data.query("metric == 'makespan_s'")["value"].nunique() == 6
    written = noisy.bundle(tmp_path / "x.zip")
    found = verify(written.path)
    assert (found.outcome, found.compared) == ("same", again(noisy))


def test_work_measured_by_the_hosts_clock_is_charged_again(tmp_path):
    measured = lk.sweep(program, [2], "star", repeats=1, progress=False, options={"compute": "measured"})
    written = measured.bundle(tmp_path / "x.zip")
    assert written.again == again(measured)
    found = verify(written.path)
    assert (found.outcome, found.compared) == ("same", again(measured))


@pytest.mark.slow
def test_metrics_of_the_host_are_left_out_by_name(tmp_path):
    timed = lk.sweep(program, [2], "star", progress=False, measure=lambda run: {"host_s": run.host_seconds})
    assert verify(timed.bundle(tmp_path / "x.zip").path).outcome == "differs"
    found = verify(timed.bundle(tmp_path / "y.zip", host_metrics=["host_s"]).path)
    of_host = int((timed.data["metric"] == "host_s").sum())
    assert (found.outcome, found.only_present) == ("same", of_host + len(timed) - again(timed))
    with raises_code(DataError, "unknown-name", "'typo'"):
        timed.bundle(tmp_path / "z.zip", host_metrics=["typo"])


@pytest.mark.slow
def test_notebooks_are_taken_in_when_given(study, tmp_path):
    notebook = tmp_path / "my.ipynb"
    notebook.write_text('{"cells": []}')
    assert "notebook/my.ipynb" in study.bundle(tmp_path / "x.zip", notebook=notebook).files
    for wrong, code in ((tmp_path / "none.ipynb", "unreadable-file"), (tmp_path / "x.zip", "malformed-file")):
        with raises_code(DataError, code):
            study.bundle(tmp_path / "y.zip", notebook=wrong)
    with raises_code(DataError, "missing-file"):
        study.bundle(tmp_path / "y.zip", notebook=True)
    assert not (tmp_path / "y.zip").exists()


def test_places_that_cannot_be_written_are_refused(study, tmp_path):
    with raises_code(DataError, "wrong-kind-of-file"):
        study.bundle(tmp_path)
    with raises_code(DataError, "unwritable-file"):
        study.bundle(tmp_path / "none" / "x.zip")


MINE = """
import labkit as lk
from helper import size

def program(comm):
    comm.allreduce(bytes(size()), op=lambda a, b: a)
"""


@pytest.mark.slow
def test_modules_of_ones_own_and_scripts_travel_along(tmp_path):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "helper.py").write_text("import json\n\ndef size():\n    return 4000\n")
    (tmp_path / "script.py").write_text(
        "from mpi4py import MPI\nimport helper\nMPI.COMM_WORLD.bcast(bytes(helper.size()))\n"
    )
    code = (
        "import labkit as lk, mine\n"
        "print(lk.sweep(mine.program, [2, 4], 'star', progress=False).bundle('mine.zip').files)\n"
        "print(lk.sweep('script.py', [2, 4], 'star', progress=False).bundle('script.zip').files)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "program/modules/helper.py" in done.stdout
    assert "program/scripts/helper.py" in done.stdout
    (tmp_path / "mine.py").unlink()
    (tmp_path / "helper.py").unlink()
    (tmp_path / "script.py").unlink()
    for name in ("mine.zip", "script.zip"):
        found = verify(tmp_path / name)
        assert (found.outcome, found.compared > 0) == ("same", True), found


def test_what_has_no_source_travels_as_a_pickle(tmp_path):
    names: dict[str, object] = {}
    exec("def made(comm):\n    comm.barrier()\n", names)
    written = lk.sweep(names["made"], [2], "star", progress=False).bundle(tmp_path / "x.zip")
    assert "only Python" in repr(written)
    assert verify(written.path).outcome == "same"

    def other_python(files):
        files["recipe.json"] = files["recipe.json"].replace(b'"python": "3.', b'"python": "2.')

    found = verify(rewritten(written.path, tmp_path / "y.zip", other_python))
    assert (found.outcome, "run labkit verify with Python 2." in found.undecided) == ("undecided", True)
    assert main(["verify", str(tmp_path / "y.zip"), "--run"]) == 2


def with_recipe(bundle, target, old, new):
    """Write a bundle with another recipe: the first `old` in its text, with single blanks, replaced."""

    def change(files):
        text = " ".join(files["recipe.json"].decode().split())
        assert old in text
        files["recipe.json"] = text.replace(old, new, 1).encode()

    return rewritten(bundle, target, change)


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ('"rows": [ [ 0, ', '"rows": [ [ 0, 9999999999999], [ 0, ', ("malformed-file", "rows 0")),
        ('"points": [', '"points": [ 7, ', ("malformed-file", "study.bundle")),
        ('"args": []', '"args": ' + "[" * 50_000 + "]" * 50_000, ("malformed-file", "JSON")),
    ],
)
def test_a_recipe_that_is_none_is_refused(bundle, tmp_path, old, new, wanted: tuple[str, ...]):
    with raises_code(DataError, *wanted):
        verify(with_recipe(bundle, tmp_path / "x.zip", old, new))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"args": []', '"args": [ { "$object": "os:environ", "state": {} } ]'),
        ('"file": "program/program.py"', '"file": "../../etc/passwd"'),
    ],
)
def test_a_recipe_that_cannot_be_run_is_never_taken_for_verified(bundle, tmp_path, old, new):
    found = verify(with_recipe(bundle, tmp_path / "x.zip", old, new))
    assert found.outcome in ("undecided", "differs")
    assert not found


@pytest.mark.slow
def test_an_end_by_a_signal_is_told_without_python_s_own_warnings(tmp_path) -> None:
    def program(comm):
        import os
        import sys

        if "labkit.study.bundle.child" in getattr(sys.modules["__main__"].__spec__, "name", ""):
            os.kill(os.getpid(), 11)
        comm.barrier()

    lk.sweep(program, ranks=[2], on="star", progress=False).bundle(tmp_path / "ends.zip")
    words = str(verify(tmp_path / "ends.zip", run=True))
    assert "ended by signal 11 (SIGSEGV)" in words
    assert "Warning" not in words
