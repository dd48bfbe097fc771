"""Fuzzing of the readers, guided by coverage where atheris is installed: `make fuzz` (FUZZ_SECONDS=60 each).

    python tests/fuzz/run.py [SECONDS] [TARGET ...]

Without atheris a mutator of its own feeds them seeds changed at random. Each module beside this one with
SEEDS and check(bytes) is a target: whatever check raises is a finding. Its input is written to build/fuzz.
"""

from __future__ import annotations

import gc
import importlib.util
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FunctionType, ModuleType

__all__ = ["HERE", "loaded", "main", "mutated"]

HERE = Path(__file__).parent
FINDINGS = HERE.parents[1] / "build" / "fuzz"
MEMORY_MB, HANG_S, MOST_BYTES = 1500, 20, 8192
#: how many times as long a reader may take on a busy machine
BUSY = 6
#: what readers stumble over, put in the place of a word or a number
WORDS = (
    *(
        b"0",
        b"-1",
        b"1",
        b"2",
        b"nan",
        b"inf",
        b"-inf",
        b"1e308",
        b"1e-320",
        b"99999999999999999999",
        b"2147483648",
    ),
    *(
        b"9" * 5000,
        b"1_0",
        b"0x10",
        b"true",
        b"null",
        b"[]",
        b"{}",
        b'""',
        b"''",
        b"[[0, 1]]",
        b"\xff",
        b"\x00",
    ),
    *(
        "\u0661".encode(),
        "\u2028".encode(),
        b"\n",
        b"\t",
        b"#",
        b",",
        b";",
        b"=",
        b":",
        b"(",
        b")",
        b"..",
        b"1979-05-27",
    ),
)
_WORD = re.compile(rb"[\w.+-]+|[^\w\s]")


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
        if target.stem == "archives" and importlib.util.find_spec("otf2") is None:
            print("fuzz: archives is skipped: the package otf2 is not installed", flush=True)
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


def loaded(target: Path) -> ModuleType:
    sys.path.insert(0, str(HERE.parents[1]))  # for tests.support, wherever it is started
    spec = importlib.util.spec_from_file_location(target.stem, target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _hangs(*_: object) -> None:
    raise AssertionError(f"no answer after {BUSY * HANG_S} s")


def mutated(seeds: list[bytes], chance: random.Random) -> bytes:
    """Return a seed with bytes, words or lines of it changed."""
    data = bytearray(chance.choice(seeds))
    first = bytes(data[:1])
    for _ in range(chance.randint(0, 6)):
        kind = chance.randrange(3)
        words = [one.span() for one in _WORD.finditer(data)] if kind else []
        if kind == 1 and words:
            begin, end = chance.choice(words)
            data[begin:end] = chance.choice((*WORDS, data[slice(*chance.choice(words))]))
        elif kind == 2:
            lines = data.split(b"\n")
            at, other = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[at:at] = chance.choice(([lines[other]], [], [lines[at], lines[at]]))
            data = bytearray(b"\n".join(lines[:other] + lines[other + chance.randint(0, 1) :]))
        else:
            at, length = chance.randrange(len(data) + 1), chance.choice((0, 1, 1, 4, 40))
            other_seed = chance.choice(seeds)
            begin = chance.randrange(len(other_seed) + 1)
            taken = other_seed[begin : begin + length]
            data[at : at + length] = chance.choice((b"", chance.randbytes(length), taken, data[at:] * 2))
    if chance.random() < 0.9:
        data[:1] = first  # it may name the reader
    return bytes(data[:MOST_BYTES])


def mutate(target: Path, seconds: int) -> int:
    """Check seeds changed at random, the same ones every time; 1 if something was found."""
    module, chance, count = loaded(target), random.Random(target.stem), 0
    for seed in module.SEEDS:  # what they import takes memory of no input
        module.check(seed)
    signal.signal(signal.SIGALRM, _hangs)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (MEMORY_MB << 20), resource.RLIM_INFINITY))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        data = mutated(module.SEEDS, chance)
        count += 1
        try:
            signal.alarm(BUSY * HANG_S)
            module.check(data)
            signal.alarm(0)
        except Exception:
            signal.alarm(0)
            traceback.print_exc()
            (FINDINGS / f"{target.stem}-crash-{count}").write_bytes(data)
            return 1
    print(f"fuzz: {target.stem}: {count} inputs, nothing found", flush=True)
    return 0


def fuzz(target: Path, corpus: Path, options: list[str]) -> None:
    """Run libFuzzer on one target in this process."""
    import atheris

    module = loaded(target)
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
