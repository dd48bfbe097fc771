"""Run mpi4py's own tests on simulated and on real ranks, and write docs/conformance.md.

    python -m tests.conformance.run                       all files, p = 1, 2, 3, 4, 5, 7, both machines;
                                                          those of p2p and cco with p = 64, too,
                                                          buffers with a sample of types, roots, counts
    python -m tests.conformance.run --ranks 2 --files pack --machines simulated
    python -m tests.conformance.run --only-table          the table of what has been run

The suite is that of mpi4py's source distribution, fetched once by pip into build/conformance; each file is
run as ``labkit run -n P --on star:P test/main.py -v -i FILE``. Results and what was printed are kept
there, too: what has been run is not run again, unless asked for with --again. Simulated runs come first:
they are cheap. Each outcome is in the table at once, so that an interruption loses none; what has not been
run here stays there as it is. Several of these may run at a time, each with other files or ranks.
"""

from __future__ import annotations

import argparse
import ast
import fcntl
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from tests.conformance.outcome import Outcome
from tests.conformance.sampled import MANY, is_sampled, sampled_suite
from tests.conformance.table import table

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "conformance"
VERSION = "4.1.2"
RANKS = (1, 2, 3, 4, 5, 7, 64)
#: on more than MANY ranks only these files are run: messages and collectives
OF_MANY = r"_(p2p|cco)_"
DOCUMENT = ROOT / "docs" / "conformance.md"
MACHINES = ("simulated", "real")
#: host seconds for a file
LIMIT_S = 600
_BIN = Path(sys.executable).parent
#: ranks that wait give way to those that have no core of their own
_PATIENT = {"OMPI_MCA_mpi_yield_when_idle": "1"}


def suite() -> Path:
    """Return the folder of the tests, fetched where it is missing."""
    folder = BUILD / f"mpi4py-{VERSION}"
    if not folder.is_dir():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-binary", "mpi4py", "--no-deps"]
        subprocess.run([*command, "-d", str(BUILD), f"mpi4py=={VERSION}"], check=True)
        with tarfile.open(BUILD / f"mpi4py-{VERSION}.tar.gz") as archive:
            archive.extractall(BUILD, filter="data")
    return folder / "test"


def run(
    machine: str,
    ranks: int,
    name: str,
    tests: Path,
    arguments: tuple[str, ...] = ("-v",),
    limit: int = LIMIT_S,
    part: str = "",
) -> Outcome:
    """Run one file of the suite, or one class of it, for at most ``limit`` host seconds."""
    if machine == "simulated":
        head = [
            str(_BIN / "labkit"),
            "run",
            "-n",
            str(ranks),
            "--on",
            f"star:{ranks}",
            "--timeout",
            str(limit),
        ]
    else:
        head = [
            str(_BIN / "mpiexec"),
            "-n",
            str(ranks),
            "--oversubscribe",
            "--allow-run-as-root",
            "--timeout",
            str(limit),
            sys.executable,
        ]
    command = [*head, str(tests / "main.py"), *arguments, "-i", rf"^{name}\.py$"]
    command += ["-k", f"{name}.{part}."] if part else []
    with tempfile.TemporaryFile("w+", errors="replace") as printed:
        ended = ""
        try:
            done = subprocess.run(
                command, stdout=printed, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                timeout=limit + 30, cwd=tests, check=False, env={**os.environ, **_PATIENT},
            )  # fmt: skip
            ended = f"exit code {done.returncode}"
        except subprocess.TimeoutExpired:
            ended = f"not over after {limit} s"
        printed.seek(0)
        text = printed.read()
    (BUILD / "printed").mkdir(exist_ok=True)
    (BUILD / "printed" / f"{machine}.{ranks}.{name}{part and '.' + part}.txt").write_text(text)
    said = re.findall(r"^labkit run: (.*)$", text, re.MULTILINE)
    return Outcome.read(text, ranks, said[-1][:200] if said else ended)


def keep(outcomes: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    """Add outcomes to those that are kept, and to the table; return all, those of others who run now, too."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / "results.json", "a+") as kept:
        fcntl.flock(kept, fcntl.LOCK_EX)
        kept.seek(0)
        known: dict[str, dict[str, object]] = json.loads(kept.read() or "{}") | outcomes
        if outcomes:
            kept.truncate(0)
            kept.write(json.dumps(known, indent=0, sort_keys=True))
        whole = {key: value for key, value in known.items() if "." not in key}
        read = {tuple(key.split(" ")): Outcome(**value) for key, value in whole.items()}  # type: ignore[arg-type]
        old = DOCUMENT.read_text() if DOCUMENT.exists() else ""
        DOCUMENT.write_text(table(read, VERSION, old))
    return known


def parts_of(file: Path) -> list[str]:
    """Return the classes of tests in a file of the suite."""
    nodes = ast.parse(file.read_text()).body
    return sorted(one.name for one in nodes if isinstance(one, ast.ClassDef) and one.name.startswith("Test"))


def planned(names: list[str], ranks: list[int], machines: list[str]) -> list[tuple[str, int, str]]:
    """Return what is to be run: the cheap machine first, then few ranks before many."""
    return [
        (machine, p, name)
        for machine in sorted(machines, key=MACHINES.index)
        for p in sorted(ranks)
        for name in names
        if p <= MANY or re.search(OF_MANY, name)
    ]


def main() -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, nargs="+", default=list(RANKS))
    parser.add_argument("--machines", nargs="+", choices=MACHINES, default=list(MACHINES))
    parser.add_argument("--files", default="", help="a regular expression")
    parser.add_argument("--again", action="store_true", help="also what has been run")
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="host seconds for a file")
    given = parser.parse_args()
    tests = suite()
    results = keep({})
    names = [path.stem for path in sorted(tests.glob("test_*.py")) if re.search(given.files, path.stem)]
    for machine, ranks, name in [] if given.only_table else planned(names, given.ranks, given.machines):
        key = f"{machine} {ranks} {name}"
        if key in results and not given.again:
            continue
        began = time.monotonic()
        parts = []
        folder = sampled_suite(tests) if is_sampled(ranks, name) else tests
        for part in parts_of(tests / f"{name}.py") if ranks > MANY else [""]:
            own = f"{key}.{part}" if part else key
            if own not in results or given.again:
                results = keep(
                    {own: run(machine, ranks, name, folder, limit=given.limit, part=part).as_dict()}
                )
            parts.append(Outcome(**results[own]))  # type: ignore[arg-type]
        outcome = Outcome.of_parts(parts)
        if ranks > MANY:
            results = keep({key: outcome.as_dict()})
        mark = "ok" if outcome.is_whole else outcome.end or f"{len(outcome.failed)} failed"
        print(f"{key}: {outcome.passed} passed, {mark} ({time.monotonic() - began:.0f} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
