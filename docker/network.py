"""Containers that reach each other without an engine's own networks: namespaces of the kernel and a bridge.

Needs root and ``ip`` (Debian: iproute2). The bridge lives in a namespace of its own, so nothing of the host's
network is touched and nothing leads out of it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from types import TracebackType

from engine import EngineError

__all__ = ["Network"]


class Network:
    """A bridge, and a namespace with one address for each container; a context manager."""

    def __init__(self, prefix: str = "10.89.77") -> None:
        self.prefix = prefix
        self.name = f"labkit{os.getpid()}"
        self._spaces: list[str] = []

    def __enter__(self) -> Network:
        try:
            self._add(self._switch)
            _ip("-n", self._switch, "link", "add", "br0", "type", "bridge")
            _ip("-n", self._switch, "link", "set", "br0", "up")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _switch(self) -> str:
        return f"{self.name}-switch"

    def join(self) -> tuple[str, str]:
        """Make a namespace for one more container.

        Returns
        -------
        (str, str)
            The engine's option, and the address.
        """
        number = len(self._spaces)  # the switch is the first
        space, cable = f"{self.name}-{number}", f"v{number}"
        self._add(space)
        _ip(
            "link",
            "add",
            cable,
            "netns",
            self._switch,
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            space,
        )
        _ip("-n", self._switch, "link", "set", cable, "master", "br0", "up")
        address = f"{self.prefix}.{number}"
        _ip("-n", space, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", space, "link", "set", device, "up")
        return f"--network=ns:/run/netns/{space}", address

    def close(self) -> None:
        """Take everything away."""
        while self._spaces:
            with contextlib.suppress(EngineError):
                _ip("netns", "delete", self._spaces.pop())

    def _add(self, space: str) -> None:
        _ip("netns", "add", space)
        self._spaces.append(space)


def _ip(*words: str) -> None:
    try:
        done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    except OSError as error:
        raise EngineError(f"ip cannot be started: {error}") from error
    if done.returncode != 0:
        raise EngineError(f"ip {' '.join(words)} failed: {done.stderr.strip()}")
