"""Start and stop the supervisor's Slurm, from a fixture or by hand: ``python machine.py`` until Ctrl-C."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

__all__ = ["COMMANDS", "SlurmMachine", "missing"]

COMMANDS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "sinfo", "scontrol")
#: how long all daemons may take to come up
START_S = 90.0


def missing() -> str:
    """Say what a test cluster lacks here; empty when nothing."""
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    absent = [name for name in COMMANDS if shutil.which(name, path=path) is None]
    if absent:
        return f"{absent[0]} is not installed (Debian: slurm-wlm and munge; make slurm-test installs them)"
    if os.geteuid() != 0:
        return "Slurm's daemons are started as root, and this is another user"
    return ""


class SlurmMachine:
    """A Slurm with some nodes in a temporary folder; a context manager.

    Attributes
    ----------
    conf : str
        For the environment variable ``SLURM_CONF``.
    """

    def __init__(self, nodes: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="labkit-slurm-"))
        self.folder.chmod(0o755)
        self.conf = str(self.folder / "slurm.conf")
        command = [
            sys.executable,
            str(Path(__file__).with_name("supervisor.py")),
            str(self.folder),
            str(nodes),
        ]
        self.process = subprocess.Popen(
            [*_own_processes(), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> SlurmMachine:
        assert self.process.stdout is not None
        told, deadline = b"", time.monotonic() + START_S
        while b"ready" not in told:
            left = max(0.0, deadline - time.monotonic())
            ready, _, _ = select.select([self.process.stdout], [], [], left)
            chunk = os.read(self.process.stdout.fileno(), 4096) if ready else b""
            told += chunk
            if not chunk:
                logs = "\n".join(
                    f"{path.name}: {path.read_text(errors='replace')[-800:]}"
                    for path in [*self.folder.glob("*.log"), *self.folder.glob("*.out")]
                )
                self.stop()
                raise RuntimeError(f"the test's Slurm did not start: {told.decode()}\n{logs}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End all daemons and jobs, and remove the folder."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(timeout=20)
        if self.process.stdout is not None:
            self.process.stdout.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def _own_processes() -> list[str]:
    """Give the daemons a PID namespace where that is allowed: it ends as a whole."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return []
    prefix = [unshare, "--pid", "--fork", "--kill-child", "--mount-proc"]
    tried = subprocess.run([*prefix, "true"], capture_output=True, check=False)
    return prefix if tried.returncode == 0 else []


if __name__ == "__main__":
    with SlurmMachine(4) as machine:
        print(f"export SLURM_CONF={machine.conf}", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            time.sleep(1e9)
