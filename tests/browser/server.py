"""``labkit lab`` as a process of its own, on a working copy of the course and with a home of its own.

It opens the browser as it would for a user, by the address it hands to ``$BROWSER``. Whatever was started is
ended, also when a test fails.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[2]
MARK = "LABKIT_BROWSER_TEST"
START_S, END_S = 120, 30
#: of the environment; all else is as a new user has it
KEPT = ["PATH", "LANG", "LD_LIBRARY_PATH", "JUPYTER_PATH", "JUPYTER_CONFIG_PATH", "OPENBLAS_NUM_THREADS"]


class Lab:
    """A server of one's own.

    Parameters
    ----------
    folder : Path
        For the working copy, the home and the log.
    python : str
        The interpreter whose labkit is served.
    """

    def __init__(self, folder: Path, python: str = sys.executable) -> None:
        self.folder = folder
        self.python = python
        self.notebooks = folder / "course"
        self.mark = uuid.uuid4().hex
        self.address = folder / "address"
        self.log = folder / "log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it opens its address."""
        opener = self.folder / "opener"
        opener.write_text(
            f'#!/bin/sh\necho "$1" > {self.address}.part && mv {self.address}.part {self.address}\n'
        )
        opener.chmod(0o755)
        home = self.folder / "home"
        home.mkdir()
        kept = {name: os.environ[name] for name in KEPT if name in os.environ}
        environment = {**kept, "HOME": str(home), "BROWSER": f"{opener} %s", MARK: self.mark}
        command = [self.python, "-m", "labkit", "lab", "--notebooks", str(ROOT / "notebooks")]
        command += ["--work", str(self.notebooks)]
        options = ["--", "--port=0", "--LabApp.expose_app_in_browser=True"]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command + options, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                stderr=log, start_new_session=True,
            )  # fmt: skip
        deadline = time.monotonic() + START_S
        while not self.address.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"labkit lab opened no page:\n{self.log.read_text()}")
            time.sleep(0.05)

    def end(self) -> None:
        """End the server, its kernels, and all that they started."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(END_S)
        for number in self.alive():
            with contextlib.suppress(OSError):
                os.kill(number, signal.SIGKILL)
        if self.process is not None:
            self.process.wait(END_S)

    def forget(self) -> None:
        """Forget which notebooks were open: the next visitor starts as the first did."""
        shutil.rmtree(self.folder / "home" / ".jupyter" / "lab" / "workspaces", ignore_errors=True)

    def alive(self) -> list[int]:
        """Return the processes that have this server's mark in their environment."""
        found = []
        for place in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if f"{MARK}={self.mark}".encode() in place.read_bytes():
                    found.append(int(place.parent.name))
        return found
