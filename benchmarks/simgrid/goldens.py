"""Measures SimGrid once and writes the goldens.

``python benchmarks/simgrid/goldens.py [PART_OF_A_NAME ...]``; without arguments all of them, with
``--missing`` those that have no file yet. ``--list`` measures nothing and writes the list of all cases.

Needs smpirun and smpicc of SimGrid 3.32 (Debian: libsimgrid-dev). Regenerating needs a reason in the commit.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import driver
from cases import all_cases

GOLDEN = Path(__file__).parents[2] / "tests" / "golden" / "simgrid"
LIST = GOLDEN.with_name("simgrid_cases.md")


def regenerate(wanted: list[str]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in all_cases():
            path = GOLDEN / f"{case.name}.json"
            if wanted == ["--missing"] and path.exists():
                continue
            if wanted and wanted != ["--missing"] and not any(word in case.name for word in wanted):
                continue
            got = driver.run(
                case.program, case.ranks, case.platform, case.network_model, Path(folder), case.simgrid
            )
            text = json.dumps({
                "name": case.name, "simgrid": driver.version(), "command": got.command.replace(folder, "."),
                "platform_xml": got.xml, "ranks": case.ranks, "spec": case.spec, "model": case.model,
                "options": case.options, "program": case.program, "marks_s": None,
            }, indent=1)  # fmt: skip
            path.write_text(text.replace('"marks_s": null', f'"marks_s": {json.dumps(got.marks)}') + "\n")
            print(f"{case.name}: {sum(map(len, got.marks))} marks, {got.host_seconds:.1f} s", flush=True)


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
    else:
        regenerate(sys.argv[1:])
