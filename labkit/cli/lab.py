"""``labkit lab``: JupyterLab on the start page of the course."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from pathlib import Path

from labkit.errors import LabkitError, MachineError

__all__ = ["configure", "execute", "find_notebooks"]

#: switches off what would ask for JupyterLab's news and updates over the network
_CONFIG = Path(__file__).with_name("jupyter_config")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit lab``."""
    parser.usage = "labkit lab [--notebooks FOLDER] [--dry-run] [-- options of JupyterLab]"
    parser.add_argument(
        "--notebooks", metavar="FOLDER", help="folder of the notebooks (default: the checkout's)"
    )
    parser.add_argument("--dry-run", action="store_true", help="print the command instead of running it")
    parser.add_argument("options", nargs="*", help="passed on to JupyterLab, for example -- --no-browser")


def execute(arguments: argparse.Namespace) -> int:
    """Become JupyterLab."""
    notebook = find_notebooks(arguments.notebooks)[0]
    if importlib.util.find_spec("jupyterlab") is None:
        raise LabkitError("JupyterLab is missing; install it with: python -m pip install 'labkit[lab]'")
    root = notebook.parent.parent
    command = [sys.executable, "-m", "jupyterlab", str(notebook.relative_to(root))]
    if hasattr(os, "geteuid") and os.geteuid() == 0 and "--allow-root" not in arguments.options:
        command.append("--allow-root")  # containers run as root; Jupyter would refuse to start
    command += arguments.options
    if arguments.dry_run:
        print(f"cd {shlex.quote(str(root))} && {shlex.join(command)}")
        return 0
    # Figures must not depend on a network: BokehJS comes from the package.
    environment = {"BOKEH_RESOURCES": "inline", **os.environ}
    more = [os.environ["JUPYTER_CONFIG_PATH"]] if os.environ.get("JUPYTER_CONFIG_PATH") else []
    environment["JUPYTER_CONFIG_PATH"] = os.pathsep.join([*more, str(_CONFIG)])
    try:
        os.chdir(root)
        sys.stdout.flush()
        # In place of this process: whoever ends labkit lab ends JupyterLab, and nothing is left behind.
        os.execve(sys.executable, command, environment)
    except OSError as error:
        raise MachineError(f"JupyterLab cannot be started: {error}") from error


def find_notebooks(folder: str | None = None) -> list[Path]:
    """Find the numbered notebooks of the course.

    Parameters
    ----------
    folder : str, optional
        Where they are. Default: a folder ``notebooks`` here, in a folder above, or in labkit's own checkout.

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
        places = [place / "notebooks" for place in (here, *here.parents, package)]
    for place in places:
        found = sorted(place.resolve().glob("[0-9][0-9]_*.ipynb"))
        if found:
            return found
    where = f"in {folder!r}" if folder else "here, above, or beside the package"
    raise LabkitError(
        f"no course notebook (NN_*.ipynb) was found {where}; start labkit lab in a checkout of labkit, or "
        "name the folder with --notebooks"
    )
