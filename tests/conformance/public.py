"""Run programs of public repositories simulated and on real MPI, and write docs/public-programs.md.

    python -m tests.conformance.public                      those of tests/conformance/public.toml, p = 4
    python -m tests.conformance.public --ranks 256 --chosen  the few that are run on many ranks, simulated
    python -m tests.conformance.public --only-table

The programs are nobody's here: the list holds where they stand, they themselves are cloned into
build/public (or linked there beforehand, as OWNER+NAME). Each runs unchanged in a copy of its repository and
without a network; what has been run is not run again, unless asked for with --again. The document is written
once every program of the list has been run here: until then the table stands in build/public/table.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.conformance.printed import first_difference, same
from tests.conformance.public_table import table

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "public"
LIST = Path(__file__).with_name("public.toml")
_BIN = Path(sys.executable).parent
#: host seconds for a program
LIMIT_S = 60


def programs() -> dict[str, dict[str, object]]:
    """Return the repositories: owner/name -> commit, programs."""
    return tomllib.loads(LIST.read_text())


def checkout(repository: str, commit: str) -> Path:
    """Return the folder of a repository, cloned where it is missing."""
    folder = BUILD / repository.replace("/", "+")
    if not folder.is_dir():
        subprocess.run(["git", "clone", "-q", f"https://github.com/{repository}", str(folder)], check=True)
        subprocess.run(["git", "-C", str(folder), "checkout", "-q", commit], check=True)
    return folder


def run(machine: str, ranks: int, folder: Path, program: str, limit: int) -> tuple[str, str, str]:
    """Run one program in a copy of its repository; return what it printed, its errors, and how it ended."""
    if machine == "simulated":
        star = f"star:1,cores={ranks}" if ranks <= 64 else f"star:{ranks}"
        head = ["labkit", "run", "-n", str(ranks), "--on", star, "--timeout", str(limit)]
    else:
        head = [
            "mpiexec",
            "-n",
            str(ranks),
            "--oversubscribe",
            "--allow-run-as-root",
            "--timeout",
            str(limit),
            sys.executable,
        ]
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(shutil.copytree(folder, Path(scratch) / "copy", symlinks=True))
        command = [str(_BIN / head[0]), *head[1:], Path(program).name]
        if os.geteuid() == 0 and shutil.which("unshare"):
            command = ["unshare", "-n", "sh", "-c", 'ip link set lo up; exec "$0" "$@"', *command]
        try:
            done = subprocess.run(
                command, capture_output=True, stdin=subprocess.DEVNULL, cwd=copy / Path(program).parent,
                timeout=limit + 20, check=False, env={**os.environ, "MPLBACKEND": "Agg"},
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return "", "", f"not over after {limit} s"
    ended = "" if done.returncode == 0 else f"exit code {done.returncode}"
    return done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"), ended


#: names of the one host: that of the simulated machine, and this one
HOSTS = ("host-0", platform.node())


def seen(ranks: int, folder: Path, program: str, limit: int) -> str:
    """Run a program on both machines and return what was seen."""
    real, complaint, ended = run("real", ranks, folder, program, limit)
    printed, errors, end = run("simulated", ranks, folder, program, limit)
    said = re.findall(r"^labkit run: (.*)$", errors, re.MULTILINE)
    told = f"{end}: {said[-1][:160]}" if end and said else end
    if ended:
        return f"real MPI does not run it ({ended}{_error(complaint)}); simulated: {told or 'runs'}"
    if end:
        return f"fails simulated: {told}"
    if same(real, printed, HOSTS):
        return "same"
    for _ in range(12):  # chance may repeat itself
        again, _, _ = run("real", ranks, folder, program, limit)
        if not same(real, again, HOSTS):
            return "differs from run to run on real MPI: " + first_difference(real, again, HOSTS)
    return "differs: " + first_difference(real, printed, HOSTS)


def _error(text: str) -> str:
    kinds = re.findall(r"^(\w+(?:Error|Exception)\b.*)$", text, re.MULTILINE)
    return f": {kinds[0][:80]}" if kinds else ""


def on_many(ranks: int, folder: Path, program: str, limit: int) -> str:
    """Run a program simulated on many ranks, and return how it ended."""
    printed, errors, end = run("simulated", ranks, folder, program, limit)
    said = re.findall(r"^labkit run: (.*)$", errors, re.MULTILINE)
    if end:
        return f"fails: {end}: {said[-1][:160] if said else ''}"
    lines = printed.splitlines()
    return f"{len(lines)} lines, the last of them `{lines[-1][:60]}`" if lines else "prints nothing"


def main() -> int:
    """Run what is asked for, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--match", default="", help="a regular expression of REPOSITORY/PROGRAM")
    parser.add_argument("--chosen", action="store_true", help="only those for many ranks, only simulated")
    parser.add_argument("--again", action="store_true", help="also what has been run")
    parser.add_argument("--only-table", action="store_true")
    parser.add_argument("--limit", type=int, default=LIMIT_S, help="host seconds for a program")
    given = parser.parse_args()
    BUILD.mkdir(parents=True, exist_ok=True)
    kept = BUILD / "results.json"
    results: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    for repository, entry in programs().items():
        names = entry["many" if given.chosen else "programs"] if not given.chosen or "many" in entry else []
        for name in names:  # type: ignore[attr-defined]
            key = f"{given.ranks} {repository} {name}"
            wanted = re.search(given.match, f"{repository}/{name}") and not given.only_table
            if not wanted or (key in results and not given.again):
                continue
            how = on_many if given.chosen else seen
            results[key] = how(given.ranks, checkout(repository, str(entry["commit"])), name, given.limit)
            kept.write_text(json.dumps(results, indent=0, sort_keys=True))
            print(f"{key}: {results[key]}", flush=True)
    return written(results)


def written(results: dict[str, str]) -> int:
    """Write the table: into docs/ if it is whole; 0 then, else 1."""
    (BUILD / "table.md").write_text(table(programs(), results))
    keys = [f"4 {name} {program}" for name, entry in programs().items() for program in entry["programs"]]  # type: ignore[attr-defined]
    missing = sum(key not in results for key in keys)
    if missing:
        print(
            f"{missing} of {len(keys)} programs have not been run here on 4 ranks: {BUILD / 'table.md'} is "
            "written, docs/public-programs.md stays as it is"
        )
        return 1
    shutil.copyfile(BUILD / "table.md", ROOT / "docs" / "public-programs.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
