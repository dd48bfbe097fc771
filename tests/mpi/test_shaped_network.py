"""A real network of shaped links: it is there, it is shaped, it goes away, and it is predicted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

import labkit as lk
from labkit.calibration import with_shares
from labkit.calibration.reality import FAR_LINKS, Job, compare, measure_jobs, predict, shaped_machine
from tests.support.shaped_network import TCP_SHARE, ShapedNetwork, find_mpich, why_not

RATE = 20e6

pytestmark = pytest.mark.mpi


@pytest.fixture(scope="module")
def namespaces():
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture(scope="module")
def mpich(namespaces):
    found = find_mpich()
    if found is None:
        pytest.skip("no MPICH: set LABKIT_MPICH to its mpiexec")
    return found


def network_of(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return None


def living_in(spaces: set[str]) -> list[int]:
    numbers = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return [number for number in numbers if network_of(number) in spaces]


def wait_until(condition, seconds: float = 20.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return bool(condition())


@pytest.mark.usefixtures("namespaces")
def test_nothing_is_left_after_a_failure():
    spaces, directory = set(), ""

    def fail():
        nonlocal directory
        with ShapedNetwork((2, 2)) as network:
            spaces.update(network_of(holder.pid) for holder in network._holders)
            directory = network.directory
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(spaces) == 5
    assert network_of(os.getpid()) not in spaces
    assert living_in(spaces) == []
    assert not os.path.exists(directory)


@pytest.mark.usefixtures("namespaces")
def test_nothing_is_left_of_an_owner_that_is_killed(tmp_path):
    code = textwrap.dedent(
        """
        import os, sys, time
        from tests.support.shaped_network import ShapedNetwork
        with ShapedNetwork((2,)) as network:
            spaces = [os.readlink(f"/proc/{holder.pid}/ns/net") for holder in network._holders]
            print(network.directory, *spaces, flush=True)
            time.sleep(600)
        """
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as owner:
        directory, *spaces = owner.stdout.readline().split()
        assert len(living_in(set(spaces))) >= 3
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert wait_until(lambda: living_in(set(spaces)) == [])
    assert wait_until(lambda: not os.path.exists(directory))


@pytest.mark.usefixtures("namespaces")
def test_both_ends_of_every_link_are_shaped():
    with ShapedNetwork((2, 1), RATE, 2 * RATE) as network:
        said = [
            subprocess.run(
                ["nsenter", f"--net=/proc/{holder.pid}/ns/net", "tc", "qdisc", "show"],
                capture_output=True, text=True, check=True,
            ).stdout
            for holder in network._holders
        ]  # fmt: skip
    for text in said[:-1]:
        assert text.count("rate 20Mbit") == 1
    assert said[-1].count("rate 20Mbit") == 3
    assert said[-1].count("rate 40Mbit") == 4  # two trunks, two ends


def hosts_seen(comm):
    return os.readlink("/proc/self/ns/net"), comm.allreduce(comm.rank)


def test_each_rank_runs_in_a_host_of_its_own(mpich, nothing_left):
    with ShapedNetwork((3,)) as network:
        done = lk.run(hosts_seen, 3, "mpi", mpi=network.launcher(mpich), timeout_s=60)
        spaces = [network_of(holder.pid) for holder in network._holders]
    assert [space for space, _ in done.results] == spaces[:3]
    assert [total for _, total in done.results] == [3, 3, 3]


@pytest.mark.slow
def test_predictions_meet_real_messages(mpich):
    """Calibrated on two hosts; alltoall, ring and tree broadcast on a star and on a tree with a shared trunk.

    The quickest of the rounds stands for the network: whatever else this host does can only delay messages.
    How flows from near and from far share a link, two hosts cannot measure: a third one does.
    """
    with ShapedNetwork((2,), RATE) as network:
        found = lk.calibrate(
            mpi=network.launcher(mpich), max_bytes=400_000, points=24, repeats=5, refine=0, window=4, pairs=2,
            statistic="min",
        )  # fmt: skip
    assert found.fit.bandwidth_bytes_per_s == pytest.approx(RATE / 8 * TCP_SHARE, rel=0.02)
    with ShapedNetwork((2, 1), RATE) as network:
        found = with_shares(
            found, mpi=network.launcher(mpich), far_links=FAR_LINKS, repeats=5, statistic="min"
        )  # fmt: skip
    assert found.fit.shares.ratio == pytest.approx(1.0, abs=0.1)  # queues know of no round trip
    jobs = [
        Job("alltoall", "linear", 200_000), Job("alltoall", "pairwise", 200_000),
        Job("bcast", "binomial", 100_000), Job("bcast", "binomial", 1_000_000),
        Job("bcast", "linear", 400_000), Job("bcast", "ring", 1_000_000),
    ]  # fmt: skip
    errors = []
    for groups in ((4,), (4, 4)):
        with ShapedNetwork(groups, RATE) as network:
            measured = measure_jobs(jobs, sum(groups), 4, 3, mpi=network.launcher(mpich))
        predicted = predict(shaped_machine(groups, found), found.model, sum(groups), jobs)
        table = compare(measured, predicted, "min")
        errors += table["error"].abs().tolist()
    errors.sort()
    assert errors[len(errors) // 2] < 0.05, errors
    assert errors[-1] < 0.10, errors
