"""Bundles, as `labkit.Study.bundle` writes them: a study and all that others need to check it, as one zip.

::

    data.csv, study.json   the measurements; labkit.load reads this zip as a study
    recipe.json            the calls that gave them: points, parameters, seeds
    machines.json          the simulated machines and network models with their numbers, calibration, noise
    program/               the program: what is run again, and installed/: copies of installed sources
    environment.json       Python, the computer, MPI; packages.txt: the packages
    notebook/              the notebook, where there was one
    bundle.json            the SHA-256 of every other file, and which rows can be computed again
    README.md              this table, for those who open the zip

``labkit verify BUNDLE`` checks every hash, runs the simulated part again and compares.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from labkit.checks import names_of, path_of
from labkit.errors import DataError
from labkit.process.fingerprint import labkit_digest
from labkit.study.bundle.recipe_file import RecipeWriter, numbers
from labkit.study.rows import HOST_METRICS
from labkit.study.store import study_files, write_zip

if TYPE_CHECKING:
    import pandas as pd

    from labkit.study.bundle.recipe_file import Recipe

__all__ = ["FORMAT", "MANIFEST", "VERSION", "Bundle", "environment", "identity", "packages", "write_bundle"]

FORMAT = "labkit-bundle"

VERSION = 1

MANIFEST = "bundle.json"


@dataclass(frozen=True)
class Bundle:
    """What was written.

    `identity`: SHA-256 of the manifest, which holds the hashes of all other files: publish it next to the
        bundle, and nobody can exchange a byte unnoticed.
    `files`: Sizes in bytes, by name.
    `rows`: Rows of the study.
    `again`: Rows that `labkit.verify` can compute again.
    `remarks`: What it cannot, and why.
    """

    path: Path
    identity: str
    files: dict[str, int]
    rows: int
    again: int
    remarks: list[str]

    def __repr__(self) -> str:
        lines = [
            f"{self.path}: {len(self.files)} files, {os.path.getsize(self.path):,} B, {self.rows} rows",
            f"  can be computed again: {self.again} of {self.rows} rows",
            f"  identity: {self.identity}",
        ]
        return "\n".join([*lines, *(f"  note: {text}" for text in self.remarks)])


# The provenance of a study: Python, packages, computer, MPI; and the notebook it was made in.

_MOST_NOTEBOOK_BYTES = 100_000_000


def environment() -> dict[str, Any]:
    """Describe this Python, its packages of weight, this computer and its MPI; no user's, no host's name."""
    from labkit import __version__
    from labkit.real.context import available_cores

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
    """Read a notebook: its name, its content."""
    place = path_of(path)
    try:
        content = place.read_bytes()
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise DataError(
            f"the notebook {str(place)!r} cannot be read: {said}", code="unreadable-file"
        ) from error
    if place.suffix != ".ipynb" or not content.lstrip().startswith(b"{"):
        raise DataError(
            f"{str(place)!r} is not a notebook; give the path of an .ipynb file", code="malformed-file"
        )
    if len(content) > _MOST_NOTEBOOK_BYTES:
        raise DataError(
            f"the notebook {str(place)!r} is larger than {_MOST_NOTEBOOK_BYTES} bytes", code="too-large"
        )
    return place.name, content


def _cpu() -> str:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


class _Measured(Protocol):
    """The part of `labkit.Study` that a bundle is made of."""

    data: pd.DataFrame
    notes: dict[str, Any]

    @property
    def metrics(self) -> list[str]: ...


def write_bundle(
    study: _Measured,
    recipe: Recipe | None,
    path: str | os.PathLike[str],
    *,
    notebook: str | os.PathLike[str] | bool | None = None,
    host_metrics: Iterable[str] = (),
) -> Bundle:
    """Write a study and everything that others need to check it.

    The zip holds the study (`labkit.load` reads it), the program's source, the recipe with its seeds, the
    machines with all their numbers, the environment, the notebook, and a manifest with the SHA-256 of every
    file. The same study gives the same bytes, apart from the time that the manifest states
    (``SOURCE_DATE_EPOCH`` sets it).

    `recipe`: What its sweep knew.
    `path`: An older file there is replaced only when the new one is complete.
    `notebook`: The notebook that belongs to it; by default the one this is called in, if it can be found: its
        last saved state. False: none.
    `host_metrics`: User-defined metrics (of ``sweep(measure=...)``) that depend on this host.
    Raises DataError: It cannot be written, or the notebook cannot be read.
    Raises ProgramError: The program uses something that can neither be written down nor pickled.
    """
    target, host_metrics = path_of(path), names_of("host_metrics", host_metrics)
    unknown = sorted(set(host_metrics) - set(study.metrics))
    if unknown:
        raise DataError(
            f"host_metrics: the study has no metric {unknown[0]!r}; it has {', '.join(study.metrics)}",
            code="unknown-name",
        )
    if target.is_dir():
        raise DataError(
            f"{os.fspath(path)!r} is a folder; give the name of a file, such as study.zip",
            code="wrong-kind-of-file",
        )
    files = study_files(study.data, study.notes)
    remarks, again = [], 0
    if isinstance(usable := _usable_recipe(study, recipe), str):
        remarks.append(f"no recipe: {usable}")
    else:
        writer = RecipeWriter(usable, study.data, study.notes)
        document = writer.document(host_metrics)
        again, missing = _rows_again(document, study, {*host_metrics, *HOST_METRICS} & set(study.metrics))
        remarks += [*missing, *writer.carrier.remarks]
        files |= {"recipe.json": _json(document), "machines.json": _json(writer.machines)}
        files |= writer.carrier.files
    files |= {"environment.json": _json(environment()), "packages.txt": packages().encode()}
    files |= _notebook_files(notebook, remarks)
    files["README.md"] = _readme(len(study.data), again, remarks).encode()
    manifest = _manifest(files, len(study.data), again, remarks)
    ordered = {MANIFEST: manifest, **{name: files[name] for name in sorted(files)}}
    target = write_zip(path, ordered, "the bundle")
    sizes = {name: len(content) for name, content in ordered.items()}
    return Bundle(target, identity(manifest), sizes, len(study.data), again, remarks)


def identity(manifest: bytes) -> str:
    """Return what names a bundle: the SHA-256 of its manifest."""
    return hashlib.sha256(manifest).hexdigest()


def _usable_recipe(study: _Measured, recipe: Recipe | None) -> Recipe | str:
    """Return the study's recipe, or why it has none that somebody could use."""
    if recipe is None:
        return "the study was not made by a sweep of this session, so nothing can be run again"
    if recipe.job.runner is not None:
        return "the sweep had its own runner, which is not available elsewhere"
    if not study.data.index.is_unique:
        return "the rows were combined again, and no longer record their point"
    return recipe


def _rows_again(document: Mapping[str, Any], study: _Measured, host: set[str]) -> tuple[int, list[str]]:
    """Count the rows that can be computed again, and say why others cannot."""
    remarks: list[str] = []
    again = real = chance = lost = 0
    is_host = study.data["metric"].isin(host).to_numpy()
    for point in document["points"]:
        rows = numbers(point["rows"], len(study.data))
        lost += point["rows_of_the_sweep"] - len(rows)
        if "real" in point:
            real += len(rows)
        elif point["deterministic"]:
            again += sum(not is_host[row] for row in rows)
        else:
            chance += len(rows)
    if real:
        remarks.append(f"{real} rows were measured on a real machine: they can only be checked for presence")
    if chance:
        remarks.append(f"{chance} rows charge work by this host's clock: no run repeats them exactly")
    if host:
        remarks.append(f"{int(is_host.sum())} rows are of metrics that depend on the host: {sorted(host)}")
    if lost:
        remarks.append(f"{lost} rows of the sweep were taken out of the study before it was bundled")
    return again, remarks


def _notebook_files(notebook: Any, remarks: list[str]) -> dict[str, bytes]:
    if notebook is False:
        return {}
    place = find_notebook() if notebook is None or notebook is True else notebook
    if place is None:
        if notebook is True:
            raise DataError(
                "the notebook that this runs in was not found; give its path: notebook='x.ipynb'",
                code="missing-file",
            )
        return {}
    name, content = read_notebook(place)
    if notebook is None:
        remarks.append(f"{name} is in it as it was last saved")
    return {f"notebook/{name}": content}


def _manifest(files: Mapping[str, bytes], rows: int, again: int, remarks: list[str]) -> bytes:
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    now = datetime.datetime.now(datetime.UTC)
    given = re.fullmatch("[0-9]{1,11}", epoch)
    created = datetime.datetime.fromtimestamp(int(epoch), datetime.UTC) if given else now
    return _json(
        {
            "format": FORMAT,
            "version": VERSION,
            "created": created.isoformat(timespec="seconds"),
            "rows": rows,
            "rows_to_compute_again": again,
            "remarks": remarks,
            "files": {
                name: {"sha256": hashlib.sha256(files[name]).hexdigest(), "bytes": len(files[name])}
                for name in sorted(files)
            },
        }
    )


def _json(document: object) -> bytes:
    return (json.dumps(document, indent=1, ensure_ascii=False, sort_keys=False) + "\n").encode()


def _readme(rows: int, again: int, remarks: list[str]) -> str:
    notes = "".join(f"- {text}\n" for text in remarks)
    return _README.format(rows=rows, again=again, notes=f"\n{notes}" if notes else "")


_README = """\
# A study made with labkit

{rows} measurements, of which {again} can be computed again, bit by bit.
{notes}
| file | holds |
|---|---|
| `data.csv`, `study.json` | the measurements; `labkit.load` reads this zip as a study |
| `recipe.json` | the calls that gave them: points, parameters, seeds |
| `machines.json` | the simulated machines and network models with all their numbers, calibration, noise |
| `program/` | the program: what is run again, and `installed/`: copies of installed sources for reading |
| `environment.json`, `packages.txt` | Python, packages, computer, MPI |
| `notebook/` | the notebook, where there was one |
| `bundle.json` | the SHA-256 of every other file |

    pip install labkit
    labkit verify THIS.zip             # checks every hash, runs the simulated part again, compares
    labkit verify THIS.zip --no-run    # only checks: runs nothing that came with the bundle

Hashes show damage, not authorship: compare the identity that `labkit verify` prints with one from the author.
"""
