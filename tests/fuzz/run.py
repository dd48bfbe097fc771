"""Coverage-guided fuzzing of the readers, where atheris is installed: `make fuzz` (FUZZ_SECONDS=60 each).

    python tests/fuzz/run.py [SECONDS]

Each module beside this one with SEEDS and check(bytes) is a target: whatever check raises is a finding. Its
input is written to build/fuzz.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).parent
FINDINGS = HERE.parents[1] / "build" / "fuzz"
MEMORY_MB, HANG_S = 1500, 20


def main(seconds: int) -> int:
    """Fuzz every target for so long; 0 if nothing was found."""
    if importlib.util.find_spec("atheris") is None:
        print("fuzz: skipped, atheris is not installed (python -m pip install atheris)")
        return 0
    FINDINGS.mkdir(parents=True, exist_ok=True)
    targets = sorted(path for path in HERE.glob("*.py") if path.name != "run.py")
    worst = 0
    for target in targets:
        print(f"fuzz: {target.stem}, {seconds} s", flush=True)
        with tempfile.TemporaryDirectory() as corpus:
            options = [
                f"-max_total_time={seconds}", f"-rss_limit_mb={MEMORY_MB}", f"-timeout={HANG_S}",
                "-max_len=8192",
                "-print_final_stats=1",
                f"-artifact_prefix={FINDINGS}/{target.stem}-",
            ]  # fmt: skip
            command = [sys.executable, str(HERE / "run.py"), "--target", str(target), corpus, *options]
            worst = max(worst, abs(subprocess.run(command, check=False).returncode))
    return worst


def fuzz(target: Path, corpus: Path, options: list[str]) -> None:
    """Run libFuzzer on one target in this process."""
    import atheris

    spec = importlib.util.spec_from_file_location(target.stem, target)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    atheris.instrument_all()
    for number, seed in enumerate(module.SEEDS):
        (corpus / f"seed{number}").write_bytes(seed)

    def one(data: bytes) -> None:  # a value that is returned would mean: do not keep this input
        module.check(data)

    atheris.Setup([sys.argv[0], str(corpus), *options], one)
    atheris.Fuzz()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--target"]:
        fuzz(Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:])
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 60))
