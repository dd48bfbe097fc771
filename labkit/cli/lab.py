"""``labkit lab``: open JupyterLab on the start page of the course, in a working copy."""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from labkit.errors import DataError, LabkitError, MachineError, UnknownNameError

__all__ = ["KEPT", "configure", "execute", "find_notebooks", "released", "update"]


#: folders of a working copy: assignments, the algorithms' files, and what a refresh has set aside
ASSIGNMENTS, ALGORITHMS, KEPT, OWN = "assignments", "algorithms", "set-aside", "my_algorithms"
_ABOUT_OWN = """\
# Your own algorithms

A file `my_algorithms/<problem>/<name>.py` is an algorithm as those in `algorithms/` are, without a restart:
in `coll=`, `lk.card`, `lk.tune`, sweeps and explorers of the notebooks in this folder. Begin with a copy:

    mkdir -p my_algorithms/bcast
    cp algorithms/bcast/linear.py my_algorithms/bcast/mine.py
    chmod u+w my_algorithms/bcast/mine.py

Rename what it calls itself, `ALGORITHM = Algorithm("mine", "bcast", ...)`, and change the rest. Then
`lk.run(program, 8, "star", coll="bcast=mine")`. The files in `algorithms/` are copies for reading.
"""
_MEMORY = Path(".labkit", "course.json")
#: what stands between them is for teachers only
_SECRET = re.compile(
    r"^(?P<indent>[ \t]*)### BEGIN (?P<what>SOLUTION|HIDDEN TESTS)\b.*?^[ \t]*### END (?P=what)[^\n]*",
    re.MULTILINE | re.DOTALL,
)
#: what ipykernel says of its kernel's language; importing it would take half a second at every start
_LANGUAGE = {
    "name": "python",
    "version": sys.version.split()[0],
    "mimetype": "text/x-python",
    "codemirror_mode": {"name": "ipython", "version": 3},
    "pygments_lexer": "ipython3",
    "nbconvert_exporter": "python",
    "file_extension": ".py",
}
_STUB = ("# YOUR CODE HERE", "raise NotImplementedError()")


@dataclass
class Update:
    """What became of a working copy.

    `added`, `renewed`, `set_aside`, `left`: Files that were put there, that followed the course, whose own
        version went to `KEPT`, and that somebody changed here while the course has a newer version.
    """

    folder: Path
    added: list[str] = field(default_factory=list)
    renewed: list[str] = field(default_factory=list)
    set_aside: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """Return it as lines for a terminal."""
        said = [f"your working copy: {self.folder} (the course itself is not changed)"]
        if self.renewed:
            said.append(f"brought up to date: {_listed(self.renewed)}")
        if self.set_aside:
            said.append(f"fresh again, your version is in {KEPT}/: {_listed(self.set_aside)}")
        if self.left:
            said.append(
                f"changed by you, and newer in the course: {_listed(self.left)}; labkit lab --refresh brings "
                f"the course's version and keeps yours in {KEPT}/"
            )
        return said


def _listed(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def update(folder: Path, notebooks: Path, assignments: Path | None, is_fresh: bool = False) -> Update:
    """Make a working copy, or bring one up to date."""
    done = Update(folder)
    try:
        (folder / _MEMORY.parent).mkdir(parents=True, exist_ok=True)
        known = _remembered(folder / _MEMORY)
        stamp = time.strftime("%Y-%m-%d-%H%M%S")
        for name, read in _course(notebooks, assignments):
            _put(folder, name, _opened(read()), known, is_fresh, stamp, done)
        (folder / _MEMORY).write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")
        _show_algorithms(folder)
    except OSError as error:
        raise DataError(
            f"the working copy {str(folder)!r} cannot be written: {error.strerror or error}; name "
            "another folder with --work",
            code="unwritable-file",
        ) from error
    return done


def _course(notebooks: Path, assignments: Path | None) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield every file of the course: its name in a working copy, and a function that reads it."""
    for path in sorted(notebooks.iterdir()):
        if path.is_file() and not path.name.startswith("."):
            yield path.name, path.read_bytes
    for path in sorted(assignments.glob("*/*.ipynb")) if assignments is not None else ():
        if path.stem == path.parent.name:
            yield f"{ASSIGNMENTS}/{path.name}", partial(released, path)


def _opened(source: bytes) -> bytes:
    """Return a notebook as JupyterLab makes it when it opens it; anything else unchanged."""
    try:
        book = json.loads(source)
        if book["metadata"]["kernelspec"]["language"] != "python":
            return source
        book["metadata"]["language_info"] = _LANGUAGE
    except (ValueError, LookupError, TypeError):
        return source
    return _file(book)


def _file(book: dict[str, object]) -> bytes:
    """Return a notebook's file, in Jupyter's form."""
    return (json.dumps(book, indent=1, ensure_ascii=False) + "\n").encode()


def _remembered(file: Path) -> dict[str, str]:
    try:
        known = json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return {str(name): str(digest) for name, digest in known.items()} if isinstance(known, dict) else {}


def _put(
    folder: Path, name: str, content: bytes, known: dict[str, str], is_fresh: bool, stamp: str, done: Update
) -> None:
    """Put a file of the course into the copy, unless somebody's work is there."""
    target, digest = folder / name, hashlib.sha256(content).hexdigest()
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        _write(target, content)
        done.added.append(name)
    else:
        here = hashlib.sha256(target.read_bytes()).hexdigest()
        if here != digest:
            is_own = here != known.get(name)
            if is_own and not is_fresh:
                if known.get(name) != digest:
                    done.left.append(name)
                return  # what the copy had got from the course is remembered as it was
            if is_own:
                aside = folder / KEPT / stamp / name
                aside.parent.mkdir(parents=True, exist_ok=True)
                os.replace(target, aside)
                done.set_aside.append(name)
            else:
                done.renewed.append(name)
            _write(target, content)
    known[name] = digest


def _write(target: Path, content: bytes) -> None:
    part = target.with_name(f".{target.name}.part")
    part.write_bytes(content)
    os.replace(part, target)


def _show_algorithms(folder: Path) -> None:
    """Copy the algorithms' files next to the notebooks, for reading; make a folder for own ones."""
    spec = importlib.util.find_spec("labkit.algorithms")
    place = folder / ALGORITHMS
    if spec is None or not spec.submodule_search_locations:
        return
    # an editable installation lists files of several folders: that of the package itself counts
    found = Path(spec.origin).parent if spec.origin else Path(next(iter(spec.submodule_search_locations)))
    if place.is_symlink():
        place.unlink()
    for source in sorted(found.rglob("*.py")):
        target, content = place / source.relative_to(found), source.read_bytes()
        is_ours = (
            not target.exists() or not target.stat().st_mode & 0o222
        )  # what somebody may write is theirs
        if is_ours and (not target.exists() or target.read_bytes() != content):
            target.parent.mkdir(parents=True, exist_ok=True)
            _write(target, content)
            target.chmod(0o444)  # what runs are the installed files: a change here would change nothing
    own = folder / OWN / "README.md"
    if not own.exists():
        own.parent.mkdir(exist_ok=True)
        _write(own, _ABOUT_OWN.encode())


def released(path: Path) -> bytes:
    """Return a teacher's notebook as students get it: without solutions, hidden tests and outputs."""
    book: dict[str, Any] = json.loads(path.read_bytes())
    for cell in book["cells"]:
        text = "".join(cell["source"])
        cell["source"] = _SECRET.sub(_stub, text).splitlines(keepends=True)
        if cell["cell_type"] == "code":
            cell["outputs"], cell["execution_count"] = [], None
    return _file(book)


def _stub(found: re.Match[str]) -> str:
    is_solution = found["what"] == "SOLUTION"
    return "\n".join(f"{found['indent']}{line}" for line in _STUB) if is_solution else ""


#: for all users: no news and updates over the network, whole names of files, no breaks inside names
_CONFIG = Path(__file__).with_name("jupyter_config")
#: for all users but teachers: no buttons of nbgrader
_STUDENTS = Path(__file__).with_name("jupyter_config_students")
#: a working copy's folder, next to the course's notebooks
_WORK = "work"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit lab``."""
    parser.usage = (
        "labkit lab [--refresh] [--work FOLDER] [--teacher | --in-place] [--notebooks FOLDER] [--dry-run] "
        "[NUMBER] [-- options of JupyterLab]"
    )
    add = parser.add_argument
    add(
        "--work", metavar="FOLDER", help="your working copy of the course (default: work, next to the course)"
    )
    add(
        "--refresh",
        action="store_true",
        help="restore every file of the course; your changed versions are kept in set-aside/",
    )
    add(
        "--teacher",
        action="store_true",
        help="open the course itself, with the assignments and nbgrader's buttons",
    )
    add("--in-place", action="store_true", help="open the course itself instead of a working copy")
    add("--notebooks", metavar="FOLDER", help="folder of the course's notebooks (default: the checkout's)")
    add("--dry-run", action="store_true", help="print the command instead of running it")
    add(
        "options",
        nargs="*",
        help="a notebook's number, then options of JupyterLab: 24 -- --no-browser",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Become JupyterLab."""
    start, options = _chosen(find_notebooks(arguments.notebooks), arguments.options)
    if importlib.util.find_spec("jupyterlab") is None:
        raise LabkitError(
            "JupyterLab is not installed; install it with: python -m pip install 'labkit[lab]'",
            code="missing-package",
        )
    if is_own := not (arguments.teacher or arguments.in_place):
        root, page = _work_folder(arguments.work, start.parent), start.name
    elif arguments.work or arguments.refresh:
        raise LabkitError(
            "--work and --refresh are for a working copy, --teacher and --in-place for the course: omit one",
            code="conflicting-options",
        )
    else:
        root, page = start.parent.parent, f"{start.parent.name}/{start.name}"
    # The address that is printed leads to the start page, too, not only the one that is opened.
    command = [
        sys.executable,
        "-m",
        "labkit.cli.lab_server",
        f"--ServerApp.root_dir={root}",
        f"--LabApp.default_url=/lab/tree/{quote(page)}",
        "--LabApp.custom_css=True",
        f"--ServerApp.static_custom_path={_CONFIG / 'custom'}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in options:
        command.append("--allow-root")  # containers run as root; Jupyter would refuse to start
    command += options
    if arguments.dry_run:
        print(f"cd {shlex.quote(str(root))} && {shlex.join(command)}")
        return 0
    if is_own:
        sources = start.parent.parent / "course" / "source"
        done = update(root, start.parent, sources if sources.is_dir() else None, arguments.refresh)
        print("\n".join(f"labkit: {line}" for line in done.lines()))
    # Figures must not depend on a network: BokehJS comes from the package.
    settings = {"BOKEH_RESOURCES": "inline", "PYTHONSTARTUP": str(_CONFIG / "startup.py")}
    environment = {**settings, **_own_matplotlib(), **os.environ, **_own_commands()}
    if os.path.realpath(environment.get("VIRTUAL_ENV", sys.prefix)) != os.path.realpath(sys.prefix):
        del environment["VIRTUAL_ENV"]  # another one, left active: IPython would take modules from it
    given = os.environ.get("JUPYTER_CONFIG_PATH")
    places = [*([given] if given else []), *([] if arguments.teacher else [str(_STUDENTS)]), str(_CONFIG)]
    environment["JUPYTER_CONFIG_PATH"] = os.pathsep.join(places)
    try:
        os.chdir(root)
        sys.stdout.flush()
        # In place of this process: whoever ends labkit lab ends JupyterLab, and nothing is left behind.
        os.execve(sys.executable, command, environment)
    except OSError as error:
        raise MachineError(f"JupyterLab cannot be started: {error}", code="not-started") from error


def _chosen(notebooks: list[Path], words: list[str]) -> tuple[Path, list[str]]:
    """Return the notebook to open, the first one where no other is named, and the options of JupyterLab."""
    if not words or words[0].startswith("-"):
        return notebooks[0], words
    name = Path(words[0]).stem
    for path in notebooks:
        number = path.name[:2]
        if name in (number, path.stem) or (name.isascii() and name.isdigit() and name.zfill(2) == number):
            return path, words[1:]
    first, last = notebooks[0].name[:2], notebooks[-1].name[:2]
    raise UnknownNameError(
        f"no notebook {words[0]!r} in the course; there are {first} to {last}, as in labkit lab {last}; "
        "options of JupyterLab come after --, as in labkit lab -- --port=9999"
    )


def _own_commands() -> dict[str, str]:
    """Return the PATH with which `!labkit run` in a cell is that of this installation, activated or not."""
    path, own = os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)
    is_found = Path(shutil.which("labkit") or "").parent == Path(own)
    return {} if is_found else {"PATH": f"{own}{os.pathsep}{path}"}


def _own_matplotlib() -> dict[str, str]:
    """Return the setting that lets matplotlib's figures follow the theme; a user's own come first."""
    home, given = Path.home(), os.environ.get
    folders = given("MPLCONFIGDIR"), Path(given("XDG_CONFIG_HOME") or home / ".config", "matplotlib")
    places = [Path(folder, "matplotlibrc") for folder in (*folders, home / ".matplotlib") if folder]
    return {} if any(place.exists() for place in places) else {"MATPLOTLIBRC": str(_CONFIG / "matplotlibrc")}


def _work_folder(given: str | None, notebooks: Path) -> Path:
    """Return the folder of the working copy: the one asked for, or next to the course, or at home."""
    if given is not None:
        folder = Path(given).expanduser().resolve()
        if folder == notebooks or (folder / "pyproject.toml").exists():
            raise LabkitError(
                f"--work {given} is the course itself; name a folder of your own, or use --in-place",
                code="conflicting-options",
            )
        return folder
    beside = notebooks.parent / _WORK
    return beside if os.access(notebooks.parent, os.W_OK) else Path.home() / f"labkit-{_WORK}"


def find_notebooks(folder: str | None = None) -> list[Path]:
    """Find the numbered notebooks of the course."""
    if folder is not None:
        places = [Path(folder)]
    else:
        here = Path.cwd()
        package = Path(__file__).resolve().parents[2]
        installed = Path(sys.prefix, "share", "labkit")
        places = [place / "notebooks" for place in (here, *here.parents, package, installed)]
    for place in places:
        found = sorted(place.resolve().glob("[0-9][0-9]_*.ipynb"))
        if found:
            return found
    where = f"in {folder!r}" if folder else "in the current folder, above it, or next to the package"
    raise LabkitError(
        f"no course notebook (NN_*.ipynb) was found {where}; start labkit lab in a checkout of labkit, or "
        "name the folder with --notebooks",
        code="missing-file",
    )
