"""Ranks, engines and what starts them listen on the loopback interface only."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import labkit as lk
from tests.support.mpich import MPICH, needs_mpich

pytestmark = [
    pytest.mark.mpi,
    pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="needs Linux's /proc/net"),
]

ANYWHERE = {"00000000", "0" * 32}


def open_ports(comm):
    """Return the addresses, and the programs, that listen in the processes of this run: rank 0 looks."""
    from labkit.process.tree import JOB_VARIABLE, job_processes

    comm.barrier()
    found = []
    if comm.rank == 0:
        mine, parents = os.environ[JOB_VARIABLE], {os.getpid(), os.getppid()}
        of_socket = {}
        for pid in job_processes(mine) | parents:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                try:
                    of_socket[os.readlink(entry)] = Path(f"/proc/{pid}/cmdline").read_text().split("\0")[0]
                except OSError:
                    continue
        for table in ("tcp", "tcp6", "udp", "udp6"):
            path = Path("/proc/net", table)
            for line in path.read_text().splitlines()[1:] if path.exists() else ():
                _, local, _, state, *rest = line.split()
                program = of_socket.get(f"socket:[{rest[5]}]")
                if program and (state == "0A" or table.startswith("udp")):  # 0A: TCP_LISTEN
                    found.append((local.split(":")[0], os.path.basename(program)))
    comm.barrier()
    return found


def spawning(comm):
    """Look while a rank that was started later is there."""
    import sys

    child = "from mpi4py import MPI; MPI.Comm.Get_parent().barrier(); MPI.Comm.Get_parent().barrier()"
    other = comm.Spawn(sys.executable, ["-c", child])
    other.barrier()
    found = open_ports(comm)
    other.barrier()
    return found


@pytest.mark.parametrize("program", [open_ports, spawning])
def test_a_launch_listens_on_loopback_only(program):
    found = lk.run(program, 2, "mpi").results[0]
    assert found, "Open MPI's launcher listens"
    assert [one for one in found if one[0] in ANYWHERE] == []


@needs_mpich
def test_mpich_listens_on_loopback_only(monkeypatch):
    monkeypatch.setenv("LABKIT_MPI", str(MPICH))
    found = lk.run(open_ports, 2, "mpi").results[0]
    assert [one for one in found if one[0] in ANYWHERE] == []


def test_engines_and_their_controller_listen_on_loopback_only(engines):
    found = lk.run(open_ports, 2, engines).results[0]
    assert {name for _, name in found} >= {"prterun"}
    assert [one for one in found if one[0] in ANYWHERE] == []


def test_a_program_listens_where_it_says():
    def program(comm):
        import socket
        import subprocess
        import sys

        with socket.socket() as server:
            server.bind(("0.0.0.0", 0))
            name = server.getsockname()[0]
        code = "import os; print(os.environ.get('LD_PRELOAD'), os.environ.get('LABKIT_LD_PRELOAD'))"
        return name, subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout

    assert lk.run(program, 1, "mpi").results[0] == ("0.0.0.0", f"{os.environ.get('LD_PRELOAD')} None\n")
