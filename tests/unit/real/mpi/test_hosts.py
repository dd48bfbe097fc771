"""Host files: what they say, what is refused, and what ranks on several hosts mean for times."""

from __future__ import annotations

import pytest

from labkit.errors import MachineError
from labkit.process.watchdog import whereabouts
from labkit.real.mpi.client import launch_failure
from labkit.real.mpi.environment import host_options, launch_command, rank_environment
from labkit.real.mpi.find import Launcher
from labkit.real.mpi.hosts import (
    FOLDER_VARIABLE,
    HOSTFILE_VARIABLE,
    clocks,
    find_host_file,
    hosts_note,
    shared_cores,
)
from labkit.real.mpi.launch import Launch, LaunchEnding
from tests.support.refusals import raises_code

OPEN_MPI = Launcher("/opt/mpi/bin/mpiexec", "openmpi", (5, 0, 11), True, "/opt/mpi/lib/libmpi.so.40")
MPICH = Launcher("/opt/mpich/bin/mpiexec", "mpich", (4, 3, 0), True, None)


@pytest.fixture(autouse=True)
def no_host_file(monkeypatch):
    monkeypatch.delenv(HOSTFILE_VARIABLE, raising=False)
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)


def written(tmp_path, text):
    path = tmp_path / "hosts"
    path.write_text(text)
    return path


def test_both_spellings_comments_and_repeated_hosts_are_read(tmp_path):
    path = written(tmp_path, "# ours\nhead slots=2\n\nnode-1.lan:4 # new\n10.0.0.7\nhead slots = 1\n")
    hosts = find_host_file(path)
    assert hosts.slots == (("head", 3), ("node-1.lan", 4), ("10.0.0.7", 1))
    assert hosts.total == 8
    assert hosts.folder == str(tmp_path)


def test_the_variable_names_the_file_and_the_folder(tmp_path, monkeypatch):
    assert find_host_file() is None
    shared = tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setenv(HOSTFILE_VARIABLE, str(written(tmp_path, "a\nb\n")))
    monkeypatch.setenv(FOLDER_VARIABLE, str(shared))
    assert find_host_file().slots == (("a", 1), ("b", 1))
    assert find_host_file().folder == str(shared)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ("missing-tool",)),
        ("# nobody\n", ("missing-tool",)),
        ("a slots=0\n", ("malformed-line", "line 1")),
        ("ok\na slots=many\n", ("malformed-line", "line 2")),
        ("a; rm -rf x\n", ("malformed-line", "line 1")),
        ("-oProxyCommand=x\n", ("malformed-line", "line 1")),
        ("-x\n", ("malformed-line", "line 1")),
        ("a b\n", ("malformed-line", "line 1")),
    ],
)
def test_what_is_no_host_file_is_refused_in_a_sentence(tmp_path, text, wanted: tuple[str, ...]):
    with raises_code(MachineError, *wanted):
        find_host_file(written(tmp_path, text))


def test_a_missing_file_and_a_missing_folder_are_refused(tmp_path, monkeypatch):
    with raises_code(MachineError, "missing-file"):
        find_host_file(tmp_path / "none")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path / "none"))
    with raises_code(MachineError, "wrong-kind-of-file", FOLDER_VARIABLE):
        find_host_file(written(tmp_path, "a\n"))


@pytest.mark.parametrize(
    ("launcher", "line", "options"),
    [
        (OPEN_MPI, "b slots=3", ["--prefix", "/opt/mpi", "--hostfile"]),
        (MPICH, "b:3", ["-f"]),
    ],
)
def test_each_launcher_gets_its_own_form_and_passes_the_settings_on(tmp_path, launcher, line, options):
    hosts = find_host_file(written(tmp_path, "a slots=2\nb slots=3\n"))
    environment = rank_environment(launcher, {"HOME": "/h"}, "token", "/s", None, hosts)
    file = str(tmp_path / "ours")
    found = host_options(launcher, hosts, file, environment)
    assert line in (tmp_path / "ours").read_text().splitlines()
    assert found[: len(options)] == options
    passed = {word for word in ",".join(found).split(",") if word in environment}
    assert {"LABKIT_JOB", "PYTHONFAULTHANDLER", "OMP_NUM_THREADS"} <= passed
    assert "HOME" not in passed
    command = launch_command(launcher, 5, "/job", found)
    assert command[: len(found) + 1] == [launcher.path, *found]


def test_several_hosts_need_a_network_and_one_does_not_look_for_any(tmp_path):
    hosts = find_host_file(written(tmp_path, "a\n"))
    many = rank_environment(OPEN_MPI, {}, "token", "/s", None, hosts)
    one = rank_environment(OPEN_MPI, {}, "token", "/s", None)
    assert many["OMPI_MCA_btl"] == "self,sm,tcp"
    assert one["OMPI_MCA_btl"] == "self,sm,tcp"
    assert (one["OMPI_MCA_btl_tcp_if_include"], "OMPI_MCA_btl_tcp_if_include" in many) == (
        "127.0.0.0/8",
        False,
    )
    assert rank_environment(MPICH, {}, "token", "/s", None, hosts)["HYDRA_LAUNCHER"] == "ssh"


def test_an_unknown_launcher_takes_no_host_file(tmp_path):
    hosts = find_host_file(written(tmp_path, "a\n"))
    with raises_code(MachineError, "missing-tool"):
        host_options(Launcher("/x", "unknown", (), False), hosts, str(tmp_path / "f"), {})


def about(host, boot, cores=2, machine_cores=2):
    return {"host": host, "boot": boot, "cores": cores, "machine_cores": machine_cores}


def test_containers_of_one_machine_share_its_clock_and_its_cores():
    abouts = [about("head", "m"), about("head", "m"), about("w1", "m"), about("w2", "m")]
    assert clocks(abouts) == [[0, 1, 2, 3]]
    assert shared_cores(abouts) == [(4, 2, "the machine of head and w1 and w2")]
    assert hosts_note(abouts) == ["ranks by host: 2 on head, 1 on w1, 1 on w2"]


def test_machines_of_their_own_have_clocks_and_cores_of_their_own():
    abouts = [about("a", "m1"), about("b", "m2"), about("b", "m2")]
    assert clocks(abouts) == [[0], [1, 2]]
    assert shared_cores(abouts) == []
    assert "clocks differ" in hosts_note(abouts)[1]
    assert shared_cores([*abouts, about("b", "m2")]) == [(3, 2, "b")]


def test_a_container_with_a_quota_counts_by_its_quota():
    abouts = [about("a", "m", 1, 8), about("b", "m", 1, 8), about("b", "m", 1, 8)]
    assert shared_cores(abouts) == [(3, 2, "the machine of a and b")]


def test_one_host_is_worth_no_note():
    assert hosts_note([about("a", "m")] * 3) == []


def test_a_process_says_where_it_is():
    here = whereabouts()
    assert here == whereabouts()
    assert here["host"]


def test_a_connection_that_broke_is_reported_where_the_launcher_names_no_rank(tmp_path):
    """A rank on another host is killed, and the others find out before the launcher does."""
    job = Launch(OPEN_MPI, 2, {}, b"", 1000)
    job.directory = str(tmp_path)
    for rank in range(2):
        job.rank_file(rank, "pid").write_text(f"{100 + rank} elsewhere")
        job.rank_file(rank, "out").write_text("[head:1] *** An error occurred in Socket closed\n")
    error = launch_failure(job, LaunchEnding("ended", 14, 1.0), 10.0)
    assert isinstance(error, MachineError)
    assert "the connection to a rank broke, and ranks 0-1" in str(error)
