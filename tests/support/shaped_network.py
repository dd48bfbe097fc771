"""A real network on one machine: hosts in network namespaces, joined by links of a known bandwidth.

Each host is a network namespace with one interface, ``e0``, whose cable (a veth pair) ends in a bridge. Both
directions of a cable are shaped by a token bucket, so that messages between the hosts meet real queues, real
sharing and real TCP. Several bridges under one root bridge make a tree whose trunks are shared.

Nothing of it outlives its owner. A namespace lives as long as a process in it, and that process reads from a
pipe of the owner: whichever way the owner ends, the pipe closes, the process ends, and the kernel takes the
namespace and its links away.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

from labkit.errors import MachineError
from labkit.real.mpi.find import Launcher, find_launcher

__all__ = ["CHOICE_VARIABLE", "MTU_BYTES", "TCP_SHARE", "ShapedNetwork", "find_mpich", "why_not"]

#: environment variable with the path of MPICH's mpiexec
CHOICE_VARIABLE = "LABKIT_MPICH"

#: Frames are small, so that what depends on a frame (the bucket, the time it takes at each hop) stays small
#: beside a message.
MTU_BYTES = 576
#: A token bucket of little more than a frame (and its Ethernet header): a larger one would let the start of
#: every message pass unshaped.
BURST_BYTES = MTU_BYTES + 14 + 30
#: What a queue holds before it drops: enough for the windows of all flows, so that none waits for a
#: retransmission (200 ms at least).
QUEUE_BYTES = 4_000_000
#: The headers of a full frame over TCP/IP leave this part of a link's rate to the payload.
TCP_SHARE = (MTU_BYTES - 52) / (MTU_BYTES + 14)
#: Congestion control by loss: with no loss, flows fill their links. (BBR estimates a rate instead, and loses
#: a quarter of it where flows share links in both directions.)
CONGESTION_CONTROL = "reno"

_COMMAND_S = 20.0


def why_not() -> str | None:
    """Say why no shaped network can be built here; None when one can.

    Returns
    -------
    str or None
        One sentence for a skipped test.
    """
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if shutil.which(tool) is None:
            return f"{tool} is missing (Debian: iproute2, util-linux)"
    try:
        with ShapedNetwork((2,)):
            return None
    except MachineError as error:
        return str(error)


def find_mpich() -> Launcher | None:
    """Find an MPICH: that of ``LABKIT_MPICH``, or the one that labkit uses anyway, or the system's.

    Its wheel does not go into the environment of Open MPI's (both bring ``bin/mpiexec``), so::

        python -m venv --without-pip /tmp/mpich
        python -m pip --python /tmp/mpich/bin/python install mpich
        export LABKIT_MPICH=/tmp/mpich/bin/mpiexec

    Returns
    -------
    Launcher or None
        None when there is none.
    """
    for choice in (os.environ.get(CHOICE_VARIABLE), "bundled", "system"):
        if choice:
            with contextlib.suppress(MachineError):
                found = find_launcher(choice)
                if found.kind == "mpich":
                    return found
    return None


class ShapedNetwork:
    """Hosts joined by shaped links; a context manager.

    Parameters
    ----------
    groups : sequence of int
        Hosts per switch. One group is a star; several hang under a root switch by one trunk each.
    rate_bit_per_s : float
        Rate of every host's link, per direction.
    trunk_rate_bit_per_s : float, optional
        Rate of every trunk, per direction; default: that of a link.
    congestion_control : str
        TCP's, of those that the kernel knows.

    Raises
    ------
    MachineError
        On entry: the kernel, the rights or the tools do not allow it. What was built is taken away first.

    Examples
    --------
    Four hosts and MPICH between them::

        with ShapedNetwork((4,)) as network:
            mpi = network.launcher(find_launcher("mpich/bin/mpiexec"))
            lk.run(program, 4, "mpi", mpi=mpi)
    """

    def __init__(
        self,
        groups: Sequence[int],
        rate_bit_per_s: float = 100e6,
        trunk_rate_bit_per_s: float | None = None,
        congestion_control: str = CONGESTION_CONTROL,
    ) -> None:
        if not groups or min(groups) < 1 or sum(groups) > 200:
            raise MachineError(f"a shaped network has 1 to 200 hosts in groups of at least 1, got {groups!r}")
        self.groups = tuple(groups)
        self.rate_bit_per_s = rate_bit_per_s
        self.trunk_rate_bit_per_s = trunk_rate_bit_per_s or rate_bit_per_s
        self.congestion_control = congestion_control
        self.hosts = sum(self.groups)
        self._holders: list[subprocess.Popen[bytes]] = []
        self._lifeline: tuple[int, int] | None = None
        self.directory = ""

    def __enter__(self) -> ShapedNetwork:
        try:
            self.directory = tempfile.mkdtemp(prefix="labkit-network-")
            self._lifeline = os.pipe()
            self._build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the network away; a second call does nothing."""
        if self._lifeline is not None:
            for end in self._lifeline:
                with contextlib.suppress(OSError):
                    os.close(end)
            self._lifeline = None
        for holder in self._holders:
            try:
                holder.wait(timeout=2)
            except subprocess.TimeoutExpired:
                os.killpg(holder.pid, signal.SIGKILL)
                holder.wait()
        self._holders = []
        if self.directory:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = ""

    def address(self, host: int) -> str:
        """Return a host's address."""
        return f"10.77.0.{host + 1}"

    def launcher(self, mpich: Launcher) -> str:
        """Write an mpiexec that starts rank r on host r (round and round), and return its path.

        Parameters
        ----------
        mpich : Launcher
            An MPICH: its process manager starts ranks through any remote shell, here one that enters the
            namespaces.

        Returns
        -------
        str
            For the option `mpi` of `labkit.run`; valid until the network is closed.

        Raises
        ------
        MachineError
            It is not MPICH.
        """
        if mpich.kind != "mpich":
            raise MachineError(f"a shaped network needs MPICH to start its ranks, got {mpich.describe()}")
        agent = self._script(
            "agent",
            'while [ "${1#-}" != "$1" ]; do shift; done\nhost=$1; shift\ncase $host in\n'
            + "".join(f"{self.address(i)}) holder={self._holders[i].pid} ;;\n" for i in range(self.hosts))
            + '*) echo "no host $host in this network" >&2; exit 1 ;;\nesac\n'
            + 'exec nsenter --net=/proc/$holder/ns/net sh -c "$*"\n',
        )
        hosts = ",".join(map(self.address, range(self.hosts)))
        library = f"export MPI4PY_LIBMPI={mpich.library}\n" if mpich.library else ""
        return self._script(
            "mpiexec",
            f"export FI_PROVIDER=tcp FI_TCP_IFACE=e0 MPIR_CVAR_NOLOCAL=1 MPIR_CVAR_CH4_NETMOD=ofi\n{library}"
            f"exec nsenter --net=/proc/{self._holders[0].pid}/ns/net {mpich.path} -launcher ssh "
            f'-launcher-exec {agent} -iface e0 -hosts {hosts} "$@"\n',
        )

    # -- building --------------------------------------------------------------------------------------

    def _build(self) -> None:
        for _ in range(self.hosts + 1):  # the last one holds the switches
            self._hold()
        switches = self.hosts
        lines = [f"link add name sw{g} type bridge" for g in range(len(self.groups))]
        lines += [f"link set dev sw{g} up" for g in range(len(self.groups))]
        if len(self.groups) > 1:
            lines += ["link add name swroot type bridge", "link set dev swroot up"]
        self._ip(switches, lines)
        group_of = [g for g, size in enumerate(self.groups) for _ in range(size)]
        for host, group in enumerate(group_of):
            self._cable(host, group)
        if len(self.groups) > 1:
            for group in range(len(self.groups)):
                self._trunk(group)

    def _cable(self, host: int, group: int) -> None:
        """Join a host to its switch."""
        switches = self.hosts
        self._ip(
            host,
            [
                f"link add name e0 type veth peer name p{host} netns {self._holders[switches].pid}",
                f"address add {self.address(host)}/24 dev e0",
                "link set dev lo up",
                "link set dev e0 up",
            ],
        )
        self._ip(switches, [f"link set dev p{host} master sw{group}", f"link set dev p{host} up"])
        # By the route: a namespace may not choose another default than its kernel's.
        self._ip(host, [f"route change 10.77.0.0/24 dev e0 congctl {self.congestion_control}"])
        self._shape(host, "e0", self.rate_bit_per_s)
        self._shape(switches, f"p{host}", self.rate_bit_per_s)

    def _trunk(self, group: int) -> None:
        """Join a switch to the root switch."""
        switches = self.hosts
        self._ip(
            switches,
            [
                f"link add name up{group} type veth peer name down{group}",
                f"link set dev up{group} master sw{group}",
                f"link set dev down{group} master swroot",
                f"link set dev up{group} up",
                f"link set dev down{group} up",
            ],
        )
        for end in (f"up{group}", f"down{group}"):
            self._shape(switches, end, self.trunk_rate_bit_per_s)

    def _shape(self, namespace: int, device: str, rate: float) -> None:
        # Segments are cut before the token bucket, as by a network card: it would drop larger ones.
        self._enter(
            namespace,
            [
                "ip",
                "link",
                "set",
                "dev",
                device,
                "mtu",
                str(MTU_BYTES),
                "gso_max_segs",
                "1",
                "gso_max_size",
                "1514",
            ],
        )
        self._enter(
            namespace,
            ["tc", "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate:.0f}bit", "burst",
             str(BURST_BYTES), "limit", str(QUEUE_BYTES)],
        )  # fmt: skip

    def _hold(self) -> None:
        """Start the process that keeps a namespace alive: it ends when the owner's pipe closes.

        It then takes the private directory away, which a killed owner could not.
        """
        assert self._lifeline is not None
        before = os.stat("/proc/self/ns/net").st_ino
        holder = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", 'cat; rm -rf "$0"', self.directory],
            stdin=self._lifeline[0], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        self._holders.append(holder)
        until = time.monotonic() + _COMMAND_S
        while time.monotonic() < until and holder.poll() is None:
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{holder.pid}/ns/net").st_ino != before:
                    return
            time.sleep(0.002)
        raise MachineError("this kernel, or this container, gives no network namespace")

    def _ip(self, namespace: int, lines: Sequence[str]) -> None:
        self._enter(namespace, ["ip", "-batch", "-"], "\n".join(lines) + "\n")

    def _enter(self, namespace: int, command: Sequence[str], text: str = "") -> None:
        net = f"--net=/proc/{self._holders[namespace].pid}/ns/net"
        try:
            done = subprocess.run(
                ["nsenter", net, *command], input=text, capture_output=True, text=True, check=False,
                timeout=_COMMAND_S,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise MachineError(f"{' '.join(command)} does not answer in a network namespace") from None
        if done.returncode != 0:
            reason = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise MachineError(f"{' '.join(command)} failed in a network namespace: {reason[0]}")

    def _script(self, name: str, body: str) -> str:
        path = Path(self.directory) / name
        path.write_text("#!/bin/sh\n" + body, "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)
