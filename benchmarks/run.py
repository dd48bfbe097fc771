"""Run every benchmark of this folder and print what each prints (`make bench`).

A benchmark is a file with a `main()`; one that needs a peer which is not installed says so in one line
and goes on. Wall-clock figures are kept here and never gate a test.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="files to run without .py (default: all)")
    chosen = parser.parse_args().names
    files = [p for p in sorted(HERE.rglob("*.py")) if "def main(" in p.read_text() and p != Path(__file__)]
    if chosen:
        files = [p for p in files if p.stem in chosen]
    failed = []
    for path in files:
        print(f"\n=== {path.relative_to(HERE)}", flush=True)
        begin = time.perf_counter()
        if subprocess.run([sys.executable, str(path)], check=False).returncode:
            failed.append(path.name)
        print(f"--- {time.perf_counter() - begin:.1f} s", flush=True)
    if failed:
        print(f"failed: {', '.join(failed)}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
