"""``labkit reproduce NAME``: compute published tables again, and compare cell by cell."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from labkit.cli.judge import refuse_with
from labkit.errors import DataError, nearest

if TYPE_CHECKING:
    from labkit.study.declared import DeclaredWork
    from labkit.study.reproduction import Paper, Reproduction

__all__ = ["configure", "execute"]

BAD_INPUT = 3
_FOLDER = "studies"

_DESCRIPTION = """\
Compute published tables again on simulated machines, and compare the verdicts cell by cell. Each study is a
folder of the checkout's studies/ with declared studies (see labkit study --help), a README and recorded
results. Only points that are missing are run, and each is on disk before the next one begins: if it is
killed, the same command continues. Cells that come out differently are followed by experiments on the cause.

Papers of which single figures are compared are sets of commands, listed in studies/papers.toml: each is run,
with its CPU time and its peak memory.
"""
_EPILOG = """\
The table: the paper's model and match symbol, those of the paper's method on the values computed here (where
the study declares it), those of labkit's verdict, and whether the symbols are the same, close (exact against
approximate, or approximate against none) or different, by the paper's method where there is one. Where the
phases of a run were measured, its growth is that of the sum of the phases' models, as in the paper; "whole
fit" is a fit of the whole time.

exit code: 0 the table is complete (with any verdicts); 2 points are missing because they failed; 3 bad input;
130 interrupted

examples:
  labkit reproduce                              # list the studies
  labkit reproduce sorting --on lichtenberg
  labkit reproduce mpi --quick                  # one to two minutes
  labkit reproduce mafia --recorded             # the table of the recorded values; nothing is run
  labkit reproduce hoefler --quick              # the figures of a paper, printed by commands
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit reproduce``."""
    parser.description, parser.epilog = _DESCRIPTION, _EPILOG
    refuse_with(parser, BAD_INPUT)
    add = parser.add_argument
    add("name", nargs="?", help="the study; without one, all are listed")
    add("--on", metavar="MACHINE", help="only this machine of the study (default: all)")
    add("--quick", action="store_true", help="leave out what takes long, and the experiments on causes")
    add("--recorded", action="store_true", help="run nothing: use the values recorded with the study")
    add(
        "--record",
        action="store_true",
        help="write values, table and provenance into the study's record; with --recorded, only the table",
    )
    add("--jobs", type=int, metavar="N", help="simulate on N processes of this host")
    add("--results", metavar="FOLDER", help="the folder of results (default: NAME.reproduced)")
    add("--studies", metavar="FOLDER", help="the folder of studies (default: the checkout's)")
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Do what the command line asks for, and return the exit code.

    Raises LabkitError: For what cannot be run or written: exit code 3.
    """
    from labkit.study.reproduction import read_papers, read_reproduction, table_text

    place, folders = _folders(arguments.studies)
    papers = read_papers(place)
    if arguments.name is None:
        for name, folder in folders.items():
            one = read_reproduction(folder)
            print(f"{name:10}  {one.title}; on {', '.join(machine.name for machine in one.machines)}")
        for name, paper in papers.items():
            print(f"{name:10}  {paper.title}; by commands")
        return 0
    if arguments.name in papers:
        return _run_commands(papers[arguments.name], place.parent, arguments)
    if arguments.name not in folders:
        names = [*folders, *papers]
        meant = nearest(arguments.name, names, 1, 0.5)
        raise DataError(
            f"no study is called {arguments.name!r}{meant}; there are: {', '.join(names)}",
            code="unknown-name",
        )
    reproduction = read_reproduction(folders[arguments.name])
    machines = reproduction.chosen(arguments.on)
    if arguments.record and (arguments.quick or arguments.on):
        raise DataError("--record needs all values: leave out --quick and --on", code="conflicting-options")
    works: dict[str, DeclaredWork] = {}
    if arguments.recorded:
        studies = reproduction.recorded()
    else:
        works = _run(reproduction, reproduction.files(machines, arguments.quick), arguments)
        studies = {file: work.study() for file, work in works.items() if work.results.points}
    cells = reproduction.compare(machines, studies)
    failures = [one for work in works.values() for one in work.failures]
    efforts = {file: work.effort for file, work in works.items()}
    if arguments.json:
        record = {"cells": [asdict(cell) for cell in cells], "failures": failures, "effort": efforts}
        print(json.dumps(record, ensure_ascii=False, default=str))
    else:
        print(table_text(cells), end="")
        for failure in failures:
            print(f"! failed at {failure['point']}: {failure['error']}")
    if arguments.record and not failures:
        print(f"labkit reproduce: {reproduction.record(cells, works)}", file=sys.stderr)
    if any(work.remarks for work in works.values()):
        return 130
    return 2 if failures else 0


def _run(
    reproduction: Reproduction, files: list[str], arguments: argparse.Namespace
) -> dict[str, DeclaredWork]:
    """Run what is missing of these declared studies."""
    results = Path(arguments.results or f"{reproduction.name}.reproduced")
    works = {file: reproduction.work(file, results, arguments.jobs) for file in files}
    for number, (file, work) in enumerate(works.items(), 1):
        if not arguments.json:
            to_do = f"{len(work.missing)} of {len(work.planned.plan)} points to run"
            print(f"labkit reproduce: {file} ({number} of {len(works)}): {to_do}", file=sys.stderr)
        work.run(False if arguments.json else None)
        if work.remarks:  # interrupted
            break
    return works


def _run_commands(paper: Paper, checkout: Path, arguments: argparse.Namespace) -> int:
    """Run a paper's commands one after another, and say what each took."""
    for option in ("on", "recorded", "record", "jobs", "results", "json"):
        if getattr(arguments, option):
            raise DataError(
                f"--{option} is for studies with declared points; {arguments.name} is a set of commands: "
                "leave it out, or use --quick",
                code="conflicting-options",
            )
    failed = 0
    for command in [*paper.commands, *(() if arguments.quick else paper.slow)]:
        print(f"$ python {command}", flush=True)
        child = subprocess.Popen([sys.executable, *command.split()], cwd=checkout)
        try:
            _, status, used = os.wait4(child.pid, 0)
        except KeyboardInterrupt:
            child.kill()
            child.wait()
            return 130
        child.returncode = code = os.waitstatus_to_exitcode(status)
        failed += code != 0
        end = f", exit code {code}" if code else ""
        seconds, peak = used.ru_utime + used.ru_stime, used.ru_maxrss / 1024
        print(f"  {seconds:.0f} CPU s, at most {peak:.0f} MiB a process{end}\n", flush=True)
    return 2 if failed else 0


def _folders(given: str | None) -> tuple[Path, dict[str, Path]]:
    """Return the folder of the studies, and theirs by name."""
    import labkit
    from labkit.study.reproduction import find_reproductions

    here = Path.cwd()
    checkout = Path(labkit.__file__).resolve().parents[1]
    places = [Path(given)] if given else [place / _FOLDER for place in (here, *here.parents, checkout)]
    for place in places:
        if found := find_reproductions(place):
            return place, found
    where = f"in {given!r}" if given else "here, in a folder above, or next to labkit"
    raise DataError(
        f"no study was found {where}; start in a checkout of labkit, or use --studies FOLDER",
        code="missing-file",
    )
