"""Measures SimGrid once and writes the goldens.

``python benchmarks/simgrid/goldens.py [PART_OF_A_NAME ...]``; without arguments all of them.

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


def regenerate(wanted: list[str]) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for case in all_cases():
            if wanted and not any(word in case.name for word in wanted):
                continue
            got = driver.run(
                case.program, case.ranks, case.platform, case.network_model, Path(folder), case.simgrid
            )
            path = GOLDEN / f"{case.name}.json"
            text = json.dumps({
                "name": case.name, "simgrid": driver.version(), "command": got.command.replace(folder, "."),
                "platform_xml": got.xml, "ranks": case.ranks, "spec": case.spec, "model": case.model,
                "options": case.options, "program": case.program, "marks_s": None,
            }, indent=1)  # fmt: skip
            path.write_text(text.replace('"marks_s": null', f'"marks_s": {json.dumps(got.marks)}') + "\n")
            print(f"{case.name}: {sum(map(len, got.marks))} marks, {got.host_seconds:.1f} s", flush=True)


if __name__ == "__main__":
    regenerate(sys.argv[1:])
