"""Python tests with the compiled module under AddressSanitizer and UndefinedBehaviorSanitizer.

``python kernels/tests/sanitized_python.py [--seconds 600] [PATH ...]``: builds the module with both into
build/sanitize, lays out a package with it beside the sources in build/sanitize-python, and runs a part
of the tests against that package. Python's own objects are checked, too (PYTHONMALLOC=malloc).

What has to be different from other programs: ranks are greenlets, whose stacks are copied out and in, so the
sanitizer's marks on a stack belong to whatever was there before: frames are compiled without them
(asan-stack=0; instead the library's assertions look at arrays, and `make fuzz` at frames), and what code that
is not compiled so copies is not looked at (replace_intrin=0). Leaks are Python's own way to end, and are not
counted.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "sanitize"  #: of the C++ tests, too: one engine for both
SITE = ROOT / "build" / "sanitize-python"
FOLDERS = {"labkit": "labkit", "algorithms": "labkit/algorithms", "datasets": "labkit/datasets"}
#: tests that call much of the bindings in little time; none that weigh memory: the checks keep what is freed
TESTS = (
    "tests/unit/comm", "tests/unit/sim", "tests/unit/machines",
    "tests/unit/trace/test_goal.py", "tests/unit/local/test_kernels.py",
    *(f"tests/property/test_{name}.py" for name in ("trace_readers", "schedule_properties", "recovery")),
)  # fmt: skip
#: real MPI is another project's C
LEFT_OUT = "not mpi and not slow"
#: reads a number behind an array's end: the checks must say so, else they check nothing
PLANTED = (
    "import numpy as np; from labkit import _kernels; "
    "keys = np.lib.stride_tricks.as_strided(np.zeros(100, np.int64), shape=(101,), strides=(8,)); "
    "_kernels.count_digits(keys, 0, 8, np.empty(256, np.int64))"
)
#: an editable install would put the module without checks before this one
STARTER = (
    "import sys; sys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]; "
    "import labkit._kernels as k; assert 'sanitize-python' in k.__file__, k.__file__; "
)
PYTEST = "import pytest; sys.exit(pytest.main(sys.argv[1:]))"


def build() -> Path:
    """Build the module; its path."""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    configure = ["cmake", "--preset", "sanitize", f"-DPython_EXECUTABLE={sys.executable}"]
    subprocess.run(configure, cwd=ROOT / "kernels", check=True, stdout=subprocess.DEVNULL, env=environment)
    subprocess.run(["cmake", "--build", str(BUILD), "--target", "_kernels"], check=True, env=environment)
    return next(BUILD.glob("_kernels*" + (sysconfig.get_config_var("EXT_SUFFIX") or ".so")))


def lay_out(module: Path) -> None:
    """Make a package of links to the sources, with the module among them."""
    shutil.rmtree(SITE, ignore_errors=True)
    for folder, place in FOLDERS.items():
        for source in (ROOT / folder).rglob("*"):
            if source.is_file() and "__pycache__" not in source.parts:
                target = SITE / place / source.relative_to(ROOT / folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.symlink_to(source)
    (SITE / "labkit" / module.name).symlink_to(module)


def environment() -> dict[str, str]:
    """Return the environment of a Python that is not sanitized itself and loads a module that is."""
    libraries = [_library(name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")]
    return {
        **os.environ,
        "LD_PRELOAD": ":".join(libraries),
        "PYTHONPATH": str(SITE),
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0:replace_intrin=0:use_sigaltstack=0:"
        "handle_segv=1:allocator_may_return_null=1:quarantine_size_mb=64",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    }


def _library(name: str) -> str:
    compiler = os.environ.get("CXX", "g++")
    asked = subprocess.run([compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    path = asked.stdout.strip()
    if not os.path.isabs(path):
        sys.exit(f"{compiler} has no {name}: install the compiler's sanitizers")
    return os.path.realpath(path)


def main() -> int:
    """Build, run, and say how it ended."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seconds", type=float, default=1500.0, help="limit of the tests' time")
    parser.add_argument("tests", nargs="*", default=list(TESTS))
    arguments, more = parser.parse_known_args()
    lay_out(build())
    # -P: the folder of the sources, which have no module, is not searched
    python = [sys.executable, "-P", "-c"]
    planted = subprocess.run(
        [*python, STARTER + PLANTED], cwd=ROOT, env=environment(), capture_output=True, text=True, check=False
    )
    if "heap-buffer-overflow" not in planted.stderr:
        print(f"the sanitizers do not find a planted error:\n{planted.stderr}")
        return 1
    command = [
        *python, STARTER + PYTEST, "-n", "0", "-q", "-x", "-p", "no:cacheprovider", "-m", LEFT_OUT,
        *more, *arguments.tests,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, cwd=ROOT, env=environment(), timeout=arguments.seconds, check=False)
        return done.returncode
    except subprocess.TimeoutExpired:
        print(f"the tests took more than {arguments.seconds:g} s under the sanitizers")
        return 1


if __name__ == "__main__":
    sys.exit(main())
