"""``labkit lab``: JupyterLab on the start page of the course, in a working copy of one's own."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from urllib.parse import quote

from labkit.cli.working_copy import update
from labkit.errors import LabkitError, MachineError

__all__ = ["configure", "execute", "find_notebooks"]

#: for everybody: no news and updates over the network, whole names of files, no breaks inside words
_CONFIG = Path(__file__).with_name("jupyter_config")
#: for everybody but teachers: no buttons of nbgrader
_STUDENTS = Path(__file__).with_name("jupyter_config_students")
#: a working copy's folder, beside the course's notebooks
_WORK = "work"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit lab``."""
    parser.usage = (
        "labkit lab [--refresh] [--work FOLDER] [--teacher | --in-place] [--notebooks FOLDER] [--dry-run] "
        "[-- options of JupyterLab]"
    )
    add = parser.add_argument
    add("--work", metavar="FOLDER", help="your working copy of the course (default: work, beside the course)")
    add(
        "--refresh", action="store_true",
        help="make every file of the course fresh again; what you changed is kept in set-aside/",
    )  # fmt: skip
    add(
        "--teacher",
        action="store_true",
        help="the course itself, with assignments and nbgrader's buttons",
    )
    add("--in-place", action="store_true", help="the course itself, for those who write it")
    add("--notebooks", metavar="FOLDER", help="folder of the course's notebooks (default: the checkout's)")
    add("--dry-run", action="store_true", help="print the command instead of running it")
    add("options", nargs="*", help="passed on to JupyterLab, for example -- --no-browser")


def execute(arguments: argparse.Namespace) -> int:
    """Become JupyterLab."""
    start = find_notebooks(arguments.notebooks)[0]
    if importlib.util.find_spec("jupyterlab") is None:
        raise LabkitError("JupyterLab is missing; install it with: python -m pip install 'labkit[lab]'")
    is_own = not (arguments.teacher or arguments.in_place)
    if is_own:
        root, page = _work_folder(arguments.work, start.parent), start.name
    elif arguments.work or arguments.refresh:
        raise LabkitError(
            "--work and --refresh are about a working copy; --teacher and --in-place open the course itself: "
            "leave one of them out"
        )
    else:
        root, page = start.parent.parent, f"{start.parent.name}/{start.name}"
    # The address that is printed leads to the start page, too, not only the one that is opened.
    command = [sys.executable, "-m", "labkit.cli.lab_server", f"--ServerApp.root_dir={root}",
               f"--LabApp.default_url=/lab/tree/{quote(page)}", "--LabApp.custom_css=True",
               f"--ServerApp.static_custom_path={_CONFIG / 'custom'}"]  # fmt: skip
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in arguments.options:
        command.append("--allow-root")  # containers run as root; Jupyter would refuse to start
    command += arguments.options
    if arguments.dry_run:
        print(f"cd {shlex.quote(str(root))} && {shlex.join(command)}")
        return 0
    if is_own:
        sources = start.parent.parent / "course" / "source"
        done = update(root, start.parent, sources if sources.is_dir() else None, arguments.refresh)
        print("\n".join(f"labkit: {line}" for line in done.lines()))
    # Figures must not depend on a network: BokehJS comes from the package.
    startup = {"PYTHONSTARTUP": str(_CONFIG / "startup.py")}
    environment = {"BOKEH_RESOURCES": "inline", **startup, **_own_matplotlib(), **os.environ}
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
        raise MachineError(f"JupyterLab cannot be started: {error}") from error


def _own_matplotlib() -> dict[str, str]:
    """Return the setting that lets matplotlib's figures follow the theme; a user's own come first."""
    home, given = Path.home(), os.environ.get
    folders = given("MPLCONFIGDIR"), Path(given("XDG_CONFIG_HOME") or home / ".config", "matplotlib")
    places = [Path(folder, "matplotlibrc") for folder in (*folders, home / ".matplotlib") if folder]
    return {} if any(place.exists() for place in places) else {"MATPLOTLIBRC": str(_CONFIG / "matplotlibrc")}


def _work_folder(given: str | None, notebooks: Path) -> Path:
    """Return the folder of the working copy: the one asked for, or beside the course, or at home."""
    if given is not None:
        folder = Path(given).expanduser().resolve()
        if folder == notebooks or (folder / "pyproject.toml").exists():
            raise LabkitError(
                f"--work {given} is the course itself; name a folder of your own, or use --in-place"
            )
        return folder
    beside = notebooks.parent / _WORK
    return beside if os.access(notebooks.parent, os.W_OK) else Path.home() / f"labkit-{_WORK}"


def find_notebooks(folder: str | None = None) -> list[Path]:
    """Find the numbered notebooks of the course.

    Parameters
    ----------
    folder : str, optional
        Where they are. Default: a folder ``notebooks`` here, in a folder above, in labkit's own checkout, or
        among what was installed.

    Returns
    -------
    list of Path
        Absolute paths in their order, at least one.

    Raises
    ------
    LabkitError
        There is none; the message says how to get them.
    """
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
    where = f"in {folder!r}" if folder else "here, above, or beside the package"
    raise LabkitError(
        f"no course notebook (NN_*.ipynb) was found {where}; start labkit lab in a checkout of labkit, or "
        "name the folder with --notebooks"
    )
