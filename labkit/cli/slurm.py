"""``labkit slurm``: the batch jobs that labkit has submitted: list them, collect or cancel them, tidy up."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from labkit.cli.run import record
from labkit.errors import LabkitError, MachineError
from labkit.result import Run

__all__ = ["configure", "execute"]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``labkit slurm``."""
    parser.usage = "labkit slurm [list | collect JOB... | cancel JOB... | clean] [--on SLURM] [--json]"
    add = parser.add_argument
    add(
        "action",
        nargs="?",
        default="list",
        choices=["list", "collect", "cancel", "clean"],
        help="list (default); collect: print the results; cancel; clean: remove the folders of jobs whose "
        "results were collected",
    )
    add("jobs", nargs="*", metavar="JOB", help="numbers as squeue shows them, or all")
    add(
        "--on",
        default="slurm",
        metavar="SLURM",
        help="profile or folder: slurm, slurm:PROFILE, or slurm,folder=/scratch/me/labkit",
    )
    add("--json", action="store_true", help="print one JSON object and nothing else")


def execute(arguments: argparse.Namespace) -> int:
    """Do it; 1 when a collected result is a failure."""
    from labkit.real.slurm.jobs import slurm_jobs

    known = slurm_jobs(arguments.on)
    if arguments.action == "list":
        rows = [dict(zip(known.HEAD, job.row(), strict=True)) | {"folder": str(job.folder)} for job in known]
        print(json.dumps({"exit": 0, "jobs": rows}) if arguments.json else repr(known))
        return 0
    chosen = _chosen(arguments, known)
    if arguments.action == "collect":
        return _collect(chosen, arguments.json)
    for job in chosen:
        job.cancel() if arguments.action == "cancel" else job.remove()
    numbers = [job.id for job in chosen]
    word = "cancelled" if arguments.action == "cancel" else "removed"
    print(json.dumps({"exit": 0, word: numbers}) if arguments.json else f"{word}: {' '.join(numbers) or '-'}")
    return 0


def _chosen(arguments: argparse.Namespace, known: Any) -> list[Any]:
    if arguments.action == "clean":
        if arguments.jobs:
            return [known[number] for number in arguments.jobs]
        return [job for job in known if job.is_over and job.is_collected]
    if not arguments.jobs:
        raise MachineError(
            f"labkit slurm {arguments.action} needs the numbers of jobs, or all", code="missing-key"
        )
    if arguments.jobs == ["all"]:
        return [job for job in known if arguments.action == "collect" or not job.is_over]
    return [known[number] for number in arguments.jobs]


def _collect(jobs: list[Any], is_json: bool) -> int:
    code, results = 0, []
    for job in jobs:
        for number, found in enumerate(job.collect()):
            if isinstance(found, Run):
                results.append({"job": job.id, "point": number, **record(found)})
                text = f"{found.printed()}labkit slurm: {found!r}"
            elif isinstance(found, LabkitError):
                code = 1
                failure = {"kind": type(found).__name__, "message": str(found)}
                results.append({"job": job.id, "point": number, "exit": 1, "error": failure})
                text = f"labkit slurm: job {job.id}: {found}"
            else:
                results.append({"job": job.id, "point": number, "exit": None})
                text = f"labkit slurm: job {job.id} is {job.state}; point {number} has not ended"
            if not is_json:
                print(text)
    if is_json:
        print(json.dumps({"exit": code, "results": results}))
    sys.stdout.flush()
    return code
