"""Off-line simulation beside SimGrid's own replay: the predictions of the same traces, and the host's time.

For every case of ``simgrid/traces.py`` both simulators replay the same text on the same platform with
collective algorithms that send the same messages. Then a large trace is replayed by both: microseconds of
CPU for each message, the interpreter's and smpirun's start apart; and a larger one is read: lines a second.
SimGrid's figure needs ``smpirun`` (Debian: libsimgrid-dev). Last, steps of NAS's LU are recorded: bytes of
the trace with its loops and written out, and both simulators' replays; ``--whole`` adds 1024 ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "simgrid"))

import driver  # noqa: E402
from traces import ALGORITHMS, TraceCase, halo, trace_cases  # noqa: E402

import labkit as lk  # noqa: E402
from labkit.algorithms.applications.lu import lu  # noqa: E402
from labkit.machines.models import NetworkModel, get  # noqa: E402
from labkit.machines.platform import Platform, platform  # noqa: E402
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options  # noqa: E402
from labkit.trace.formats import read_actions  # noqa: E402
from labkit.trace.formats.text import open_out  # noqa: E402
from labkit.trace.formats.ti_writer import write_plain  # noqa: E402

TOLERANCE = 1e-6


def prepare(case: TraceCase, folder: Path) -> Path:
    """Write trace, list, platform and hosts; the list is what both take."""
    return write_inputs(case.text, platform(case.spec), case.ranks, folder)


def write_inputs(text: str, machine: Platform, ranks: int, folder: Path) -> Path:
    (folder / "trace.txt").write_text(text)
    (folder / "list.txt").write_text("trace.txt\n")
    (folder / "platform.xml").write_text(platform_xml(machine, ranks))
    (folder / "hosts.txt").write_text(host_file(machine, ranks))
    return folder / "list.txt"


def simgrid(case: TraceCase, folder: Path) -> tuple[float, float]:
    """Replay a case under smpirun: simulated seconds with 15 digits, and CPU seconds."""
    chosen = [f"smpi/{name}:{ALGORITHMS[name][1]}" for name in case.collectives]
    return smpirun(get(case.model), case.ranks, [*case.simgrid, *chosen], folder)


def smpirun(model: NetworkModel, ranks: int, more: Sequence[str], folder: Path) -> tuple[float, float]:
    """One ``smpirun -replay`` of what `write_inputs` wrote, with further --cfg items; as `simgrid`."""
    options = [o for o in smpirun_options(model) if not o.startswith("smpi/simulate-computation")]
    options += ["smpi/host-speed:1Gf", *more]
    command = ["smpirun", "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts.txt",
               "-replay", "list.txt", *(f"--cfg={o}" for o in options)]  # fmt: skip
    command.append("--log=root.fmt:%.15r%e%m%n")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"^(\S+) Simulation time", done.stdout + done.stderr, re.MULTILINE)
    if done.returncode or found is None:
        raise RuntimeError(f"smpirun failed with {more}:\n{(done.stdout + done.stderr)[-1500:]}")
    return float(found[1]), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def labkit(case: TraceCase, path: Path) -> tuple[lk.Run, float]:
    """One replay and its CPU seconds."""
    coll = {name: ALGORITHMS[name][0] for name in case.collectives}
    begin = time.process_time()
    run = lk.replay(path, on=case.spec, model=case.model, coll=coll, timeout_s=None)
    return run, time.process_time() - begin


def predictions(names: list[str]) -> float:
    """Compare every case; the largest relative difference."""
    print(f"{'trace':18} ranks  messages   SimGrid makespan s    labkit makespan s  difference")
    worst = 0.0
    for case in trace_cases():
        if names and not any(word in case.name for word in names):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            path = prepare(case, folder)
            ours, _ = labkit(case, path)
            theirs, _ = simgrid(case, folder)
        difference = abs(ours.makespan_s - theirs) / theirs
        worst = max(worst, difference)
        print(
            f"{case.name:18} {case.ranks:5} {ours.messages:9} {theirs:20.15f} {ours.makespan_s:20.15f} "
            f"{difference:11.1e}",
            flush=True,
        )
    print(f"largest relative difference {worst:.1e}")
    return worst


def write_goldens(folder: Path) -> None:
    """Measure every case once and keep its trace and SimGrid's makespan, for tests without SimGrid."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for case in trace_cases():
        with tempfile.TemporaryDirectory() as temporary:
            prepare(case, Path(temporary))
            makespan, _ = simgrid(case, Path(temporary))
        with open_out(folder / f"{case.name}.txt.gz") as file:
            file.write(case.text.encode())
        rows.append({
            "name": case.name, "on": case.spec, "model": case.model,
            "coll": {name: ALGORITHMS[name][0] for name in case.collectives},
            "simgrid_coll": {name: ALGORITHMS[name][1] for name in case.collectives},
            "simgrid_options": list(case.simgrid), "makespan_s": makespan,
        })  # fmt: skip
    about = f"smpirun -replay, SimGrid {driver.version()}; written by benchmarks/replay.py --goldens"
    (folder / "index.json").write_text(json.dumps({"about": about, "cases": rows}, indent=1) + "\n")


def speed() -> None:
    """CPU microseconds a message, SimGrid's start apart (a trace of two lines is subtracted)."""
    large = TraceCase("halo", 256, "star:256,bw=1.25GBps,lat=1us", "smpi", halo(256, 200, 1000))
    small = TraceCase("nothing", 256, large.spec, "smpi", halo(256, 1, 0))
    figures = {}
    for case in (small, large):
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            path = prepare(case, folder)
            labkit(case, path)
            run, ours = labkit(case, path)
            theirs = simgrid(case, folder)[1] if driver.is_there() else float("nan")
            figures[case.name] = (run.messages, ours, theirs)
    messages = figures["halo"][0] - figures["nothing"][0]
    ours, theirs = (figures["halo"][k] - figures["nothing"][k] for k in (1, 2))
    print(f"halo exchange, 256 ranks of a star, {messages} messages, reading included, CPU us a message:")
    print(
        f"  labkit {1e6 * ours / messages:.2f}, SimGrid {1e6 * theirs / messages:.2f}, "
        f"ratio {theirs / ours:.1f}"
    )


def reading(lines: int) -> None:
    """Lines a second and bytes an action of the reader."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(temporary) / "trace.txt"
        block = "".join(
            f"{line}\n" for line in halo(64, 20, 4096) if "init" not in line and "final" not in line
        )
        with open(path, "w") as file:
            for _ in range(lines // block.count("\n")):
                file.write(block)
        size = os.stat(path).st_size
        begin = time.process_time()
        trace = read_actions(path)
        took = time.process_time() - begin
    print(
        f"reading {trace.actions} actions, {size >> 20} MiB of text: {trace.actions / took / 1e6:.1f} "
        f"million lines a CPU second, {trace.bytes / trace.actions:.1f} bytes an action kept"
    )


def loops(is_whole: bool) -> float:
    """Bytes and replay of an iterative code; the largest relative difference from SimGrid's makespan."""
    print("LU, charged: loops in the trace and written out; the replays' CPU seconds")
    worst = 0.0
    for size, ranks, steps in [
        ("B", 64, 1),
        ("B", 64, 2),
        ("B", 64, 8),
        *[("C", 1024, 2), ("C", 1024, 4)] * is_whole,
    ]:
        spec = f"star:{ranks},bw=1.25GBps,lat=1us"
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary)
            begin = time.process_time()
            lk.run(
                lu, ranks, spec, model="smpi", args=(size,), kwargs={"charged": True, "steps": steps},
                timeout_s=None, trace_ti=folder / "looped.txt",
            )  # fmt: skip
            recorded = time.process_time() - begin
            looped = (folder / "looped.txt").stat().st_size
            case = TraceCase("lu", ranks, spec, "smpi", [], ("allreduce", "barrier"))
            prepare(case, folder)
            run, ours = labkit(case, folder / "looped.txt")
            text = f"  {size}, {ranks} ranks, {steps} steps: {looped:,} B, recorded in {recorded:.1f} s"
            text += f", {ours:.2f} s"
            if ranks <= 64:
                write_plain(folder / "trace.txt", folder / "looped.txt")
                text += f"; written out {(folder / 'trace.txt').stat().st_size:,} B"
                if driver.is_there():
                    makespan, theirs = simgrid(case, folder)
                    worst = max(worst, abs(run.makespan_s / makespan - 1))
                    text += f", SimGrid {theirs:.2f} s, difference {abs(run.makespan_s / makespan - 1):.1e}"
            print(text, flush=True)
    return worst


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--names", nargs="*", default=[])
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--whole", action="store_true", help="LU with 1024 ranks, too")
    parser.add_argument("--goldens", type=Path, metavar="FOLDER", help="write tests/golden/replay anew")
    chosen = parser.parse_args()
    if chosen.goldens:
        write_goldens(chosen.goldens)
        return 0
    worst = 0.0
    if driver.is_there():
        worst = predictions(chosen.names)
    else:
        print("smpirun is not here (Debian: apt install libsimgrid-dev); nothing to compare with")
    if not chosen.names:
        speed()
        reading(chosen.lines)
        worst = max(worst, loops(chosen.whole))
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
