"""Fuzzing of the C++ under its sanitizers: `make fuzz` (FUZZ_SECONDS=60 each).

    python kernels/fuzz/run.py [SECONDS [TARGET ...]]

Each C++ file beside this one with an LLVMFuzzerTestOneInput is a target; its seeds are in seeds/, its words
in words/. With clang++ (Debian: apt install clang libclang-rt-dev; CLANGXX names another) libFuzzer drives
it, guided by the branches that an input takes, and build/fuzz/corpus keeps what it has learnt. Elsewhere the
target is built with the usual compiler and its seeds are mutated at random, always the same way. A finding is
written to build/fuzz and ends the run with an error; as a file in seeds/ it becomes a test (make cpp-test).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).parent
BUILD = HERE.parents[1] / "build" / "fuzz"
MEMORY_MB, HANG_S, LONGEST = 2000, 20, 8192
DRIVERS = ("mutator",)


def find_clang() -> str | None:
    """Find a clang++ that links libFuzzer; None if there is none."""
    asked = os.environ.get("CLANGXX")
    names = [asked] if asked else ["clang++", *(f"clang++-{version}" for version in range(30, 12, -1))]
    probe = 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n'
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "probe.cpp")
        source.write_text(probe)
        for name in filter(shutil.which, names):
            command = [
                name,
                "-fsanitize=fuzzer,address,undefined",
                str(source),
                "-o",
                str(Path(folder, "probe")),
            ]
            if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                return name
    return None


def build(clang: str | None) -> Path:
    """Build the targets; the folder they are in."""
    folder = BUILD / ("libfuzzer" if clang else "mutator")
    tools = Path(sys.executable).parent
    cmake = shutil.which("cmake", path=f"{tools}{os.pathsep}{os.environ.get('PATH', '')}")
    if cmake is None:
        raise SystemExit("fuzz: cmake is not installed (python -m pip install cmake ninja)")
    configure = [cmake, "-S", str(HERE.parent), "-B", str(folder), "-G", "Ninja", "-DLABKIT_FUZZ=ON",
                 "-DCMAKE_BUILD_TYPE=RelWithDebInfo"]  # fmt: skip
    if clang:
        configure.append(f"-DCMAKE_CXX_COMPILER={clang}")
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ.get('PATH', '')}"}
    subprocess.run(configure, check=True, stdout=subprocess.DEVNULL, env=environment)
    subprocess.run([cmake, "--build", str(folder)], check=True, env=environment)
    return folder


def command_of(target: str, folder: Path, seconds: int, has_libfuzzer: bool) -> list[str]:
    """Say how a target is run."""
    program, seeds = str(folder / f"fuzz_{target}"), HERE / "seeds" / target
    words = HERE / "words" / f"{target}.dict"
    if not has_libfuzzer:
        given = [words, *sorted(seeds.iterdir())] if words.exists() else sorted(seeds.iterdir())
        return [program, str(seconds), *map(str, given)]
    corpus = BUILD / "corpus" / target
    corpus.mkdir(parents=True, exist_ok=True)
    return [
        program, str(corpus), str(seeds), f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}",
        f"-timeout={HANG_S}", f"-max_len={LONGEST}", "-print_final_stats=1", "-verbosity=0",
        f"-artifact_prefix={BUILD}/{target}-", *([f"-dict={words}"] if words.exists() else []),
    ]  # fmt: skip


def main(seconds: int, wanted: list[str]) -> int:
    """Fuzz every target, or those named, for so long; 0 if nothing was found."""
    targets = sorted(path.stem for path in HERE.glob("*.cpp") if path.stem not in DRIVERS)
    if unknown := sorted(set(wanted) - set(targets)):
        raise SystemExit(f"fuzz: no such target: {', '.join(unknown)}; there are {', '.join(targets)}")
    clang = find_clang()
    if clang is None:
        print("fuzz: no clang++ with libFuzzer here (Debian: apt install clang libclang-rt-dev):")
        print("fuzz: the C++ targets are fed mutated seeds without looking at their branches")
    folder = build(clang)
    found = []
    for target in wanted or targets:
        print(f"fuzz: {target}, {seconds} s, {clang or 'mutator'}", flush=True)
        command = command_of(target, folder, seconds, clang is not None)
        environment = {**os.environ, "LABKIT_FUZZ_FINDING": str(BUILD / f"{target}-finding")}
        if subprocess.run(command, check=False, env=environment).returncode:
            found.append(target)
    if found:
        print(f"fuzz: findings in {', '.join(found)}; inputs in {BUILD}")
    return bool(found)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    sys.exit(main(int(arguments[0]) if arguments else 60, arguments[1:]))
