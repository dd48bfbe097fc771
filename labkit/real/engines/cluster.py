"""The start of MPI engines: on this host, as a batch job of Slurm, or by ssh."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import shlex
import shutil
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from labkit.errors import MachineError
from labkit.process.tree import JOB_VARIABLE
from labkit.real.engines.start import START_S, LocalCluster, Parts
from labkit.real.slurm.collect import Line
from labkit.real.slurm.commands import SilentError, batch_script, find_by_name, job_details, job_states
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of

__all__ = ["cluster"]


def cluster(
    engines: int, *, mpi: str | None = None, restart: bool = False, timeout_s: float | None = None,
    launcher: Any = "mpi", host: str | None = None, **options: Any,
) -> LocalCluster:  # fmt: skip
    """Start an ipyparallel cluster of MPI engines: on this host, as a batch job of Slurm, or by ssh.

    A deadlock is told with its cycle while all engines are on this host; on others it ends at the time limit.

    Parameters
    ----------
    engines : int
        Number of engines: as many ranks as a run may have at the most.
    mpi : str, optional
        ``"bundled"``, ``"system"`` or the path of an mpiexec, as for ``on="mpi"``.
    restart : bool
        Whether a run that finds engines dead, or hanging in an earlier run, starts all of them anew first.
    timeout_s : float
        How long the engines may take to come up, in seconds; some 7 s are usual on this host. Default: 120;
        no limit for a batch job, which may wait in the queue.
    launcher : str or Slurm
        ``"mpi"`` for this host; ``"slurm"``, ``"slurm:PROFILE"`` or a `labkit.slurm` for a batch job of
        engines; ``"ssh"`` for those of another host. Engines elsewhere connect to a controller on this host,
        which then listens on all its interfaces; messages are signed with a key, not encrypted.
    host : str, optional
        With ssh: the other host, as ``user@host`` or ``user@host:port``, reached without a password, with
        labkit in its Python (the option ``python``; default: this one's path).
    **options
        With Slurm or ssh: options of `labkit.slurm`.

    Returns
    -------
    LocalCluster
        To be given as ``on=``, and to be stopped: by ``with``, by its `stop`, or at the end of this process.

    Raises
    ------
    MachineError
        ipyparallel or MPI is missing, or the engines do not come up.

    Examples
    --------
    >>> import labkit as lk
    >>> with lk.cluster(4) as machine:  # doctest: +SKIP
    ...     lk.run(lambda comm: comm.rank, ranks=4, on=machine).results
    [0, 1, 2, 3]
    """
    if isinstance(launcher, str) and launcher.strip().lower() == "mpi":
        if options or host:
            raise MachineError(
                f"engines on this host have no option {', '.join(map(repr, sorted(options))) or repr('host')}"
            )
        return LocalCluster(engines, mpi=mpi, restart=restart, timeout_s=timeout_s or START_S)
    chosen = options | ({} if mpi is None else {"mpi": mpi})
    if is_slurm(launcher):
        if host is not None:
            raise MachineError('host= belongs to launcher="ssh"; Slurm chooses the hosts')
        return RemoteCluster(engines, slurm_of(launcher).changed(**chosen), None, restart, timeout_s)
    if isinstance(launcher, str) and launcher.strip().lower() == "ssh":
        if not host:
            raise MachineError('launcher="ssh" needs host=, as in host="me@node1"')
        return RemoteCluster(engines, Slurm(**chosen), host, restart, timeout_s or START_S)
    raise MachineError(f'launcher= takes "mpi", "slurm" (or a labkit.slurm) or "ssh", got {launcher!r}')


# MPI engines elsewhere: as a batch job of Slurm, or on another host by ssh, through ipyparallel's.
#
# The controller stays on this host. One launcher starts all engines, so that they are one MPI world: what
# ipyparallel's launchers start is ``python -m labkit.real.slurm.engines``, which becomes that launcher.


#: environment variable with further options of ssh and scp, such as ``-F config``
SSH_OPTIONS_VARIABLE = "LABKIT_SSH_OPTIONS"


class RemoteCluster(LocalCluster):
    """MPI engines of a batch job, or of another host; see `labkit.cluster`."""

    def __init__(
        self, engines: int, options: Slurm, host: str | None, restart: bool, timeout_s: float | None
    ) -> None:
        self._options, self._host = options, host
        super().__init__(engines, restart=restart, timeout_s=float("inf") if timeout_s is None else timeout_s)

    def _check_host(self, engines: int) -> None:
        self._options.node_count(engines)

    def _new_parts(self) -> Parts:
        if self._host is None:
            return _SlurmParts(self._options, self.engines)
        return _SshParts(self._options, self.engines, self._host)


class _RemoteParts(Parts):
    """What both have in common: a controller that listens on all interfaces."""

    def __init__(self, options: Slurm, engines: int) -> None:
        super().__init__(None, engines)
        self.options = options

    def engine_command(self) -> list[str]:
        """Return the words that start all engines, without their own arguments."""
        packed = base64.urlsafe_b64encode(json.dumps(self.options.record()).encode()).decode()
        python = self.options.python or sys.executable
        return [python, "-P", "-m", "labkit.real.slurm.engines", packed, str(self.count)]

    def start_cluster(self, engines: str, n: int, config: Any) -> None:
        """Start the controller here, and the engines there."""
        import ipyparallel

        private = self.folders[0]
        own = {"IPYTHONDIR": private, JOB_VARIABLE: self.token, **self.tie(config)}
        config.EngineLauncher.environment = {JOB_VARIABLE: self.token}
        config.ControllerLauncher.environment = own
        log = logging.getLogger("labkit.cluster")
        log.setLevel(logging.CRITICAL)
        self.cluster = ipyparallel.Cluster(
            n=n, engines=engines, controller_ip="*", controller_location=_address(),
            profile_dir=os.path.join(private, "profile"), cluster_file="", config=config, load_profile=False,
            shutdown_atexit=False, delay=0.0, send_engines_connection_env=False, log=log,
        )  # fmt: skip
        self.cluster.start_cluster_sync()

    def give_up(self, why: str) -> MachineError:
        """Say that the engines did not come up."""
        told = " ".join(" ".join(text.split())[-600:] for text in self.engine_output()).strip()
        says = f"{self.describe()} says: {told or 'nothing'}"
        return MachineError(f"the {self.count} MPI engines did not come up: {why}; {says}")


class _SlurmParts(_RemoteParts):
    """Engines that are one batch job; the folder is on the file system that its nodes share."""

    @property
    def job_name(self) -> str:
        return f"labkit-engines-{self.token[:12]}"

    def describe(self) -> str:
        return f"a batch job of {self.options!r}"

    def make_folders(self) -> None:
        base = self.options.folder_path
        try:
            os.makedirs(base, mode=0o700, exist_ok=True)
            self.folders.append(tempfile.mkdtemp(prefix="cluster-", dir=base))
        except OSError as error:
            raise MachineError(
                f"no folder for the cluster in {base!r}: {error}; give folder= on a file system that the "
                "compute nodes share"
            ) from error

    def end_command(self) -> list[str]:
        path = shutil.which("scancel")
        return [path, "--name", self.job_name, "--user", str(os.geteuid())] if path else []

    def start_processes(self) -> None:
        from traitlets.config import Config

        if shutil.which("sbatch") is None:
            raise MachineError(
                "there is no sbatch on PATH: this is no login node of a Slurm cluster; without launcher= the "
                "engines start on this host"
            )
        folder = Path(self.folders[0])
        words = self.engine_command()
        script = batch_script(
            self.options, folder, name=self.job_name, ranks=self.count, seconds=None, work=os.getcwd(),
            command="ENGINES",
        )  # fmt: skip
        head, _, _ = script.rpartition("exec ")
        # ipyparallel formats the script: what is a brace there is two here.
        template = head.replace("{", "{{").replace("}", "}}") + "exec {program_and_args}\n"
        config = Config()
        config.EngineLauncher.engine_cmd = words
        config.SlurmEngineSetLauncher.batch_template = template
        config.SlurmEngineSetLauncher.batch_file_name = str(folder / "script.sh")
        config.SlurmEngineSetLauncher.output_file = str(folder / "slurm.out")
        self.start_cluster("slurm", self.count, config)

    def wait_for_engines(self, timeout_s: float) -> None:
        """Wait as long as the job may still begin."""
        begin, tell = time.monotonic(), Line()
        self.client = self.cluster.connect_client_sync()
        try:
            while len(self.client.ids) < self.count:
                waited = time.monotonic() - begin
                state = self._state()
                if state.startswith("over"):
                    raise self.give_up(f"their job is {state}")
                if waited > timeout_s:
                    raise self.give_up(f"after {timeout_s:g} s their job is {state}")
                tell(f"Slurm job of {self.count} engines {state}, waited {waited:.0f} s")
                with contextlib.suppress(Exception):
                    self.client.wait_for_engines(self.count, timeout=2, interactive=False)
        finally:
            tell("")

    def _state(self) -> str:
        """Say how the job is doing."""
        try:
            number = find_by_name(self.job_name)
            found = None if number is None else job_states([number]).get(number) or job_details(number)
        except SilentError as error:
            return f"unknown ({error})"
        if found is None:
            return "over: Slurm does not know it"
        reason = f" ({found.reason})" if found.reason not in ("", "None") else ""
        return f"over: {found.word}{reason}" if found.is_over else f"{found.word.lower()}{reason}"

    def engine_output(self) -> list[str]:
        folder = Path(self.folders[0])
        texts = [path.read_text("utf-8", "replace") for path in (folder / "refused", folder / "slurm.out")
                 if path.is_file()]  # fmt: skip
        return texts[:1]


class _SshParts(_RemoteParts):
    """Engines of another host: one mpiexec there, started through ssh."""

    def __init__(self, options: Slurm, engines: int, host: str) -> None:
        super().__init__(options, engines)
        self.host = host

    def describe(self) -> str:
        return f"ssh to {self.host}"

    def start_processes(self) -> None:
        from traitlets.config import Config

        config = Config()
        config.SSHEngineSetLauncher.engines = {self.host: 1}
        config.SSHEngineSetLauncher.remote_python = self.options.python or sys.executable
        config.SSHEngineSetLauncher.remote_profile_dir = f".labkit-{self.token[:12]}/profile"
        options = [*shlex.split(os.environ.get(SSH_OPTIONS_VARIABLE, "")), "-o", "BatchMode=yes"]
        config.SSHLauncher.ssh_args, config.SSHLauncher.scp_args = list(options), list(options)
        config.EngineLauncher.engine_cmd = self.engine_command()
        try:
            self.start_cluster("ssh", 1, config)
        except MachineError:
            raise
        except Exception as error:  # ipyparallel raises what its commands end with
            raise MachineError(
                f"no engines could be started by ssh on {self.host}: {' '.join(str(error).split())[-400:]}; "
                f"check that `ssh {self.host} python3 --version` works without a password"
            ) from error

    def wait_for_engines(self, timeout_s: float) -> None:
        try:
            self.client = self.cluster.connect_client_sync()
            self.client.wait_for_engines(self.count, timeout=timeout_s, interactive=False)
        except Exception as error:
            raise self.give_up(f"within {timeout_s:g} s ({type(error).__name__})") from error

    def engine_output(self) -> list[str]:
        found = []
        for one in self.cluster.engines.values():
            with contextlib.suppress(Exception):
                found.append(str(one.get_output()))
        return found


def _address() -> str:
    """Return the name under which other hosts reach this one, as far as it can be resolved."""
    name = socket.gethostname()
    try:
        socket.gethostbyname(name)
    except OSError:
        return "127.0.0.1"
    return name
