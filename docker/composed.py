"""Read ``docker/compose.yml`` and turn a service of it into an engine's options, so that it is what is tried.

A key that is not understood is an error: a trial of half of the file would prove nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import yaml
from engine import EngineError

__all__ = ["Service", "read_services"]

#: what a trial without Compose does otherwise: it builds before, waits itself, and publishes no port
_DONE_OTHERWISE = {"image", "build", "ports", "depends_on", "deploy", "command"}


class Service:
    """One service.

    Attributes
    ----------
    command : list of str
        What its containers do.
    options : list of str
        Options of ``run``; the names of volumes begin with the given prefix.
    volumes : list of str
        Those volumes.
    replicas : int
        How many containers it has.
    """

    def __init__(self, name: str, about: dict[str, Any], prefix: str) -> None:
        self.command: list[str] = [str(word) for word in about.get("command", [])]
        self.replicas = int(about.get("deploy", {}).get("replicas", 1))
        self.volumes: list[str] = []
        self.options: list[str] = []
        for key, value in about.items():
            if key in _DONE_OTHERWISE:
                continue
            if key not in _READERS:
                raise EngineError(f"docker/compose.yml: this trial does not know {name}.{key}")
            self.options += _READERS[key](value, prefix)
        for volume in about.get("volumes", []):
            self.volumes.append(f"{prefix}-{volume.split(':')[0]}")


_READERS = {
    "volumes": lambda value, prefix: [f"--volume={prefix}-{volume}" for volume in value],
    "environment": lambda value, _: [f"--env={name}={_interpolated(text)}" for name, text in value.items()],
    "shm_size": lambda value, _: [f"--shm-size={value}"],
    "cap_drop": lambda value, _: [f"--cap-drop={name.lower()}" for name in value],
    "security_opt": lambda value, _: [f"--security-opt={text.replace(':true', '')}" for text in value],
}


def read_services(path: Path, prefix: str) -> dict[str, Service]:
    """Read the services of a Compose file; `prefix` keeps their volumes apart from others."""
    about = yaml.safe_load(path.read_text())
    return {name: Service(name, service, prefix) for name, service in about["services"].items()}


def _interpolated(text: Any) -> str:
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: os.environ.get(found[1]) or found[2], str(text))
