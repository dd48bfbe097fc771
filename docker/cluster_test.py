#!/usr/bin/env python3
"""``make cluster-test``: the services of docker/compose.yml, as containers on a network of their own.

It needs root and the way without an engine (docker/README.md): the network is made of namespaces. It shows
that head and workers of the same file find each other, that MPI runs over them, and what failures leave.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import sys
import time
from collections.abc import Callable

from composed import Service, read_services
from engine import Engine, EngineError, LocalEngine, find_engine
from image import ROOT, TAG
from network import Network
from trial import HERE, Container, Findings, container, ends_on_signals

MEMORY = ["--memory=1g", "--memory-swap=1g"]
HOSTS = "/cluster/hosts"
TOKEN = secrets.token_hex(16)
NOTEBOOK = """\
import labkit as lk
def program(comm):
    import socket
    return comm.allreduce(comm.rank), socket.gethostname()
run = lk.run(program, ranks=6, on="mpi")
print(run)
print("sums", {total for total, _ in run.results}, "hosts", len({host for _, host in run.results}))
"""


class Cluster:
    """Head and workers, started one by one; everything is closed by the stack."""

    def __init__(self, engine: Engine, tag: str, stack: contextlib.ExitStack) -> None:
        self.engine, self.tag, self.stack = engine, tag, stack
        self.prefix = f"labkit-cluster-{os.getpid()}"
        self.services = read_services(ROOT / "docker/compose.yml", self.prefix)
        self.network = stack.enter_context(Network())
        stack.callback(self._remove_volumes)

    def start(self, service: str) -> tuple[Container, str]:
        """Start one more container of a service; return it and its address."""
        option, address = self.network.join()
        about: Service = self.services[service]
        options = [*MEMORY, option, *about.options, f"--hostname={service}-{address.rpartition('.')[2]}"]
        if service == "head":
            options.append(f"--env=JUPYTER_TOKEN={TOKEN}")
        name = f"{self.prefix}-{address.rpartition('.')[2]}"
        command = ["labkit-container", *about.command]
        return self.stack.enter_context(container(self.engine, self.tag, command, options, name)), address

    def _remove_volumes(self) -> None:
        names = {volume for service in self.services.values() for volume in service.volumes}
        self.engine.call("volume", "rm", "--force", *sorted(names), check=False)


def main() -> int:
    """Start the cluster, try it, remove it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tag", default=TAG)
    arguments = parser.parse_args()
    ends_on_signals()
    try:
        engine = find_engine()
        if not isinstance(engine, LocalEngine):
            raise EngineError("this trial needs the way without an engine (LABKIT_ENGINE=local, as root)")
        if not engine.has_image(arguments.tag):
            raise EngineError("build the image first: make image")
        found = Findings(f"docker/compose.yml as containers of {arguments.tag}, {' '.join(MEMORY)} each")
        with contextlib.ExitStack() as stack:
            try_cluster(Cluster(engine, arguments.tag, stack), found)
        left = engine.call("ps", "--all", "--quiet", "--filter", "name=labkit-cluster-")
        found.check(not left.strip(), "no container is left")
        return found.end()
    except EngineError as error:
        print(f"docker/cluster_test.py: {error}", file=sys.stderr)
        return 1


def try_cluster(cluster: Cluster, found: Findings) -> None:
    """Start what the file says, and let the head run MPI over it."""
    head, _ = cluster.start("head")
    workers = [cluster.start("worker") for _ in range(cluster.services["worker"].replicas)]
    for one in (head, *(worker for worker, _ in workers)):
        one.wait_healthy(120)
    found.check(True, "head and workers are healthy by their own checks", f"1 + {len(workers)}")
    seconds = wait_until(lambda: len(hosts_of(head)) == 1 + len(workers), 30)
    found.check(seconds is not None, "the head's host file has all of them", "; ".join(hosts_of(head)))
    try_runs(head, found, hosts=3)
    try_notebook(head, found)
    try_failures(head, [worker for worker, _ in workers], found)
    try_scaling(cluster, head, workers, found)


def hosts_of(head: Container) -> list[str]:
    """Read the host file."""
    return [line for line in head.ask("cat", HOSTS, check=False).splitlines() if not line.startswith("#")]


def wait_until(holds: Callable[[], bool], seconds: float) -> float | None:
    """Wait until something holds; return the seconds it took, or None."""
    begin = time.monotonic()
    while time.monotonic() - begin < seconds:
        if holds():
            return time.monotonic() - begin
        time.sleep(0.5)
    return None


def try_runs(head: Container, found: Findings, hosts: int, ranks: int = 6) -> None:
    """Sort and exchange over all hosts."""
    report = head.python("real_mpi.py", str(ranks))
    found.check(
        report["sorted"] and report["processes"] == ranks and len(report["hosts"]) == hosts,
        f"{ranks} ranks on {hosts} containers sort the flights",
        f"{report['keys']} keys, {report['hosts']}, in all {report['host_seconds']} s",
    )  # fmt: skip
    found.check(report["exchanged"], "and exchange large messages", f"{report['exchanged_mib']} MiB")
    found.check(not report["is_valid"], "their times are marked: they share one machine", report["notes"][-1])


def try_notebook(head: Container, found: Findings) -> None:
    """Run the same from a notebook, in a kernel of the head's server."""
    report = head.notebook("notebooks/on_the_cluster.ipynb", NOTEBOOK, TOKEN)
    last = (report["printed"].strip().splitlines() or [""])[-1]
    held = not report["errors"] and last == "sums {15} hosts 3"
    found.check(held, "a notebook on the head does, too", "; ".join([last, *report["errors"]])[-800:])


def try_failures(head: Container, workers: list[Container], found: Findings) -> None:
    """Let ranks on the last worker fail, and look for what is left of them."""
    head.ask("sh", "-c", "cat > /tmp/failures.py", stdin=(HERE / "inside/failures.py").read_text())
    report = json.loads(head.ask("python", "/tmp/failures.py", "6", timeout_s=200).splitlines()[-1])
    for name, what, words in (
        ("raises", "a rank elsewhere that raises", ("RankError", "rank 5", "unhappy")),
        ("loops", "a rank elsewhere that loops", ("TimeLimitError", "rank 5", "Iprobe")),
        ("dies", "a rank elsewhere that dies", ("RankError", "rank 5", "SIGKILL")),
        ("unreachable", "a host that nobody answers for", ("MachineError",)),
    ):
        text = f"{report[name]['error']}: {report[name]['text']}"
        detail = f"{report[name]['seconds']} s; {' '.join(text.split())[:160]}"
        is_told = all(word in text for word in words) or (
            name == "dies" and "connection to a rank broke" in text
        )
        found.check(is_told, f"{what} is reported", detail)
    for one in workers:
        wait_until(lambda one=one: not ranks_in(one), 10)
    left = {one.name: ranks_in(one) for one in workers if ranks_in(one)}
    found.check(not left, "no process of a rank is left on a worker", left or "")
    files = head.ask("sh", "-c", "ls -d /cluster/labkit-* 2>/dev/null || true").split()
    for one in (head, *workers):
        files += one.ask("sh", "-c", "ls /dev/shm").split()
    found.check(not files, "nor a file of a run", files or "")


def ranks_in(one: Container) -> list[str]:
    """List the ranks and MPI daemons that run in a container."""
    script = "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline 2>/dev/null; echo; done"
    lines = one.ask("sh", "-c", script).splitlines()
    return [line[:60] for line in lines if "mpi4py" in line or "prted" in line]


def try_scaling(
    cluster: Cluster, head: Container, workers: list[tuple[Container, str]], found: Findings
) -> None:
    """Let a worker vanish, and another one come."""
    gone, address = workers[-1]
    gone.engine.call("kill", gone.name)
    seconds = wait_until(lambda: not any(address in line for line in hosts_of(head)), 60)
    found.check(
        seconds is not None, "a worker that was killed leaves the host file", f"{seconds or 60:.0f} s"
    )
    try_runs(head, found, hosts=2, ranks=4)
    new, address = cluster.start("worker")
    new.wait_healthy(60)
    seconds = wait_until(lambda: any(address in line for line in hosts_of(head)), 60)
    found.check(seconds is not None, "a new one enters it", f"{seconds or 60:.0f} s")
    try_runs(head, found, hosts=3)


if __name__ == "__main__":
    sys.exit(main())
