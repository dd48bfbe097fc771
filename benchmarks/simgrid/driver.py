"""Runs a message program under SimGrid's SMPI and reads back when every rank passed its marks."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from named import EVERY

from labkit.machines.models import NetworkModel
from labkit.machines.platform import Platform
from labkit.machines.xml.writer import host_file, platform_xml, smpirun_options

HERE = Path(__file__).parent
sys.path.append(str(HERE.parents[1]))  # for tests.support, wherever the benchmark is started
#: Operation of a program -> the option of smpirun that chooses its algorithm.
ALGORITHMS = {name: option for name, (_, _, option) in EVERY.items() if option}
#: options that choose what a collective is made of.
INNER: list[str] = []


@dataclass(frozen=True)
class Measured:
    marks: list[list[float]]
    command: str
    xml: str
    host_seconds: float
    cpu_seconds: float = 0.0


def is_there() -> bool:
    return shutil.which("smpirun") is not None and shutil.which("smpicc") is not None


def version() -> str:
    said = subprocess.run(["smpirun", "-version"], capture_output=True, text=True, check=False).stdout
    found = re.search(r"version (\d+(?:\.\d+)+)", said)
    return found[1] if found else "unknown"


def compile_interpreter(folder: Path) -> Path:
    binary = folder / "interpret"
    if not binary.exists():
        subprocess.run(["smpicc", "-O1", str(HERE / "interpret.c"), "-o", str(binary)], check=True)
    return binary


def algorithms(program: str) -> list[str]:
    """The options that choose the algorithms of a program's collectives; one algorithm a collective."""
    chosen = [ALGORITHMS[word] for word in sorted(set(re.findall(r"[a-z_]+", program))) if word in ALGORITHMS]
    if len({option.partition(":")[0] for option in chosen}) < len(chosen):
        raise ValueError(f"two algorithms for one collective: {chosen}")
    return [*chosen, *INNER]


def _run(command: list[str], folder: Path, limit_s: float | None) -> subprocess.CompletedProcess[str]:
    """Run smpirun, a script with children: at the limit all of them are ended."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as child:
        try:
            out, err = child.communicate(timeout=limit_s)
        except BaseException:
            os.killpg(child.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, child.returncode, out, err)


def run(
    program: str,
    ranks: int,
    platform: Platform,
    model: NetworkModel,
    folder: Path | None = None,
    extra: tuple[str, ...] = (),
    limit_s: float | None = None,
    xml: str | None = None,
    before: tuple[str, ...] = (),
) -> Measured:
    """One smpirun; without a folder, in a temporary one. Beyond its limit it is ended: TimeoutExpired.

    With `xml` the platform is that text, not labkit's own. `before`: options of smpirun, such as a wrapper.
    """
    if folder is None:
        with tempfile.TemporaryDirectory() as temporary:
            return run(program, ranks, platform, model, Path(temporary), extra, limit_s, xml, before)
    options = smpirun_options(model)
    xml = xml or platform_xml(platform, ranks)
    for name, text in (
        ("program.txt", program),
        ("platform.xml", xml),
        ("hosts.txt", host_file(platform, ranks)),
    ):
        (folder / name).write_text(text)
    largest = max((int(n) for n in re.findall(r"\d+", program)), default=0)
    buffer = str(min(largest, 1 << 25) + 1)
    command = ["smpirun", *before, "-np", str(ranks), "-platform", "platform.xml", "-hostfile", "hosts.txt",
               "--log=root.thres:warning", *(f"--cfg={o}" for o in [*options, *algorithms(program), *extra]),
               str(compile_interpreter(folder)), "program.txt", buffer]  # fmt: skip
    begin, before = time.perf_counter(), os.times()
    done = _run(command, folder, limit_s)
    took, after = time.perf_counter() - begin, os.times()
    cpu_s = after.children_user + after.children_system - before.children_user - before.children_system
    if done.returncode or "Deadlock detected" in done.stderr:  # for which it may return 0
        raise RuntimeError(
            f"smpirun failed ({done.returncode}):\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
        )
    marks: list[list[float]] = [[] for _ in range(ranks)]
    for rank, index, at in re.findall(r"^@ (\d+) (\d+) (\S+)$", done.stdout, re.MULTILINE):
        assert len(marks[int(rank)]) == int(index)
        marks[int(rank)].append(float(at))
    shown = " ".join("'" + word + "'" if ";" in word else word for word in command[:-3])
    return Measured(marks, f"{shown} ./interpret program.txt {buffer}", xml, took, cpu_s)
