"""ipyparallel's engines as a batch job, and by ssh on this host, under an sshd of the test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time

import pytest

import labkit as lk
from labkit.errors import MachineError, RankError
from tests.support.refusals import raises_code

pytest.importorskip("ipyparallel")


def where(comm):
    return comm.rank, comm.allreduce(1), os.environ.get("SLURMD_NODENAME")


def raising(comm):
    if comm.rank == 1:
        raise ValueError("on purpose")
    comm.Barrier()


def test_engines_over_two_nodes_are_one_world_and_survive_a_failure(slurm):
    with lk.cluster(4, launcher=slurm.on(nodes=2), timeout_s=150) as machine:
        assert len(machine.client.ids) == 4
        expected = [(0, 4, "n1"), (1, 4, "n1"), (2, 4, "n2"), (3, 4, "n2")]
        assert [one[:2] for one in lk.run(where, 4, on=machine).results] == [one[:2] for one in expected]
        assert len({one[2] for one in lk.run(where, 4, on=machine).results}) == 2
        with raises_code(RankError, "rank-failed", "rank 1", "ValueError: on purpose"):
            lk.run(raising, 4, on=machine, timeout_s=60)
        assert [one[:2] for one in lk.run(where, 3, on=machine).results] == [(0, 3), (1, 3), (2, 3)]
    slurm.wait_for(lambda: not slurm.ask("squeue", "-h"))
    assert list(slurm.folder.iterdir()) == []


def test_engines_end_with_the_process_that_started_them(slurm):
    child = slurm.python(
        "with lk.cluster(2, launcher=cluster, timeout_s=150) as machine:\n"
        "    print('up', flush=True)\n    time.sleep(300)\n"
    )
    assert child.stdout.readline() == "up\n"
    child.kill()
    child.communicate()
    slurm.wait_for(lambda: not slurm.ask("squeue", "-h"))
    slurm.wait_for(lambda: list(slurm.folder.iterdir()) == [])


def test_engines_that_do_not_come_up_say_why(slurm):
    with pytest.raises(MachineError, match=r"did not start: after 4 s their job is pending \(BeginTime\)"):
        lk.cluster(2, launcher=slurm.on(extra="--begin=now+1hour"), timeout_s=4)
    with pytest.raises(
        MachineError, match=r"their job is over.*there is no /no/such/python on the compute node"
    ):
        lk.cluster(2, launcher=slurm.on(python="/no/such/python"), timeout_s=100)
    slurm.wait_for(lambda: not slurm.ask("squeue", "-h"))


@pytest.fixture
def ssh_host(tmp_path, monkeypatch):
    """An sshd of one's own on a high port, with keys of its own."""
    sshd = shutil.which("sshd", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if sshd is None or shutil.which("ssh-keygen") is None:
        pytest.skip("no sshd here (Debian: openssh-server)")
    for name in ("host", "user"):
        command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(tmp_path / name)]
        subprocess.run(command, check=True, capture_output=True)
    shutil.copy(tmp_path / "user.pub", tmp_path / "authorized")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (tmp_path / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {tmp_path}/host\nPidFile none\nUsePAM no\n"
        f"AuthorizedKeysFile {tmp_path}/authorized\nStrictModes no\nPermitRootLogin yes\n"
        "PasswordAuthentication no\nSubsystem sftp internal-sftp\n"
    )
    (tmp_path / "ssh_config").write_text(
        f"Host *\n  IdentityFile {tmp_path}/user\n  IdentitiesOnly yes\n  StrictHostKeyChecking no\n"
        f"  UserKnownHostsFile {tmp_path}/known\n  LogLevel ERROR\n"
    )
    monkeypatch.setenv("LABKIT_SSH_OPTIONS", f"-F {tmp_path}/ssh_config")
    os.makedirs("/run/sshd", exist_ok=True)
    with open(tmp_path / "sshd.log", "wb") as log:
        server = subprocess.Popen(
            [sshd, "-D", "-e", "-f", str(tmp_path / "sshd_config")], stderr=log, start_new_session=True
        )
    try:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            pytest.fail((tmp_path / "sshd.log").read_text())
        yield f"{os.environ.get('USER', 'root')}@127.0.0.1:{port}"
    finally:
        os.killpg(server.pid, 9)
        server.wait()


def test_engines_by_ssh(ssh_host):
    with lk.cluster(2, launcher="ssh", host=ssh_host, python=sys.executable, timeout_s=120) as machine:
        assert [one[:2] for one in lk.run(where, 2, on=machine).results] == [(0, 2), (1, 2)]
        with raises_code(RankError, "rank-failed", "rank 1", "ValueError: on purpose"):
            lk.run(raising, 2, on=machine, timeout_s=60)
        assert [one[:2] for one in lk.run(where, 2, on=machine).results] == [(0, 2), (1, 2)]


def test_a_host_that_cannot_be_reached(ssh_host):
    with pytest.raises(
        MachineError, match=r"no engines could be started by ssh on me@127\.0\.0\.1:1: .*password"
    ):
        lk.cluster(2, launcher="ssh", host="me@127.0.0.1:1")
