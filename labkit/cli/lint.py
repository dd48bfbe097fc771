"""``labkit lint study.study``: the twelve rules for reporting performance, checked on measurements."""

from __future__ import annotations

import argparse
import json

__all__ = ["configure", "execute"]

_DESCRIPTION = """\
Check measurements against the twelve rules for reporting performance of parallel computers (T. Hoefler and
R. Belli, SC 2015): which is met, which is violated, which is unknown from the file, and what to do.

The file is one that labkit judge takes; only a saved study records how it was measured.
"""
_EPILOG = """\
exit code: 0 no rule is violated; 1 some rule is; 3 bad input

examples:
  labkit lint sort.study
  labkit lint sort.study --methods
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit lint``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    add = parser.add_argument
    add("data", help="the file with the measurements")
    add("--param", action="append", metavar="NAME", help="which parameter was varied (CSV: repeat for more)")
    add(
        "--methods",
        action="store_true",
        help="print a paragraph for a paper on how it was measured, and nothing else",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Check, print, and return the exit code.

    Raises LabkitError: For input that cannot be used: exit code 3.
    """
    from labkit.study import Study
    from labkit.study.formats.reader import read_data

    study = Study(*read_data(arguments.data, arguments.param))
    report = study.rules()
    code = 1 if report.of("violated") else 0
    if arguments.json:
        print(json.dumps({**report.to_dict(), "methods": study.methods(), "exit": code}, ensure_ascii=False))
    elif arguments.methods:
        print(study.methods())
        return 0
    else:
        print(report)
    return code
