"""The engine driven from C++: nanoseconds per message, end to end (post, match, flow, completion).

Builds kernels/bench/engine_bench.cpp with CMake into build/bench and runs it. The figures are CPU time of
this machine; the makespans on the same lines must never change.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"


def main() -> int:
    if importlib.util.find_spec("cmake") is None:
        print("engine: cmake's wheel is not installed (it comes with the extra `dev`); skipped")
        return 0
    # The wheel's module finds its own program; a system's cmake may be too old.
    cmake = [sys.executable, "-m", "cmake"]
    configure = ["-S", str(ROOT / "kernels"), "-B", str(BUILD), "-DCMAKE_BUILD_TYPE=Release"]
    configure += ["-DLABKIT_TESTS=ON", "-DLABKIT_AS_SHIPPED=ON"]
    subprocess.run([*cmake, *configure], check=True, stdout=subprocess.DEVNULL)
    build = ["--build", str(BUILD), "--target", "engine_bench"]
    subprocess.run([*cmake, *build], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([str(BUILD / "engine_bench"), *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
