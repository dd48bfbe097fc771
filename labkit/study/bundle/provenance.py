"""The provenance of a study: Python, packages, computer, MPI; and the notebook it was made in."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any

from labkit.errors import DataError
from labkit.process.versions import labkit_digest

__all__ = ["environment", "find_notebook", "packages"]

_MOST_NOTEBOOK_BYTES = 100_000_000


def environment() -> dict[str, Any]:
    """Describe this Python, its packages of weight, this computer and its MPI; no user's, no host's name."""
    from labkit import __version__
    from labkit.real.cores import available_cores

    mpi: dict[str, str | None] = {"mpi4py": None, "launcher": None}
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        mpi["mpi4py"] = importlib.metadata.version("mpi4py")
    with contextlib.suppress(Exception):  # there may be none, or one that cannot be asked
        from labkit.real.mpi.find import find_launcher

        mpi["launcher"] = find_launcher().describe()
    return {
        "labkit": __version__,
        "labkit_sources_sha256": labkit_digest(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "system": f"{platform.system()} {platform.release()}",
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "cores": available_cores(),
        "mpi": mpi,
    }


def packages() -> str:
    """List every installed package with its version, as pip's requirements are written."""
    found = {
        str(one.metadata["Name"]).lower(): f"{one.metadata['Name']}=={one.version}"
        for one in importlib.metadata.distributions()
        if one.metadata["Name"]
    }
    return "".join(f"{found[name]}\n" for name in sorted(found))


def find_notebook() -> Path | None:
    """Find the notebook that this kernel belongs to.

    JupyterLab's server names it to the kernel it starts; VS Code puts it among the notebook's names.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return None
    named = [getattr(shell, "user_ns", {}).get("__vsc_ipynb_file__"), os.environ.get("JPY_SESSION_NAME")]
    paths = [Path(name) for name in named if isinstance(name, str) and name.endswith(".ipynb")]
    # The server names it from its own root, a kernel starts in the notebook's folder.
    near = [candidate for path in paths for candidate in (path, Path(path.name))]
    return next((candidate.resolve() for candidate in near if candidate.is_file()), None)


def read_notebook(path: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Read a notebook: its name, its content.

    Raises
    ------
    DataError
        It is not there, or no notebook.
    """
    place = Path(path)
    try:
        content = place.read_bytes()
    except OSError as error:
        raise DataError(f"the notebook {str(place)!r} cannot be read: {error.strerror or error}") from error
    if place.suffix != ".ipynb" or not content.lstrip().startswith(b"{"):
        raise DataError(f"{str(place)!r} is not a notebook; give the path of an .ipynb file")
    if len(content) > _MOST_NOTEBOOK_BYTES:
        raise DataError(f"the notebook {str(place)!r} is larger than {_MOST_NOTEBOOK_BYTES} bytes")
    return place.name, content


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
