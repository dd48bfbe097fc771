"""Parts that trials of images share: a container that surely ends, questions to it, a list of what held."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from engine import Engine, EngineError

__all__ = ["FIRST", "Container", "Findings", "container", "ends_on_signals", "foreign_words"]

HERE = Path(__file__).resolve().parent
#: the start page of the course and its first notebook
FIRST = ("notebooks/00_start_here.ipynb", "notebooks/01_one_program_two_machines.ipynb")
#: a container of a trial ends itself after so long, whatever became of the trial
LIFETIME_S = 1800


class Findings:
    """What held and what did not, printed as it is found."""

    def __init__(self, title: str) -> None:
        self.failed: list[str] = []
        self.begin = time.monotonic()
        print(title, flush=True)

    def check(self, holds: bool, what: str, detail: Any = "") -> None:
        """Note one finding."""
        text = f"{what}{f': {detail}' if detail != '' else ''}"
        print(f"{'ok ' if holds else 'NOT'} {time.monotonic() - self.begin:7.1f} s  {text}", flush=True)
        if not holds:
            self.failed.append(what)

    def end(self) -> int:
        """Print the sum, and return the exit code."""
        print(f"did not hold: {'; '.join(self.failed)}" if self.failed else "everything held", flush=True)
        return 1 if self.failed else 0


class Container:
    """A running container."""

    def __init__(self, engine: Engine, name: str) -> None:
        self.engine = engine
        self.name = name

    def ask(
        self, *command: str, user: str = "", stdin: str = "", timeout_s: float = 120.0, check: bool = True
    ) -> str:
        """Run a command in it and return what it printed."""
        options = ["-i", *(["--user", user] if user else [])]
        try:
            done = subprocess.run(
                [*self.engine.command, "exec", *options, self.name, *command], input=stdin,
                capture_output=True, text=True, timeout=timeout_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"{command[0]} in {self.name} took more than {timeout_s:.0f} s") from error
        if check and done.returncode != 0:
            raise EngineError(
                f"{' '.join(command)[:100]} in {self.name} failed:\n{done.stdout}\n{done.stderr}"
            )
        return done.stdout

    def python(self, script: str, *arguments: str, timeout_s: float = 300.0) -> dict[str, Any]:
        """Run one of the scripts of ``docker/inside`` in it, which prints one JSON object."""
        text = (HERE / "inside" / script).read_text()
        if script == "real_mpi.py":  # ranks import the program's file: it must be one
            self.ask("sh", "-c", "cat > /tmp/real_mpi.py", stdin=text)
            out = self.ask("python", "/tmp/real_mpi.py", *arguments, timeout_s=timeout_s)
        else:
            out = self.ask("python", "-", *arguments, stdin=text, timeout_s=timeout_s)
        found: dict[str, Any] = json.loads(out.strip().splitlines()[-1])
        return found

    def wait_healthy(self, timeout_s: float, *check: str) -> float:
        """Wait until the image's own health check (or another command) passes; return the seconds."""
        begin = time.monotonic()
        while time.monotonic() - begin < timeout_s:
            with contextlib.suppress(EngineError):
                self.ask(*(check or ("labkit-container", "health")), timeout_s=20)
                return time.monotonic() - begin
            if self.state() != "running":
                break
            time.sleep(0.3)
        raise EngineError(f"{self.name} is not healthy after {timeout_s:.0f} s:\n{self.logs()}")

    def notebook(self, path: str, source: str, token: str) -> dict[str, Any]:
        """Write a notebook of one cell, and run it in a kernel of the server; see ``inside/notebook.py``."""
        cell = {"cell_type": "code", "id": "one", "metadata": {}, "source": source, "outputs": [],
                "execution_count": None}  # fmt: skip
        whole = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        self.ask("sh", "-c", f"cat > {path}", stdin=json.dumps(whole))
        return self.python("notebook.py", path, token)

    def state(self) -> str:
        """Return running, exited, ..."""
        return self.engine.call("inspect", "--format", "{{.State.Status}}", self.name, check=False).strip()

    def logs(self) -> str:
        """Return what it printed."""
        done = subprocess.run(
            [*self.engine.command, "logs", self.name], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr

    def peak_mib(self) -> float:
        """Return the most memory that it used so far."""
        files = "/sys/fs/cgroup/memory.peak /sys/fs/cgroup/memory/memory.max_usage_in_bytes"
        now = "/sys/fs/cgroup/memory.current"
        text = self.ask("sh", "-c", f"cat {files} 2>/dev/null || cat {now} || echo 0", check=False)
        return int((text.split() or ["0"])[0]) / 2**20

    def cpu_s(self) -> float:
        """Return the CPU time that it used so far, in seconds."""
        v2, v1 = "/sys/fs/cgroup/cpu.stat", "/sys/fs/cgroup/cpuacct/cpuacct.usage"
        text = self.ask("sh", "-c", f"cat {v2} 2>/dev/null || echo usage_nsec $(cat {v1})", check=False)
        unit, amount = [*text.split(), "", "0"][:2]
        return int(amount) / (1e6 if unit == "usage_usec" else 1e9)


@contextlib.contextmanager
def container(
    engine: Engine, tag: str, command: Sequence[str], options: Sequence[str], name: str = ""
) -> Iterator[Container]:
    """Start a container in the background; it is removed at the end, also after an error or a signal.

    It ends by itself after half an hour, should this process be killed.
    """
    name = name or f"labkit-trial-{os.getpid()}-{secrets.token_hex(3)}"
    words = ["timeout", str(LIFETIME_S), *command]
    line = engine.run_command(tag, words, ["--detach", "--name", name, *options])
    try:
        done = subprocess.run(line, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode != 0:
            raise EngineError(f"the container does not start: {done.stderr.strip()[-2000:]}")
        yield Container(engine, name)
    finally:
        at_once = [] if engine.name == "docker" else ["--time=0"]
        engine.call("rm", "--force", "--volumes", *at_once, name, check=False)
        if engine.call("ps", "--all", "--quiet", "--filter", f"name={name}", check=False).strip():
            print(f"the container {name} could not be removed; remove it by hand", file=sys.stderr)


def ends_on_signals() -> None:
    """Let a signal that would end this process at once unwind it instead, so that containers are removed."""

    def leave(number: int, frame: object) -> None:
        sys.exit(128 + number)

    for one in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(one, leave)


def foreign_words() -> list[str]:
    """List names of servers that this host uses in place of the public ones: none may be in the image."""
    public = {"deb.debian.org", "security.debian.org", "pypi.org", "files.pythonhosted.org", "localhost"}
    names = [name for name in os.environ if any(w in name.upper() for w in ("INDEX", "PROXY", "FIND_LINKS"))]
    texts = [os.environ[name] for name in names]
    for path in [*Path("/etc/apt").glob("sources.list*"), *Path("/etc/apt/sources.list.d").glob("*"),
                 Path("/etc/pip.conf"), Path.home() / ".config/pip/pip.conf"]:  # fmt: skip
        with contextlib.suppress(OSError, UnicodeDecodeError):
            texts.append(path.read_text())
    found = set()
    for text in texts:
        for part in text.split("://")[1:]:
            found.add(part.split("/")[0].split()[0].rpartition("@")[2].split(":")[0].strip("\"'"))
    return sorted(word for word in found - public if "." in word and not word.endswith("debian.org"))
