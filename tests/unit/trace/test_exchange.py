"""Exported runs, read back by the formats' rules and, where they are installed, by their own libraries."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labkit as lk
from labkit.errors import DataError
from labkit.trace.exchange import FORMATS, events_of
from labkit.trace.exchange.events import PHASE, WAIT
from labkit.trace.waiting import KINDS
from tests.support.refusals import raises_code
from tests.support.trace_files import read_cube, read_paje, read_paraver, read_perfetto
from tests.support.traced import work_and_ring


def program(comm: Any) -> None:
    """Nested phases, collectives, messages to all sides, nonblocking calls, imbalance, empty messages."""
    work_and_ring(comm, 1e-3 * (1 + comm.rank % 3), 'the "work" & <more>')
    with lk.phase("nonblocking"):
        pending = comm.Ibarrier()
        lk.compute(seconds=1e-4)
        pending.Wait()
    comm.barrier()


RANKS = 6


@pytest.fixture(scope="module")
def run() -> Any:
    return lk.run(program, RANKS, on="star:3,cores=2", mapping="cyclic", trace=True)


def written(run: Any, folder: Path, name: str, **options: Any) -> Path:
    files = run.export(folder / name, **options)
    assert all(file.exists() for file in files)
    return folder / name


def check_perfetto(run: Any, path: Path) -> None:
    read, waiting = read_perfetto(path), run.waits()
    assert len(read["slices"]) == run.ranks
    spent = sum(e["dur"] for of in read["slices"].values() for _, _, e in of if e["cat"] == "wait")
    assert spent == pytest.approx(waiting.seconds * 1e6, abs=2e-3 * len(waiting.waits))
    assert len(read["flows"]["s"]) == len(run.trace.messages)
    for end, side in (("s", "source"), ("f", "destination")):
        threads = sorted(event["tid"] - 1 for event in read["flows"][end].values())
        assert threads == sorted(run.trace.messages[side])
    for steps in read["counters"].values():
        assert steps[-1][1] == 0
        assert min(value for _, value in steps) >= 0
    phases = [e for of in read["slices"].values() for _, _, e in of if e["cat"] == "phase"]
    assert len(phases) == len(run.phases)
    calls = run.trace.calls
    begins, ends = (np.rint(calls[name].to_numpy() * 1e9) for name in ("begin_s", "end_s"))
    for (rank, name), rows in run.phases.groupby(["rank", "phase"], observed=True):
        found = sorted(round(e["ts"] * 1e3) for e in phases if (e["tid"] - 1, e["name"]) == (rank, name))
        meant = np.sort(np.rint(rows["begin_s"].to_numpy() * 1e9))
        # each call of no time before it at that instant is drawn as a nanosecond
        still = begins[(calls["rank"] == rank) & (begins == ends)]
        late = np.array(found) - meant
        assert (late >= 0).all()
        assert (late <= [(still == at).sum() for at in meant]).all()


def check_all(run: Any, folder: Path) -> None:
    check_perfetto(run, written(run, folder, "run.json"))
    waiting = run.waits().seconds
    paje = read_paje(written(run, folder, "run.paje"))
    names = set(run.waits().waits["state"].astype(str))
    own = sum(end - begin for _, _, value, begin, end in paje["states"] if value in names)
    assert own == pytest.approx(waiting, abs=1e-6)
    assert len(paje["links"]) == len(run.trace.messages)
    prv = read_paraver(written(run, folder, "run.prv"))
    assert len(prv["records"]["3"]) == len(run.trace.messages)
    assert sum(row[12] for row in prv["records"]["3"]) == run.trace.messages["bytes"].sum()
    in_waits = sum(row[5] - row[4] for row in prv["records"]["1"] if row[6] >= 100)
    assert in_waits * 1e-9 == pytest.approx(waiting, abs=1e-6)
    whole = sum(row[5] - row[4] for row in prv["records"]["1"])
    assert whole * 1e-9 == pytest.approx(sum(run.trace.ends_s), abs=1e-6)
    cube, report = read_cube(written(run, folder, "run.cubex")), run.report()
    assert cube["paths"] == [path.label for path in report.paths]
    for metric in report.metrics:
        np.testing.assert_array_equal(cube["values"][metric.name], report.exclusive(metric.name))


def test_every_text_format_of_a_simulated_run(run: Any, tmp_path: Path) -> None:
    check_all(run, tmp_path)


@pytest.mark.mpi
def test_every_text_format_of_a_real_run(tmp_path: Path) -> None:
    check_all(lk.run(program, 4, on="mpi", trace=True), tmp_path)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_small_and_silent_runs_are_exported(ranks: int, tmp_path: Path) -> None:
    """Nobody waits, no message, no call, no phase: every file is still one."""
    run = lk.run(lambda comm: None, ranks, on="star:3", trace=True)
    for name in ("a.paje", "a.prv", "a.json", "a.csv", "a.cubex"):
        written(run, tmp_path, name)
    read_paje(tmp_path / "a.paje")
    read_paraver(tmp_path / "a.prv")
    read_cube(tmp_path / "a.cubex")
    assert read_perfetto(tmp_path / "a.json")["facts"]["ranks"] == ranks


def test_an_arrow_ends_within_the_call_that_received(run: Any, tmp_path: Path) -> None:
    """A viewer ties it to the slice that is open then: at the very end of a call none of it is."""
    read = read_perfetto(written(run, tmp_path, "run.json"))
    for end, calls in (("s", {"isend"}), ("f", {"recv"})):
        bound = []
        for event in read["flows"][end].values():
            if read["flows"]["s"][event["id"]]["args"]["bytes"] < 800:
                continue
            around = [e for ts, dur, e in read["slices"][event["tid"]] if ts <= event["ts"] < ts + dur]
            bound += [e["name"] for e in around if e["cat"] == "call"]
        assert set(bound) == calls
        assert len(bound) == RANKS


def finished_sends(comm: Any) -> None:
    """A wait that takes no time, and right behind it a collective."""
    request = comm.isend(b"x" * 900, dest=(comm.rank + 1) % comm.size)
    comm.recv(source=(comm.rank - 1) % comm.size)
    request.wait()
    comm.allreduce(1)


def test_an_arrow_does_not_start_at_a_call_of_no_time(tmp_path: Path) -> None:
    """Perfetto binds an end to the slice that began last; of those that began at once to the shortest."""
    run = lk.run(finished_sends, 5, on="star", trace=True)
    read = read_perfetto(written(run, tmp_path, "run.json"))
    bound: dict[str, list[str]] = {"s": [], "f": []}
    for side, ends in bound.items():
        for event in read["flows"][side].values():
            begun = [of for of in read["slices"][event["tid"]] if of[0] <= event["ts"]]
            at, lasts, last = max(begun, key=lambda of: (of[0], -of[1]))
            calls = [e for ts, dur, e in begun if ts <= at and at + lasts <= ts + dur and e["cat"] == "call"]
            assert last["cat"] in ("call", "wait")
            ends += [e["name"] for e in calls]
    assert set(bound["s"]) == {"isend", "allreduce"}
    assert set(bound["f"]) == {"recv", "allreduce"}
    assert len(bound["s"]) == len(bound["f"]) == len(run.trace.messages)


@pytest.mark.slow
def test_a_run_of_more_than_a_million_events_is_cut_to_that_many(tmp_path: Path, capsys: Any) -> None:
    def ring(comm: Any) -> None:
        left, right, data = (comm.rank - 1) % comm.size, (comm.rank + 1) % comm.size, np.zeros(1)
        for step in range(3000):
            lk.compute(seconds=1e-6 * (1 + (7 * step + comm.rank) % 13))
            comm.Sendrecv(data, right, 0, data.copy(), left, 0)

    run = lk.run(ring, 64, "star:64", trace=True, timeout_s=None)
    events = events_of(run)
    assert events.all_events > 1_000_000 >= len(events) > 990_000
    lasts = np.concatenate([events.end_ns - events.begin_ns, events.received_ns - events.sent_ns])
    assert lasts.min() >= events.longest_left_ns > 0
    written(run, tmp_path, "many.prv")
    assert f"of {events.all_events:,} events" in capsys.readouterr().err
    read_paraver(tmp_path / "many.prv")


def test_of_too_many_events_the_longest_stay(run: Any, tmp_path: Path, capsys: Any) -> None:
    whole, few = events_of(run), events_of(run, limit=60)
    assert len(whole) == whole.all_events > 60
    assert len(few) <= 60
    assert not whole.said()
    lasts = np.concatenate([few.end_ns - few.begin_ns, few.received_ns - few.sent_ns])
    assert lasts.min() >= few.longest_left_ns
    path = written(run, tmp_path, "few.json", limit=60)
    said = capsys.readouterr().err
    assert f"of {whole.all_events:,} events the 60 of what lasts longest are kept" in said
    assert read_perfetto(path)["facts"]["sampling"] in said
    for name in ("few.paje", "few.prv"):
        written(run, tmp_path, name, limit=60)
    assert few.said() in (tmp_path / "few.paje").read_text()
    assert few.said() in (tmp_path / "few.pcf").read_text()
    read_paje(tmp_path / "few.paje")
    read_paraver(tmp_path / "few.prv")


def test_computation_is_cut_where_phases_begin() -> None:
    """A real run's computations go from call to call; no phase may be cut by one."""
    run = lk.run(program, 2, on="star:2", trace=True)
    run.trace.computations = run.trace.computations.iloc[[0]].assign(begin_s=-1e-4, end_s=0.5e-3)
    run.trace.calls = run.trace.calls.iloc[:0]
    events = events_of(run)
    phases = events.kind == PHASE
    found = sorted(zip(events.rank[phases], events.begin_ns[phases], events.end_ns[phases], strict=True))
    columns = (run.phases["rank"], *(np.rint(run.phases[name] * 1e9) for name in ("begin_s", "end_s")))
    assert found == sorted(zip(*columns, strict=True))
    assert events.cut == 0
    own = [(b, e) for b, e, n in zip(events.begin_ns, events.end_ns, events.name, strict=True)
           if events.names[n] == "computation"]  # fmt: skip
    assert own == [(-100_000, 0), (0, 500_000)]


def test_pipit_gets_brackets_and_messages(run: Any, tmp_path: Path) -> None:
    frame = run.frame("pipit")
    for _, own in frame.groupby("Process", observed=True):
        stack = []
        assert own["Timestamp (ns)"].is_monotonic_increasing
        assert own["Timestamp (ns)"].is_unique, "readers sort by time, and not stably"
        for kind, name in zip(own["Event Type"], own["Name"], strict=True):
            if kind == "Enter":
                stack.append(name)
            elif kind == "Leave":
                assert stack.pop() == name
        assert not stack
    matrix = np.zeros((RANKS, RANKS))
    for process, given in frame.loc[frame["Name"] == "MpiSend", ["Process", "Attributes"]].to_numpy():
        matrix[process, given["receiver"]] += given["msg_length"]
    expected = np.zeros((RANKS, RANKS))
    messages = run.trace.messages
    np.add.at(expected, (messages["source"], messages["destination"]), messages["bytes"])
    np.testing.assert_array_equal(matrix, expected)
    lines = written(run, tmp_path, "run.csv.gz", limit=10**6)
    assert lines.read_bytes()[:2] == b"\x1f\x8b"


def test_the_same_run_is_the_same_file(run: Any, tmp_path: Path) -> None:
    again = lk.run(program, RANKS, on="star:3,cores=2", mapping="cyclic", trace=True)
    for name in ("run.json.gz", "run.paje", "run.prv", "run.cubex"):
        first = written(run, tmp_path, name).read_bytes()
        assert written(again, tmp_path, name).read_bytes() == first


def test_what_cannot_be_written_is_refused_first(run: Any, tmp_path: Path) -> None:
    with raises_code(DataError, "unknown-format"):
        run.export(tmp_path / "run.png")
    with raises_code(DataError, "unknown-name", "'perfetto'"):
        run.export(tmp_path / "run", "perfeto")
    with raises_code(DataError, "unwritable-file"):
        run.export(tmp_path / "none" / "run.json")
    with raises_code(DataError, "unknown-format"):
        run.export(tmp_path / "run.prv.gz")
    with raises_code(DataError, "out-of-range", "2", "1"):
        run.export(tmp_path / "run.json", limit=1)
    with raises_code(DataError, "not-recorded", "trace=True"):
        lk.run(program, 2, on="star:2").export(tmp_path / "run.json")
    with raises_code(DataError, "unknown-name", "'pipit'", "'hatchet'"):
        run.frame("polars")
    assert not list(tmp_path.iterdir())
    assert {ending for one in FORMATS.values() for ending in one.endings} >= {".json", ".prv", ".cubex"}


@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.paje", "a.prv", "a.cubex", "a.csv"])
def test_a_full_disk_leaves_no_half_file_and_the_one_of_before(run: Any, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("of before")
    limits, answer = resource.getrlimit(resource.RLIMIT_FSIZE), signal.getsignal(signal.SIGXFSZ)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with raises_code(DataError, "unwritable-file", name):
            run.export(tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, answer)
    assert [one.name for one in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == "of before"
    assert run.export(tmp_path / name)[0].stat().st_size > 1024


def test_a_link_is_written_through(run: Any, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link.prv").symlink_to(tmp_path / "there" / "real.prv")
    files = run.export(tmp_path / "link.prv")
    assert (tmp_path / "link.prv").is_symlink()
    assert [one.name for one in files] == ["real.prv", "real.pcf", "real.row"]
    assert all(one.parent.name == "there" and one.is_file() for one in files)


def test_a_pipe_is_written_into(run: Any, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    reader = subprocess.Popen(["cat", tmp_path / "pipe.csv"], stdout=subprocess.PIPE, text=True)
    run.export(tmp_path / "pipe.csv")
    assert reader.communicate(timeout=60)[0].startswith("Timestamp")


def test_cube_by_its_own_reader(run: Any, tmp_path: Path) -> None:
    pycubexr = pytest.importorskip("pycubexr")
    report = run.report()
    with pycubexr.CubexParser(str(written(run, tmp_path, "run.cubex"))) as cube:
        assert len(cube.get_locations()) == RANKS
        root = cube.get_root_cnodes()[0]
        for metric in cube.all_metrics():
            total = cube.get_metric_values(metric).value(root, convert_to_inclusive=True)
            assert total == pytest.approx(report.total(metric.name), rel=1e-12)


def test_otf2_by_its_own_reader(run: Any, tmp_path: Path) -> None:
    otf2 = pytest.importorskip("otf2")
    path = written(run, tmp_path, "run.otf2")
    waited: dict[str, int] = {}
    sizes, depth = 0, 0
    with otf2.reader.open(str(path / "traces.otf2")) as trace:
        begun: dict[Any, list[int]] = {}
        for location, event in trace.events:
            if isinstance(event, otf2.events.Enter):
                begun.setdefault(location, []).append(event.time)
            elif isinstance(event, otf2.events.Leave):
                last = begun[location].pop()
                waited[event.region.name] = waited.get(event.region.name, 0) + event.time - last
            elif isinstance(event, (otf2.events.MpiSend, otf2.events.MpiIsend)):
                sizes += event.msg_length
        depth = sum(len(stack) for stack in begun.values())
    assert depth == 0
    assert sizes == run.trace.messages["bytes"].sum()
    events = events_of(run)
    names = {events.names[name] for name in events.name[events.kind == WAIT]}
    assert sum(waited[name] for name in names) * 1e-12 == pytest.approx(run.waits().seconds, abs=1e-6)


def test_hatchet_gets_the_profile(run: Any) -> None:
    pytest.importorskip("hatchet")
    graph, report = run.frame("hatchet"), run.report()
    assert graph.dataframe["time"].sum() == pytest.approx(report.total("time"))
    roots = graph.dataframe.xs(graph.graph.roots[0], level="node")
    np.testing.assert_allclose(roots["time (inc)"].sort_index(), report.by_rank("time"))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Pipit itself
def test_pipit_reads_frame_and_file(run: Any, tmp_path: Path) -> None:
    """By Pipit itself (its repository; the package index has a name without code)."""
    pipit = pytest.importorskip("pipit")
    if not hasattr(pipit, "Trace"):
        pytest.skip("pipit without its code")
    trace = pipit.Trace(None, run.frame("pipit"))
    expected = np.zeros((RANKS, RANKS))
    messages = run.trace.messages
    np.add.at(expected, (messages["source"], messages["destination"]), messages["bytes"])
    np.testing.assert_array_equal(trace.comm_matrix(), expected)

    def seconds_of(trace: Any) -> Any:
        own = trace.flat_profile(["time.exc"], per_process=True)["time.exc"]
        return own.groupby("Name", observed=True).sum() * 1e-9

    seconds = seconds_of(trace)
    report = run.report()
    assert seconds["computation"] == pytest.approx(report.total("computation"), rel=1e-3)
    waited = seconds[[kind.name for kind in KINDS if kind.name in seconds.index]].sum()
    assert waited == pytest.approx(run.waits().seconds, rel=1e-3)
    read = pipit.Trace.from_csv(str(written(run, tmp_path, "run.csv")))
    assert seconds_of(read)["computation"] == pytest.approx(seconds["computation"], rel=1e-6)
