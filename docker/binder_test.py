#!/usr/bin/env python3
"""``make binder-test``: a Binder session rehearsed: 2 GB of memory, 1 core, no network, binder/start."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys

from engine import EngineError, find_engine
from image import build
from trial import FIRST, Container, Findings, container, ends_on_signals

TAG = "localhost/labkit:binder"
LIMITS = ["--memory=2g", "--memory-swap=2g", "--cpus=1", "--network=none"]
MOST_S = 60.0
#: what JupyterHub starts there listens likewise
COMMAND = ["jupyter", "lab", "--ip=0.0.0.0", "--no-browser"]
HEALTH = (
    "import urllib.request as u, sys; "
    "sys.exit(u.urlopen('http://127.0.0.1:8888/api', timeout=3).status != 200)"
)
CORES = "from labkit.real.context import available_cores; print(available_cores())"
#: what a student meets there
LIMITED = """\
import json, zipfile
import labkit as lk

def program(comm):
    return comm.allreduce(comm.rank)

found = {"four": lk.run(program, 4, "mpi").results}
try:
    lk.run(program, 5, "mpi")
except lk.errors.MachineError as error:
    found["five"] = str(error)
study = lk.sweep(program, ranks=[1, 2, 3, 4], on="mpi", progress=False)
found["verdict"] = repr(study.expect("log p"))
simulated = lk.sweep(program, ranks=[4, 16, 64, 256, 1024], on="star", progress=False)
found["simulated"] = simulated.expect("log p").match
with open("mine.txt", "w") as file:
    file.write("my own work")
found["saved"] = zipfile.ZipFile(lk.save_work().path).namelist()
print(json.dumps(found))
"""


def main() -> int:
    """Build unless told not to, try, remove."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default=TAG)
    parser.add_argument("--no-build", action="store_true", help="use the image as it is")
    arguments = parser.parse_args()
    ends_on_signals()
    try:
        engine = find_engine()
        if not arguments.no_build:
            build(engine, "docker/Dockerfile.binder", arguments.tag)
        found = Findings(f"a Binder session rehearsed, by {engine.name}; {' '.join(LIMITS)}")
        token = secrets.token_hex(16)
        options = [*LIMITS, f"--env=JUPYTER_TOKEN={token}"]
        with container(engine, arguments.tag, COMMAND, options) as session:
            started = session.wait_healthy(120, "python", "-c", HEALTH)
            found.check(
                True, "JupyterLab's server answers", f"{started:.1f} s after the start of the container"
            )
            cores = session.ask("python", "-c", CORES)
            found.check(cores.strip() == "1", "one core", cores.strip())
            for name in FIRST:
                try_notebook(session, name, token, started, found)
            try_limits(session, token, found)
            peak = session.peak_mib()
            found.check(peak < 2048, "most memory used at once", f"{peak:.0f} MiB of 2048")
        return found.end()
    except EngineError as error:
        print(f"docker/binder_test.py: {error}", file=sys.stderr)
        return 1


def try_notebook(session: Container, name: str, token: str, started: float, found: Findings) -> None:
    """Run a notebook in a new session: from the click to its last cell."""
    before = session.cpu_s()
    report = session.python("notebook.py", name, token, timeout_s=600)
    used = session.cpu_s() - before
    found.check(not report["errors"], f"{name} runs", "; ".join(report["errors"])[-1500:])
    found.check(
        report["seconds"] < MOST_S, f"in less than {MOST_S:.0f} s",
        f"{report['seconds']} s for {report['cells']} cells, the first after {report['first_cell_s']} s; "
        f"{used:.1f} s of CPU (load of this host {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores); "
        f"with the server's start {report['seconds'] + started:.1f} s",
    )  # fmt: skip


def try_limits(session: Container, token: str, found: Findings) -> None:
    """Meet the limits of the place."""
    report = session.notebook("notebooks/limits.ipynb", LIMITED, token)
    if report["errors"]:
        found.check(False, "a session of one's own", report["errors"][0][-1500:])
        return
    seen = json.loads(report["printed"].strip().splitlines()[-1])
    found.check(seen["four"] == [6] * 4, "4 ranks of real MPI run")
    found.check("at most 4" in seen.get("five", ""), "5 are refused", seen.get("five", "they ran"))
    undecided = "Undecided" in seen["verdict"] and "Binder" in seen["verdict"]
    found.check(undecided, "wall-clock times are undecided", seen["verdict"].splitlines()[0])
    found.check(seen["simulated"] in ("exact", "approximate"), "simulated ones are judged", seen["simulated"])
    own = sorted(seen["saved"])
    found.check(own == ["limits.ipynb", "mine.txt"], "save_work packs what was made in the session", own)


if __name__ == "__main__":
    sys.exit(main())
