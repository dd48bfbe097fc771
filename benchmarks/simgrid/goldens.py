"""Measures SimGrid once and writes the goldens.

``python benchmarks/simgrid/goldens.py [PART_OF_A_NAME ...]``; without arguments all of them, with
``--missing`` those that are not stored yet. ``--list`` measures nothing and writes the list of all cases;
``--random`` measures some of compare.py's random programs (`RANDOM`).

Needs smpirun and smpicc of SimGrid 3.32 (Debian: libsimgrid-dev). Regenerating needs a reason in the commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import driver
import golden_files
from all_cases import all_cases
from compare import algorithms_of
from random_cases import START_NS, random_case

LIST = golden_files.FOLDER.with_name("simgrid_cases.md")
#: kind of program -> seeds
RANDOM = {
    "windows": (101, 123, 2004),
    "wildcards": (102, 119, 2010),
    "collectives": (106, 112, 113, 121, 136, 1177, 1252, 1392),
    "mix": (103, 120),
}


def regenerate(wanted: list[str]) -> None:
    stored = golden_files.every_golden()
    with tempfile.TemporaryDirectory() as folder:
        for case in all_cases():
            if wanted == ["--missing"] and case.name in stored:
                continue
            if wanted and wanted != ["--missing"] and not any(word in case.name for word in wanted):
                continue
            got = driver.run(
                case.program, case.ranks, case.platform, case.network_model, Path(folder), case.simgrid
            )
            golden_files.write({
                "name": case.name, "simgrid": driver.version(), "command": got.command.replace(folder, "."),
                "platform_xml": got.xml, "ranks": case.ranks, "spec": case.spec, "model": case.model,
                "options": case.options, "program": case.program, "marks_s": got.marks,
            })  # fmt: skip
            print(f"{case.name}: {sum(map(len, got.marks))} marks, {got.host_seconds:.1f} s", flush=True)


def write_random() -> None:
    """Random programs with the machine as a file and every rank's host."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for kind, seeds in RANDOM.items():
            for case in (random_case(seed, kind) for seed in seeds):
                got = driver.run(
                    case.program, case.ranks, case.platform, case.network_model, Path(folder), case.simgrid
                )
                rows.append({
                    "name": case.name, "command": got.command.replace(folder, "."), "platform_xml": got.xml,
                    "hosts": case.platform.rank_hosts(case.ranks).tolist(), "model": case.model,
                    "options": case.options, "algorithms": algorithms_of(case.program),
                    "program": case.program, "marks_s": got.marks,
                })  # fmt: skip
    text = json.dumps({"simgrid": driver.version(), "start_s": START_NS * 1e-9, "runs": rows}, indent=0)
    LIST.with_name("simgrid_random.json").write_text(text + "\n")
    print(f"{len(rows)} random programs")


def write_list() -> None:
    """A row per golden: what it is, and which update of SimGrid's it was measured with."""
    rows = [
        "# Predictions compared with SimGrid 3.32",
        "",
        "Every one agrees within 1e-6 relative at every mark of every rank (`test_simgrid_p2p.py`,",
        "`test_simgrid_schedules.py`). Written by `benchmarks/simgrid/goldens.py --list`. Where SimGrid's",
        "settings are not its defaults, `benchmarks/simgrid/README.md` says why.",
        "",
        "| case | ranks | machine | model | cross-traffic | SimGrid's settings |",
        "|---|---|---|---|---|---|",
    ]
    for case in sorted(all_cases(), key=lambda case: case.name):
        has_cross = "yes" if case.network_model.cross_traffic else "no"
        settings = ", ".join(case.simgrid) or "default"
        rows.append(
            f"| {case.name} | {case.ranks} | `{case.spec}` | {case.model} | {has_cross} | {settings} |"
        )
    LIST.write_text("\n".join(rows) + "\n")
    print(f"{len(rows) - 8} cases in {LIST.name}")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        write_list()
    elif sys.argv[1:] == ["--random"]:
        write_random()
    else:
        regenerate(sys.argv[1:])
