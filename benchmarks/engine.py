"""The engine driven from C++: nanoseconds per message, end to end (post, match, flow, completion).

Builds kernels/bench/engine_bench.cpp with CMake into build/bench and runs it. The figures are CPU time of this
machine; the makespans on the same lines must never change.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"


def tool(name: str) -> str | None:
    """The program beside this Python (it comes as a wheel), else the system's."""
    beside = Path(sys.executable).parent / name
    return str(beside) if beside.exists() else shutil.which(name)


def main() -> int:
    cmake = tool("cmake")
    if cmake is None:
        print("engine: cmake is not installed (it comes with the extra `dev`); skipped")
        return 0
    configure = [cmake, "-S", str(ROOT / "kernels"), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release", "-DLABKIT_TESTS=ON"]
    ninja = tool("ninja")
    if ninja is not None:
        configure += ["-G", "Ninja", f"-DCMAKE_MAKE_PROGRAM={ninja}"]
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", str(BUILD), "--target", "engine_bench"], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([str(BUILD / "engine_bench"), *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
