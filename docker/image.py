#!/usr/bin/env python3
"""The image: ``python3 docker/image.py build`` (``make image``), ``lock`` (``make lock``) or ``clean``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from engine import Engine, EngineError, find_engine

__all__ = ["ROOT", "TAG", "build"]

ROOT = Path(__file__).resolve().parents[1]
TAG = "localhost/labkit:test"
LOCK_TAG = "localhost/labkit:locks"


def build(engine: Engine, file: str, tag: str) -> None:
    """Build one of the project's Dockerfiles."""
    begin = time.monotonic()
    engine.build(ROOT, ROOT / file, tag)
    seconds, size = time.monotonic() - begin, engine.size_bytes(tag)
    print(f"{tag}: built by {engine.name} in {seconds:.0f} s, {size / 1e6:.0f} MB", flush=True)


def lock(engine: Engine) -> None:
    """Write the lock files anew: resolved inside the image, because its Python decides what fits."""
    engine.build(ROOT, ROOT / "docker/Dockerfile.lock", LOCK_TAG, ["--no-cache"])
    for name in ("requirements.lock", "build.lock"):
        command = engine.run_command(LOCK_TAG, ["cat", f"/locks/{name}"], ["--rm"])
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        (ROOT / "docker" / name).write_text(done.stdout)
        print(f"docker/{name}: {done.stdout.count('==')} packages")
    engine.call("rmi", LOCK_TAG)


def main() -> int:
    """Carry out one command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("command", choices=["build", "lock", "clean"])
    parser.add_argument("--file", default="docker/Dockerfile")
    parser.add_argument("--tag", default=TAG)
    arguments = parser.parse_args()
    try:
        engine = find_engine()
        if arguments.command == "clean":
            engine.clean()
        elif arguments.command == "lock":
            lock(engine)
        else:
            build(engine, arguments.file, arguments.tag)
    except EngineError as error:
        print(f"docker/image.py: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
