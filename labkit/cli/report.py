"""``labkit report notebook.ipynb``: a notebook as one HTML or PDF file, ready to hand in."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

from labkit.errors import DataError, LabkitError

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit report``."""
    parser.usage = "labkit report NOTEBOOK [--pdf] [-o FILE.html|FILE.pdf] [--run]"
    add = parser.add_argument
    add("notebook", help="the .ipynb file; it is not changed")
    add("-o", "--output", metavar="FILE", help="an .html or .pdf file (default: HTML, next to the notebook)")
    add("--pdf", action="store_true", help="a PDF; the same as -o FILE.pdf")
    add("--run", action="store_true", help="run all cells first; else the stored outputs are shown")
    add("--timeout", type=float, default=600.0, metavar="SECONDS", help="limit of a cell, with --run (600)")


def execute(arguments: argparse.Namespace) -> int:
    """Write the report, and say where it is."""
    missing = [name for name in ("nbconvert", "nbclient") if importlib.util.find_spec(name) is None]
    if missing:
        raise LabkitError(f"{missing[0]} is missing; install it with: python -m pip install 'labkit[lab]'")
    from labkit.jupyter.report import make_report

    target = arguments.output
    if arguments.pdf:
        target = target or Path(arguments.notebook).with_suffix(".pdf")
        if Path(target).suffix.lower() != ".pdf":
            raise DataError(f"--pdf and -o {target} say two things; leave --pdf out, or name a .pdf file")
    path = make_report(arguments.notebook, target, is_run=arguments.run, timeout_s=arguments.timeout)
    print(f"{path} ({path.stat().st_size / 1e6:.1f} MB)")
    return 0
