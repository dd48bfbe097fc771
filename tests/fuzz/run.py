"""Fuzzing of the readers, guided by coverage where atheris is installed: `make fuzz` (FUZZ_SECONDS=60 each).

    python tests/fuzz/run.py [SECONDS] [TARGET ...]

Without atheris a mutator of its own feeds them seeds changed at random. Each module beside this one with
SEEDS and check(bytes) is a target: whatever check raises is a finding. Its input is written to build/fuzz.
"""

from __future__ import annotations

import gc
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FunctionType, ModuleType

__all__ = ["main"]

HERE = Path(__file__).parent
FINDINGS = HERE.parents[1] / "build" / "fuzz"
MEMORY_MB, HANG_S, MOST_BYTES = 1500, 20, 8192


def main(seconds: int, names: list[str]) -> int:
    """Fuzz every target, or those named, for so long; 0 if nothing was found."""
    is_guided = importlib.util.find_spec("atheris") is not None
    if not is_guided:
        print("fuzz: atheris is not installed (python -m pip install atheris): seeds are changed at random")
    FINDINGS.mkdir(parents=True, exist_ok=True)
    targets = sorted(path for path in HERE.glob("*.py") if path.name != "run.py")
    worst = 0
    for target in targets:
        if names and target.stem not in names:
            continue
        print(f"fuzz: {target.stem}, {seconds} s", flush=True)
        if not is_guided:
            worst = max(worst, mutate(target, seconds))
            continue
        with tempfile.TemporaryDirectory() as corpus:
            options = [
                f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={HANG_S}",
                f"-max_len={MOST_BYTES}",
                "-print_final_stats=1",
                f"-artifact_prefix={FINDINGS}/{target.stem}-",
            ]  # fmt: skip
            command = [sys.executable, str(HERE / "run.py"), "--target", str(target), corpus, *options]
            worst = max(worst, abs(subprocess.run(command, check=False).returncode))
    return worst


def _loaded(target: Path) -> ModuleType:
    sys.path.insert(0, str(HERE.parents[1]))  # for tests.support, wherever it is started
    spec = importlib.util.spec_from_file_location(target.stem, target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mutate(target: Path, seconds: int) -> int:
    """Check seeds changed at random, the same ones every time; 1 if something was found."""
    module, chance, count = _loaded(target), random.Random(target.stem), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = bytearray(chance.choice(module.SEEDS))
        for _ in range(chance.randint(0, 6)):
            at, length = chance.randrange(len(data) + 1), chance.choice((0, 1, 1, 4, 40))
            other = chance.choice(module.SEEDS)
            begin = chance.randrange(len(other) + 1)
            put = chance.choice((b"", chance.randbytes(length), other[begin : begin + length], data[at:] * 2))
            data[at : at + length] = put
        data, count = data[:MOST_BYTES], count + 1
        try:
            module.check(bytes(data))
        except Exception:
            traceback.print_exc()
            (FINDINGS / f"{target.stem}-crash-{count}").write_bytes(data)
            return 1
    print(f"fuzz: {target.stem}: {count} inputs, nothing found", flush=True)
    return 0


def fuzz(target: Path, corpus: Path, options: list[str]) -> None:
    """Run libFuzzer on one target in this process."""
    import atheris

    module = _loaded(target)
    for seed in module.SEEDS:  # what they import is instrumented, and counts in the time of no input
        module.check(seed)
    for function in [one for one in gc.get_objects() if isinstance(one, FunctionType)]:
        if str(function.__module__).startswith("labkit"):  # all that is loaded would take minutes
            atheris.instrument_func(function)
    for number, seed in enumerate(module.SEEDS):
        (corpus / f"seed{number}").write_bytes(seed)

    def one(data: bytes) -> None:  # a value that is returned would mean: do not keep this input
        module.check(data)

    atheris.Setup([sys.argv[0], str(corpus), *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--target"]:
        fuzz(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 60, sys.argv[2:]))
