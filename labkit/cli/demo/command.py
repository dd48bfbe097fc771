"""``labkit demo``: sort real data on both machines, fit, judge, draw demo.html."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from labkit.errors import DataError

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit demo``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object; progress goes to stderr")
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_const", dest="extent", const="quick", default="full",
        help="fewer ranks and columns")  # fmt: skip
    extent.add_argument("--large", action="store_const", dest="extent", const="large",
        help="every phase judged up to 1024 simulated ranks instead of 256: about ten minutes")  # fmt: skip
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("demo.html"),
        metavar="FILE",
        help="the page to write (default demo.html)",
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run the demo and write its page; return 0, or 1 if a sort is wrong, or 3 without MPI."""
    from labkit.cli.demo.job import run_demo
    from labkit.cli.demo.page import write_page

    _require_writable(arguments.out)

    def say(line: str) -> None:
        print(line, file=sys.stderr if arguments.json else sys.stdout, flush=True)

    demo = run_demo(arguments.extent, say)
    try:
        page = write_page(demo, arguments.out)
    except OSError as error:  # a disk that has filled up meanwhile
        raise DataError(
            f"{arguments.out} cannot be written: {error.strerror or error}; free some space, or choose "
            "another --out"
        ) from error
    say(f"Figures and tables: {page} ({demo.seconds:.0f} s in all)")
    if arguments.json:
        print(json.dumps(demo.to_dict() | {"page": str(page)}))
    return demo.exit_code


def _require_writable(path: Path) -> None:
    """Refuse a place that cannot be written before a minute of work, not after it."""
    is_new = not path.exists()
    try:
        with path.open("a", encoding="utf-8"):
            pass
    except OSError as error:
        raise DataError(
            f"{path} cannot be written: {error.strerror or error}; choose another --out"
        ) from error
    if is_new:
        path.unlink()
