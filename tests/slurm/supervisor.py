"""A whole Slurm on one machine, alive for as long as somebody holds the other end of standard input.

``python supervisor.py FOLDER NODES`` starts munged, slurmctld and a slurmd for each node in FOLDER, prints
``ready`` when every node is idle, and ends them all when its standard input ends: however the test that
started it went, nothing stays. The test starts it as the first process of a PID namespace where it may; then
the kernel ends whatever is left.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

#: cores and memory that each node says it has; the real machine has them once, for all nodes together
NODE_CPUS, NODE_MEMORY_MB = 4, 8000
#: how long the daemons may take to come up on a busy machine
START_S = 60.0

CONF = """\
ClusterName=testcluster
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={control}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=1000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SchedulerParameters=batch_sched_delay=0,sched_interval=5,sched_min_interval=0
MpiDefault=none
ReturnToService=2
KillWait=5
MinJobAge=600
SlurmdTimeout=10
SlurmctldTimeout=60
MessageTimeout=30
EnforcePartLimits=ALL
PluginDir={plugins}
{nodes}
PartitionName=main Nodes=ALL Default=YES MaxTime=60 State=UP
PartitionName=short Nodes=ALL MaxTime=1 State=UP
PartitionName=locked Nodes=n1 MaxTime=60 State=DOWN
"""


def free_ports(number: int) -> list[int]:
    """Find ports that nobody listens on."""
    sockets = [socket.socket() for _ in range(number)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def write_configuration(folder: Path, nodes: int, plugins: str) -> None:
    """Write slurm.conf and the key, and make the daemons' folders."""
    control, *ports = free_ports(nodes + 1)
    host = socket.gethostname().split(".")[0]
    lines = [
        f"NodeName=n{i + 1} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={NODE_CPUS} "
        f"RealMemory={NODE_MEMORY_MB} Feature=old,node{i + 1} State=UNKNOWN"
        for i, port in enumerate(ports)
    ]
    text = CONF.format(host=host, folder=folder, control=control, nodes="\n".join(lines), plugins=plugins)
    (folder / "slurm.conf").write_text(text)
    (folder / "state").mkdir()
    for i in range(nodes):
        (folder / f"spool.n{i + 1}").mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))


def commands(folder: Path, nodes: int) -> list[list[str]]:
    """List the daemons, each staying in the foreground."""
    munged = [
        "munged", "--foreground", "--force", "--num-threads=2", f"--socket={folder}/munge.socket",
        f"--key-file={folder}/munge.key", f"--pid-file={folder}/munge.pid",
        f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed",
    ]  # fmt: skip
    conf = str(folder / "slurm.conf")
    daemons = [["slurmctld", "-D", "-c", "-f", conf]]
    daemons += [["slurmd", "-D", "-f", conf, "-N", f"n{i + 1}"] for i in range(nodes)]
    return [munged, *daemons]


def wait_until_idle(folder: Path, nodes: int, daemons: list[subprocess.Popen[bytes]]) -> None:
    """Wait until every node is idle, or say what went wrong."""
    deadline = time.monotonic() + START_S
    told = ""
    while time.monotonic() < deadline:
        ended = [str(one.args[0]) for one in daemons if one.poll() is not None]  # type: ignore[index]
        if ended:
            raise SystemExit(f"{ended[0]} ended; its log is in {folder}")
        asked = subprocess.run(
            ["sinfo", "-h", "-N", "-p", "main", "-o", "%N %t"], capture_output=True, text=True, check=False
        )
        told = asked.stdout + asked.stderr
        if [line.split()[1] for line in asked.stdout.splitlines()] == ["idle"] * nodes:
            return
        time.sleep(0.1)
    raise SystemExit(f"the nodes were not idle within {START_S:g} s: {told}")


def end_all(daemons: list[subprocess.Popen[bytes]]) -> None:
    """End the jobs, then the daemons, then whatever carries this start's mark."""
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        subprocess.run(["scancel", "--full", "--user=root"], capture_output=True, timeout=5, check=False)
    for one in reversed(daemons):
        one.kill()
    mark = f"LABKIT_TEST_SLURM={os.environ['LABKIT_TEST_SLURM']}".encode()
    for _ in range(20):
        left = [pid for pid in _pids() if pid != os.getpid() and mark in _environment(pid)]
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.05)


def _pids() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def _environment(pid: int) -> list[bytes]:
    with contextlib.suppress(OSError):
        if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX":
            return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return []


def main() -> None:
    """Start, say so, and wait for the end of standard input."""
    folder, nodes = Path(sys.argv[1]), int(sys.argv[2])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the end of standard input is the only way out
    os.environ["LABKIT_TEST_SLURM"] = secrets.token_hex(8)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    plugins = next(Path("/usr/lib").glob("*/slurm-wlm"), Path("/usr/lib/slurm"))
    write_configuration(folder, nodes, str(plugins))
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands(folder, nodes):
            with open(folder / f"{command[0]}.{len(daemons)}.out", "wb") as file:
                path = shutil.which(command[0]) or command[0]
                daemons.append(
                    subprocess.Popen([path, *command[1:]], stdin=subprocess.DEVNULL, stdout=file, stderr=file)
                )
            deadline = time.monotonic() + START_S
            while not (folder / "munge.socket").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
        wait_until_idle(folder, nodes, daemons)
        print("ready", flush=True)
        while os.read(0, 4096):
            pass
    finally:
        end_all(daemons)
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
