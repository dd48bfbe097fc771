"""The tests' own Slurm: whatever ends those who started it, no daemon and no job is left."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

MACHINE = Path(__file__).with_name("machine.py")


def processes_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if text in command:
                found.append(command)
    return found


def test_nothing_is_left_when_its_owner_is_killed(slurm_machine):
    owner = subprocess.Popen([sys.executable, str(MACHINE)], stdout=subprocess.PIPE, text=True)
    conf = owner.stdout.readline().strip().removeprefix("export SLURM_CONF=")
    folder = str(Path(conf).parent)
    assert len([one for one in processes_with(folder) if "slurmd" in one]) >= 4
    job = subprocess.run(
        ["sbatch", "--output=/dev/null", "--wrap", f"sleep 3000; echo {folder}"],
        env={"SLURM_CONF": conf, "PATH": "/usr/bin:/bin"}, capture_output=True, check=True, text=True,
    )  # fmt: skip
    assert "Submitted" in job.stdout
    owner.kill()
    owner.communicate()
    deadline = time.monotonic() + 30
    while (left := processes_with(folder)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []
    while Path(folder).exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(folder).exists()


@pytest.mark.parametrize("lacking", ["slurmctld", "munged"])
def test_what_is_missing_is_named(monkeypatch, lacking):
    import importlib.util
    import shutil

    spec = importlib.util.spec_from_file_location("machine", MACHINE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None if name == lacking else f"/usr/bin/{name}")
    assert module.missing().startswith(f"{lacking} is not installed (Debian: slurm-wlm and munge")
