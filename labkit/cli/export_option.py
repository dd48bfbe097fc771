"""``--export``: a run in the formats of other tools, of ``labkit run`` and ``labkit replay``."""

from __future__ import annotations

import argparse

from labkit.errors import DataError
from labkit.result import Run

__all__ = ["add_export", "check_targets", "write_exports"]


def add_export(parser: argparse.ArgumentParser) -> None:
    """Add the option."""
    parser.add_argument(
        "--export", action="append", default=[], metavar="FILE",
        help="export the run for another tool, selected by the suffix: .json (Perfetto), .paje, "
        ".prv (Paraver), .cubex (Cube), .otf2, .csv (Pipit); repeatable",
    )  # fmt: skip


def check_targets(arguments: argparse.Namespace) -> bool:
    """Refuse, before the run, what cannot be written; return whether anything is wanted."""
    if not arguments.export:
        return False
    from labkit.trace.exchange import check_export

    for path in arguments.export:
        check_export(path)
    if len({*arguments.export}) < len(arguments.export):
        raise DataError("--export names a file twice")
    return True


def write_exports(arguments: argparse.Namespace, run: Run) -> list[str]:
    """Write all; return the files."""
    return [str(file) for path in arguments.export for file in run.export(path)]
