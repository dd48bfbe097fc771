"""Whatever can build and run an image here: Docker, this project's own way without an engine, or podman.

The own way needs root on Debian and the packages buildah, podman, runc and mmdebstrap, but no running service
and no registry of images: the base is made from Debian's packages, and both programs keep their files in one
folder of their own. What this host needs to reach its package index (the apt sources, the certificates,
pip.conf) is mounted while a step of the build runs; it never enters the image.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

__all__ = ["Engine", "EngineError", "find_engine"]

#: environment variable that chooses: docker, podman or local
CHOICE_VARIABLE = "LABKIT_ENGINE"
#: environment variable with the folder of the own way's images
FOLDER_VARIABLE = "LABKIT_IMAGES"

_TOOLS = ("buildah", "podman", "runc", "mmdebstrap")
_SUITE = "bookworm"
_BASE = f"docker.io/library/debian:{_SUITE}-slim"
_PUBLIC_SOURCES = f"""\
Types: deb
URIs: http://deb.debian.org/debian
Suites: {_SUITE} {_SUITE}-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://deb.debian.org/debian-security
Suites: {_SUITE}-security
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
"""
#: what Debian's own image says to apt; overlaid during a build by what a frozen mirror needs
_CLEAN = 'APT::Install-Recommends "false";\nDir::Cache::pkgcache "";\nDir::Cache::srcpkgcache "";\n'
_FROZEN = 'Acquire::Check-Valid-Until "false";\nAcquire::Check-Date "false";\n'
_APT_CONF = "/etc/apt/apt.conf.d/docker-clean"
_APT_SOURCES = "/etc/apt/sources.list.d/debian.sources"


class EngineError(Exception):
    """There is no engine, or it failed; one sentence."""


class Engine:
    """An engine's commands.

    Attributes
    ----------
    name : str
        ``docker``, ``podman`` or ``local``.
    command : list of str
        What stands before ``run``, ``rm``, ...
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.command = list(command)

    def build(self, context: Path, file: Path, tag: str, options: Sequence[str] = ()) -> None:
        """Build the image `tag` from a Dockerfile; the output goes to the terminal."""
        _call([*self.command, "build", *options, "-f", str(file), "-t", tag, str(context)])

    def run_command(self, tag: str, command: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return the command line that starts a container."""
        return [*self.command, "run", *options, tag, *command]

    def call(self, *arguments: str, timeout_s: float = 120.0, check: bool = True) -> str:
        """Run a command of the engine and return what it printed."""
        done = subprocess.run(
            [*self.command, *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
        )
        if check and done.returncode != 0:
            raise EngineError(f"{self.name} {' '.join(arguments[:3])} failed: {done.stderr.strip()[-2000:]}")
        return done.stdout

    def has_image(self, tag: str) -> bool:
        """Say whether the image exists."""
        return bool(self.call("images", "-q", tag, check=False).strip())

    def size_bytes(self, tag: str) -> int:
        """Return the size of an image, all layers together."""
        return int(self.call("image", "inspect", "--format", "{{.Size}}", tag).split()[0])

    def clean(self) -> None:
        """Remove what the engine keeps for itself: nothing, for Docker's and podman's own stores."""


class LocalEngine(Engine):
    """The own way; see the module's text."""

    def __init__(self) -> None:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        self.folder = Path(os.environ.get(FOLDER_VARIABLE) or Path(cache) / "labkit-images")
        store = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        store += ["--storage-driver", "overlay"]
        podman = ["podman", *store, "--cgroup-manager=cgroupfs", "--events-backend=file", "--runtime=runc"]
        super().__init__("local", podman)
        self._buildah = ["buildah", *store]

    def build(self, context: Path, file: Path, tag: str, options: Sequence[str] = ()) -> None:
        """Build with buildah, each step in a chroot, with this host's way to its package index mounted."""
        self._make_base()
        conf = self.folder / "apt.conf"
        conf.write_text(_FROZEN)
        mounts = {str(conf): _APT_CONF, "/etc/ssl/certs/ca-certificates.crt": "", "/etc/pip.conf": ""}
        if _sources() is not None:
            mounts[_APT_SOURCES] = ""
        here = [f"-v={src}:{dst or src}:ro" for src, dst in mounts.items() if Path(src).exists()]
        _call(
            [*self._buildah, "build", "--format=docker", "--isolation=chroot", "--network=host",
             "--pull-never", "--layers", *here, *options, "-f", str(file), "-t", tag, str(context)]
        )  # fmt: skip

    def run_command(self, tag: str, command: Sequence[str], options: Sequence[str]) -> list[str]:
        """Return podman's command line, with limits that a container of this host can have."""
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        processes = resource.getrlimit(resource.RLIMIT_NPROC)[1]
        most = 4096 if processes == resource.RLIM_INFINITY else min(4096, processes)
        limits = [f"--ulimit=nofile={files}:{files}", f"--ulimit=nproc={most}:{most}"]
        if not any(option.startswith("--network") for option in options):
            limits.append("--network=none")
        return super().run_command(tag, command, [*limits, *options])

    def clean(self) -> None:
        """Remove every image and container of the own way, and its base."""
        self.call("rm", "--all", "--force", check=False)
        self.call("rmi", "--all", "--force", check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_base(self) -> None:
        """Make the stand-in for Debian's image from Debian's packages, once."""
        if self.has_image(_BASE):
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder) as work:
            archive, public, clean = (Path(work) / name for name in ("base.tar", "sources", "clean"))
            public.write_text(_PUBLIC_SOURCES)
            clean.write_text(_CLEAN)
            source = _sources()
            _call(
                ["mmdebstrap", "--variant=apt", "--include=ca-certificates", "--mode=root",
                 *(f"--aptopt={line}" for line in _FROZEN.splitlines()),
                 '--customize-hook=rm -f "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*',
                 '--customize-hook=rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap',
                 f"--customize-hook=upload {public} {_APT_SOURCES}",
                 f"--customize-hook=upload {clean} {_APT_CONF}",
                 _SUITE, str(archive), *([str(source)] if source else [])]
            )  # fmt: skip
            self.call("import", str(archive), _BASE, timeout_s=600)


def find_engine() -> Engine:
    """Find an engine that works: Docker, the own way, podman; or the one of ``LABKIT_ENGINE``.

    Raises
    ------
    EngineError
        None; the sentence says what to install.
    """
    choice = os.environ.get(CHOICE_VARIABLE, "")
    if choice not in ("", "docker", "podman", "local"):
        raise EngineError(f"{CHOICE_VARIABLE} is docker, podman or local, got {choice!r}")
    if choice in ("", "docker") and _answers(["docker", "info", "--format", "{{.ServerVersion}}"]):
        return Engine("docker", ["docker"])
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if choice in ("", "local") and not missing and os.geteuid() == 0:
        return LocalEngine()
    if choice in ("", "podman") and _answers(["podman", "info"]):
        return Engine("podman", ["podman"])
    need = f"{', '.join(missing)} missing" if missing else "it needs root" if os.geteuid() else "not chosen"
    raise EngineError(
        "no engine for images works here: neither Docker nor podman answers, and for the way without an "
        f"engine: {need} (as root on Debian: apt-get install {' '.join(_TOOLS)})"
    )


def _answers(command: list[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    try:
        done = subprocess.run(command, capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    # Docker's client exits 0 in some versions although no server answered: then it printed no version.
    return done.returncode == 0 and bool(done.stdout.strip())


def _sources() -> Path | None:
    path = Path(_APT_SOURCES)
    return path if path.exists() else None


def _call(command: list[str]) -> None:
    sys.stdout.flush()
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        raise EngineError(f"{command[0]} ended with exit code {done.returncode}")
