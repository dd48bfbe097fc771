"""``labkit doctor``: what works here, and how to mend what does not."""

from __future__ import annotations

import argparse
import json

from labkit.cli.doctor_checks import CHECKS, Finding, examine

__all__ = ["configure", "execute"]

_MARKS = {"ok": "ok", "missing": "--", "broken": "!!"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit doctor``."""
    parser.add_argument("--json", action="store_true", help="print one JSON object and nothing else")
    parser.add_argument(
        "--limit", type=float, default=30.0, metavar="SECONDS", help="limit of each trial run (default 30)"
    )


def execute(arguments: argparse.Namespace) -> int:
    """Run every check; 1 when something is broken, 0 when at most optional parts are missing."""
    findings: list[Finding] = []
    for name, check in CHECKS.items():
        finding = examine(name, check, arguments.limit)
        findings.append(finding)
        if not arguments.json:
            print(_line(finding), flush=True)  # one by one: a trial run may take a while
    code = 1 if any(finding.status == "broken" for finding in findings) else 0
    if arguments.json:
        print(
            json.dumps({"exit": code, "ok": code == 0, "checks": [finding.record() for finding in findings]})
        )
        return code
    verdict = "something is broken" if code else "everything needed works"
    missing = [finding.name for finding in findings if finding.status == "missing"]
    print(verdict + (f"; not installed: {', '.join(missing)}" if missing else ""))
    return code


def _line(finding: Finding) -> str:
    line = f"{_MARKS[finding.status]}  {finding.name:<14} {finding.found}"
    return line + (f"\n    {'':<14} mend: {finding.mend}" if finding.mend else "")
