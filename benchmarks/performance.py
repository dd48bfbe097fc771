"""Costs of labkit on this computer, in CPU seconds; writes docs/performance.md.

    python benchmarks/performance.py [--before OTHER/.venv/bin/python] [--large] [--best 3] [--out FILE]

Every figure is the median of `--best` processes of their own (user and system time, children included), so a
busy host changes it little. ``--before`` measures another installation in the same run; smpirun, where it is
installed, simulates the same programs in C. ``--large`` adds 2^17 live ranks and programs that take minutes.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CALLS, SMALL = 2000, 4
HELLO = "from mpi4py import MPI\nprint('hello', MPI.COMM_WORLD.rank)\n"


def cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    return sum(os.times()[:4])


# -- cells: each runs in a separate process and returns what it measured -----------------------------------


def command_s(command: list[str]) -> float:
    """Return the CPU seconds of a command."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def numpy_alone() -> dict[str, float]:
    """A Python process that imports NumPy and ends."""
    return {"value": command_s([sys.executable, "-c", "import numpy"])}


def script() -> dict[str, float]:
    """``labkit run`` of a hello world."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "hello.py"
        path.write_text(HELLO)
        command = [
            sys.executable,
            "-m",
            "labkit",
            "run",
            "-n",
            str(SMALL),
            "--on",
            f"star:{SMALL}",
            str(path),
        ]
        return {"value": command_s(command)}


def first_run() -> dict[str, float]:
    """The first run of a Python process, its start included."""
    import labkit as lk

    lk.run(lambda comm: comm.allreduce(1), SMALL, on="star")
    return {"value": cpu_s(), "modules": sum(name.startswith("labkit") for name in sys.modules)}


def collective(kind: str) -> dict[str, float]:
    """Microseconds of one collective call of all ranks together."""
    import numpy as np

    import labkit as lk

    def program(comm: Any, calls: int) -> None:
        from labkit import MPI

        send, receive = np.zeros(8, "B"), np.zeros(8 * comm.size, "B")
        in_lists = [send, 8, MPI.BYTE], [receive, 8, MPI.BYTE]
        counts = list(range(1, comm.size + 1))
        uneven, place = np.zeros(counts[comm.rank], "B"), np.zeros(sum(counts), "B")
        ways: dict[str, Callable[[], Any]] = {
            "arrays": lambda: comm.Allgather(send, receive),
            "lists": lambda: comm.Allgather(*in_lists),
            "uneven": lambda: comm.Allgatherv(uneven, [place, counts]),
            "sum of objects": lambda: comm.allreduce(1),
            "objects": lambda: comm.allgather(1),
        }
        call = ways[kind]
        for _ in range(calls):
            call()

    lk.run(program, SMALL, on="star", args=(1,))
    begin = time.process_time()
    lk.run(program, SMALL, on="star", args=(CALLS,))
    return {"value": (time.process_time() - begin) / CALLS * 1e6}


def barrier(ranks: int) -> dict[str, float]:
    """Live Python ranks through one barrier: CPU seconds, peak bytes of the process."""
    import labkit as lk

    lk.run(lambda comm: comm.Barrier(), SMALL, on="star")
    begin = time.process_time()
    lk.run(lambda comm: comm.Barrier(), ranks, on="star", timeout_s=None)
    return {
        "value": time.process_time() - begin,
        "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def recorded(how: str) -> dict[str, float]:
    """A run of 1024 ranks, ten exchanges and ten collectives each, recorded in some way."""
    import numpy as np

    import labkit as lk

    def program(comm: Any) -> None:
        send, receive = np.zeros(8), np.zeros(8)
        for _ in range(10):
            comm.Sendrecv(send, (comm.rank + 1) % comm.size, 0, receive)
            with lk.phase("sum"):
                comm.Allreduce(send, receive)

    options = {} if how == "plain" else {how: True}
    lk.run(program, SMALL, on="star", **options)
    begin = time.process_time()
    lk.run(program, 1024, on="star", **options)
    return {"value": time.process_time() - begin}


def sample_sort(ranks: int) -> dict[str, float]:
    """Microseconds a message of sample sort on *juqueen*, 100 keys a rank; peak bytes of the process."""
    import numpy as np

    import labkit as lk
    from labkit.algorithms.sorting.sample_sort import sample_sort as sort

    def program(comm: Any) -> None:
        sort(comm, np.random.default_rng([7, comm.rank]).integers(0, 2**62, 100))

    lk.run(program, SMALL, on="star")
    begin = time.process_time()
    run = lk.run(program, ranks, on="juqueen", timeout_s=None)
    return {
        "value": (time.process_time() - begin) / (run.messages or 1) * 1e6,
        "bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def unsynchronized(on: str, ranks: int, tolerance: float) -> dict[str, float]:
    """Microseconds a message of the load of ``benchmarks/unsynchronized.py``."""
    import unsynchronized as load

    return {"value": load.measure(on, ranks, tolerance, True)["us"]}


def charged_ep(ranks: int, shape: str) -> dict[str, float]:
    """A charged EP kernel and its three reductions, as in ``benchmarks/charged_ep.py``."""
    import numpy as np

    import labkit as lk

    def program(comm: Any) -> None:
        lk.compute(1.0)
        for length in (1, 1, 10):
            comm.Allreduce(np.zeros(length), np.empty(length))

    lk.run(program, 8, "torus:2x2x2")
    begin = time.process_time()
    lk.run(program, ranks, f"torus:{shape}", timeout_s=None)
    return {"value": time.process_time() - begin}


def counter(ranks: int) -> dict[str, float]:
    """Ten increments of one counter by each rank, with a lock each (mpi4py's demo nxtval-mpi3)."""
    import numpy as np

    import labkit as lk

    def program(comm: Any, count: int) -> None:
        from labkit import MPI

        window = MPI.Win.Allocate(0 if comm.rank else 4, 4, comm=comm)
        one, value = np.ones(1, "i"), np.empty(1, "i")
        for _ in range(count):
            window.Lock(0)
            window.Get_accumulate(one, value, 0, op=MPI.SUM)
            window.Unlock(0)
        window.Free()

    lk.run(program, SMALL, on="star", args=(1,))
    begin = time.process_time()
    lk.run(program, ranks, on="star", args=(10,), timeout_s=None)
    return {"value": time.process_time() - begin}


def halo(how: str) -> dict[str, float]:
    """Ten exchanges of the six faces of a cube of 64^3 doubles and its border, on 8 ranks."""
    import numpy as np

    import labkit as lk

    def program(comm: Any, count: int) -> None:
        from labkit import MPI

        cart = comm.Create_cart([2, 2, 2], [True] * 3)
        cube = np.zeros((66,) * 3)
        window = MPI.Win.Create(cube, 8, comm=cart)

        def face(axis: int, place: int) -> Any:
            part, start = [64] * 3, [1] * 3
            part[axis], start[axis] = 1, place
            return MPI.DOUBLE.Create_subarray([66] * 3, part, start).Commit()

        faces = [[face(axis, place) for place in (0, 1, 64, 65)] for axis in range(3)]
        for _ in range(count):
            if how == "one-sided":
                window.Fence()
            for axis, (before, first, last, behind) in enumerate(faces):
                low, high = cart.Shift(axis, 1)
                if how == "one-sided":
                    window.Put([cube, 1, first], low, (0, 1, behind))
                    window.Put([cube, 1, last], high, (0, 1, before))
                else:
                    cart.Sendrecv([cube, 1, first], low, 0, [cube, 1, behind], high, 0)
                    cart.Sendrecv([cube, 1, last], high, 0, [cube, 1, before], low, 0)
            if how == "one-sided":
                window.Fence()
        window.Free()

    lk.run(program, 8, on="star", args=(1,))
    begin = time.process_time()
    lk.run(program, 8, on="star", args=(10,))
    return {"value": time.process_time() - begin}


def traced(ranks: int) -> dict[str, float]:
    """MiB of the process that traces radix sort of 1000 keys a rank."""
    import numpy as np

    import labkit as lk
    from labkit.algorithms.sorting.radix_sort import radix_sort

    def program(comm: Any) -> None:
        radix_sort(comm, np.random.default_rng([7, comm.rank]).integers(0, 2**62, 1000))

    lk.run(program, ranks, on="star", trace=True, timeout_s=None)
    return {"value": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def on_real_mpi(how: str) -> dict[str, float]:
    """Microseconds of a round trip of 8 bytes on real MPI: the best of five, by the clock."""
    import recording

    import labkit as lk

    options = {} if how == "plain" else {how: True}
    times = [lk.run(recording.ping_pong, 2, "mpi", args=(5000,), **options).results[0] for _ in range(5)]
    return {"value": min(times) / 5000 * 1e6}


def real_sort(name: str, keys: int) -> dict[str, float]:
    """Speed-up of a sort on two ranks of real MPI over `np.sort` in one process, by the clock.

    Both alternate five times in the same processes; the medians are without the first time, which touches
    the memory for the first time.
    """
    import numpy as np

    import labkit as lk
    from labkit import registry

    def program(comm: Any) -> list[tuple[float, float]]:
        sort = registry.get("sorting", name).function
        assert sort is not None
        times = []
        for seed in range(6):
            mine = np.random.default_rng([seed, comm.rank]).integers(-(2**63), 2**63, keys // comm.size)
            every = comm.gather(mine)
            together = np.concatenate(every) if every is not None else None
            comm.Barrier()
            begin = time.perf_counter()
            if together is not None:
                np.sort(together)
            alone = time.perf_counter() - begin
            comm.Barrier()
            begin = time.perf_counter()
            sort(comm, mine)
            comm.Barrier()
            times.append((alone, time.perf_counter() - begin))
        return times[1:]

    alone, together = zip(*lk.run(program, 2, "mpi").results[0], strict=True)
    return {"value": statistics.median(alone) / statistics.median(together)}


CELLS: dict[str, Callable[..., dict[str, float]]] = {
    one.__name__: one
    for one in (
        *(
            numpy_alone,
            script,
            first_run,
            collective,
            barrier,
            recorded,
            sample_sort,
            unsynchronized,
            charged_ep,
        ),
        *(counter, halo, traced, on_real_mpi, real_sort),
    )
}
#: row, unit, cell and its arguments
ROWS: list[tuple[str, str, str, list[Any]]] = [
    ("Python process that imports NumPy", "s", "numpy_alone", []),
    (f"`labkit run` of a hello world, p = {SMALL}", "s", "script", []),
    (f"Python process with its first `lk.run`, p = {SMALL}", "s", "first_run", []),
    (f"`Allgather` of arrays, p = {SMALL}, all ranks", "us", "collective", ["arrays"]),
    (f"`Allgather` of `[buffer, count, datatype]`, p = {SMALL}, all ranks", "us", "collective", ["lists"]),
    (f"`Allgatherv` of 1 to {SMALL} bytes, p = {SMALL}, all ranks", "us", "collective", ["uneven"]),
    (f"`allgather` of ints, p = {SMALL}, all ranks", "us", "collective", ["objects"]),
    (f"`allreduce` of an int, p = {SMALL}, all ranks", "us", "collective", ["sum of objects"]),
    ("20 calls of each of 1024 ranks, not recorded", "s", "recorded", ["plain"]),
    ("the same with `trace=True`", "s", "recorded", ["trace"]),
    ("the same with `summary=True`", "s", "recorded", ["summary"]),
    ("sample sort on *juqueen*, p = 512, a message", "us", "sample_sort", [512]),
    (
        "unsynchronized linear alltoall, star, p = 64, exact, a message",
        "us",
        "unsynchronized",
        ["star:64", 64, 0.0],
    ),
    ("the same, p = 256, tolerance 0.001", "us", "unsynchronized", ["star:256", 256, 1e-3]),
    ("EP, p = 4096, torus", "s", "charged_ep", [4096, "16x16x16"]),
    ("one-sided counter, p = 256, ten increments each", "s", "counter", [256]),
    ("halo of 66^3, p = 8, ten times, two-sided", "s", "halo", ["two-sided"]),
    ("the same one-sided", "s", "halo", ["one-sided"]),
    ("memory of a trace: radix sort, p = 256", "MiB", "traced", [256]),
    ("round trip of 8 bytes on real MPI, by the clock", "us", "on_real_mpi", ["plain"]),
    ("the same with `trace=True`", "us", "on_real_mpi", ["trace"]),
    ("the same with `summary=True`", "us", "on_real_mpi", ["summary"]),
    (
        "sample sort of 2 x 10^7 keys on real MPI, p = 2, speed-up over `np.sort`",
        "",
        "real_sort",
        ["sample_sort", 20_000_000],
    ),
    ("exact splitting sort, the same", "", "real_sort", ["exact_splitting_sort", 20_000_000]),
    ("histogram sort, the same", "", "real_sort", ["histogram_sort", 20_000_000]),
]
#: what takes minutes, with --large
LARGE_ROWS: list[tuple[str, str, str, list[Any]]] = [
    ("sample sort on *juqueen*, p = 2048, a message", "us", "sample_sort", [2048]),
    (
        "unsynchronized linear alltoall, star, p = 256, exact, a message",
        "us",
        "unsynchronized",
        ["star:256", 256, 0.0],
    ),
    ("EP, p = 65,536, torus", "s", "charged_ep", [65536, "64x32x32"]),
    ("memory of a trace: radix sort, p = 512", "MiB", "traced", [512]),
]
DIGITS = {"s": 3, "us": 1, "MiB": 0, "": 2}
BARRIERS = [2**k for k in range(10, 15)]


LIMITS = """
## What limits them

- **A first run** imports NumPy and 150 modules of labkit. A quarter of labkit's part are its
  dataclasses, whose methods Python compiles at each start; a tenth is reading compiled files.
- **A small collective** of four ranks is eight changes between Python ranks and the engine.
- **Live ranks**: a third of a rank's memory are frames of Python, a fifth objects, the rest its stack
  and the engine's records. The time of a rank grows with their number because their stacks leave the
  processor's cache.
- **Sample sort** with few keys: as much time goes to the ranks' Python and NumPy as to messages. In the
  engine, the tables of counts have p entries for each rank, and nearly each message reads an entry that
  is in no cache.
- **Unsynchronized load, exact**: on a star all bottlenecks lie within two steps of each other, so nearly
  every message changes the rates of all flows a little, and exact rates mean that all are computed. A
  tolerance leaves out the changes below it.
- **Real sorts**: half of the keys are sorted in half of the time; the rest is one exchange and one
  merge, which memory limits.
"""


def measured(python: str, cell: str, arguments: list[Any], best: int) -> dict[str, float]:
    """Return the medians of what some processes measured."""
    command = [python, __file__, "--cell", json.dumps([cell, arguments])]
    runs = [
        json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        for _ in range(best)
    ]
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


#: by program: how it is called here, SimGrid's algorithm, and its runs as (ranks, rounds or bytes)
PEERS: dict[str, tuple[str, str, str, list[tuple[int, int]]]] = {
    "allreduce by recursive doubling, 8 B": (
        "allreduce", "recursive_doubling", "rdb", [(p, 8) for p in (64, 256, 1024, 4096)],
    ),
    "ring of 256 ranks, by rounds": ("ring", "", "", [(256, rounds) for rounds in (10, 40, 160, 640)]),
}  # fmt: skip


def peers(best: int, picture: Path) -> list[str]:
    """Return the rows of the same programs in C under smpirun, where that is installed; draw their growth."""
    sys.path.insert(0, str(ROOT / "benchmarks/simgrid"))
    import driver
    import host_time

    if not driver.is_there():
        return ["smpirun is not installed on this machine."]
    lines = [
        "| program | ranks | messages | labkit, CPU s | smpirun, CPU s | ratio |",
        "|---|---|---|---|---|---|",
    ]
    grown: dict[str, list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        source = str(ROOT / "benchmarks/simgrid/peer.c")
        subprocess.run(["smpicc", "-O2", source, "-o", str(folder / "peer")], check=True)
        empty_s, _ = host_time.smpirun_cpu(folder, "start", 2, 0, "", best)
        for title, (name, algorithm, simgrid, runs) in PEERS.items():
            for ranks, number in runs:
                mine = host_time.in_child(name, ranks, number, algorithm, "ranks", best)["cpu_s"]
                peer = host_time.smpirun_cpu(folder, name, ranks, number, simgrid, best)[0] - empty_s
                messages = ranks * (number if name == "ring" else ranks.bit_length() - 1)
                lines.append(
                    f"| {title} | {ranks} | {messages} | {mine:.4f} | {peer:.3f} | {peer / mine:.1f} |"
                )
                grown.setdefault(title, []).append((messages if name == "ring" else ranks, mine, peer))
    slopes = draw(grown, picture)
    return [*lines, "", f"![CPU seconds of labkit and smpirun]({picture.name})", "", slopes]


def draw(grown: dict[str, list[tuple[float, float, float]]], picture: Path) -> str:
    """Draw the CPU seconds of both programs by size, logarithmically; return the slopes in a sentence."""
    import matplotlib as mpl
    import numpy as np

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "labkit"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(grown), figsize=(9, 3.4), layout="constrained", sharey=True)
    said = []
    for axis, (title, rows) in zip(axes, grown.items(), strict=True):
        sizes, *both = np.array(rows).T
        for name, seconds, color, mark in zip(
            ("labkit", "smpirun"), both, ("#0072B2", "#D55E00"), "os", strict=True
        ):
            seen = seconds > 0
            slope = np.polyfit(np.log(sizes[seen][-3:]), np.log(seconds[seen][-3:]), 1)[0]
            axis.loglog(
                sizes[seen], seconds[seen], f"{mark}-", color=color, label=f"{name}, slope {slope:.2f}"
            )
            said.append(f"{name} {slope:.2f} ({title})")
        axis.set(title=title, xlabel="messages" if "rounds" in title else "ranks")
        axis.legend(frameon=False)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("CPU time (s)")
    figure.savefig(picture, metadata={"Date": None})
    return f"Slopes of the last three points: {', '.join(said)}."


def growth(best: int, sizes: list[int]) -> list[str]:
    """Return the table of live ranks, and labkit's own verdict on its growth."""
    import labkit as lk

    found = [measured(sys.executable, "barrier", [ranks], best) for ranks in sizes]
    lines = ["| ranks | CPU s | CPU us a rank | peak MiB |", "|---|---|---|---|"]
    for ranks, one in zip(sizes, found, strict=True):
        a_rank = 1e6 * one["value"] / ranks
        lines.append(f"| {ranks} | {one['value']:.3f} | {a_rank:.0f} | {one['bytes'] / 2**20:.0f} |")
    for what, values in (
        ("CPU seconds", [one["value"] for one in found]),
        ("Peak memory", [one["bytes"] for one in found]),
    ):
        verdict = lk.judge(sizes, values, "p")
        text = " ".join(str(verdict).split())
        lines += ["", f"{what} against the expectation `p`: {text}"]
    return lines


def machine() -> str:
    """Name the processor."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.partition(":")[2] for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = names[0].strip() if names else model
    return f"{model}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def main() -> int:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", help="the Python of another installation, measured in the same run")
    parser.add_argument("--large", action="store_true", help="up to 2^17 live ranks")
    parser.add_argument("--best", type=int, default=3, help="processes for each figure")
    parser.add_argument("--out", type=Path, default=ROOT / "docs/performance.md")
    parser.add_argument("--cell", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.cell:
        name, arguments = json.loads(asked.cell)
        print(json.dumps(CELLS[name](*arguments)))
        return 0
    figures_of = "before | now" if asked.before else "now"
    head = f"""# What labkit costs

Written by `python benchmarks/performance.py`. CPU seconds (user and system) of whole processes, medians of
{asked.best}.

{datetime.date.today()}; {machine()}; load average {os.getloadavg()[0]:.0f}.

## One run

| work | unit | {figures_of} |
|---|---|---|{"---|" if asked.before else ""}"""
    lines = [head]
    modules = 0.0
    for label, unit, cell, arguments in [*ROWS, *(LARGE_ROWS if asked.large else [])]:
        figures = []
        for python in [asked.before, sys.executable]:
            if python is not None:
                found = measured(python, cell, arguments, asked.best)
                modules = found.get("modules", modules)
                figures.append(f"{found['value']:.{DIGITS[unit]}f}")
        lines.append(f"| {label} | {unit} | {' | '.join(figures)} |")
        print(lines[-1], flush=True)
    lines += ["", f"The first run imports {modules:.0f} modules of labkit.", ""]
    lines += ["## Live Python ranks through one barrier", ""]
    lines += growth(asked.best, [*BARRIERS, *([2**16, 2**17] if asked.large else [])])
    lines += ["", "## Next to SimGrid", ""]
    lines += [
        f"The same program, machine, algorithm, in C under smpirun: the best of {asked.best} less its start.",
        "",
        *peers(asked.best, asked.out.with_suffix(".svg")),
        LIMITS,
    ]
    asked.out.write_text("\n".join(lines), encoding="utf-8")
    print(asked.out.read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main())
