"""The start of MPI engines: on this host, as a batch job of Slurm, or by ssh."""

from __future__ import annotations

import atexit
import base64
import contextlib
import importlib.util
import json
import logging
import os
import secrets
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit.checks import check_ranks
from labkit.errors import MachineError
from labkit.process.child import ChildProcess, module_words
from labkit.process.folders import make_folder, shared_folder
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import PIPE
from labkit.real.context import available_cores
from labkit.real.engines.begin import FOLDERS_VARIABLE
from labkit.real.engines.target import memory_of
from labkit.real.failure import telling_line
from labkit.real.host_limits import check_place
from labkit.real.mpi.environment import launch_command, rank_environment
from labkit.real.mpi.find import find_launcher
from labkit.real.slurm.collect import Line
from labkit.real.slurm.commands import SilentError, batch_script, find_by_name, job_details, job_states
from labkit.real.slurm.options import Slurm, is_slurm, slurm_of

__all__ = ["cluster"]


# Start MPI engines on this host with the settings of labkit's own launches, and stop them surely.


INSTALL_HINT = "install it with: python -m pip install 'labkit[mpi,lab]'"

#: how long the engines may take to come up on a busy host
START_S = 120.0


class LocalCluster:
    """MPI engines on this host; see `labkit.cluster`.

    `engines`: Their number.
    `client`: A client, for whatever else the engines are to do (``client[:]`` is a view of all).
    """

    #: marks this as a machine for `labkit.run`
    labkit_cluster = True

    def __init__(
        self, engines: int, *, mpi: str | None = None, restart: bool = False, timeout_s: float = START_S
    ) -> None:
        check_ranks(engines)
        self._check_host(engines)
        if importlib.util.find_spec("ipyparallel") is None:
            raise MachineError(
                f"a cluster of engines needs ipyparallel, which is missing; {INSTALL_HINT}",
                code="missing-package",
            )
        if os.environ.get(JOB_VARIABLE):
            raise MachineError(
                "this process is itself a rank of a run, and cannot start a cluster", code="nested-run"
            )
        self.engines = int(engines)
        self._mpi = mpi
        self._restarts = restart
        self._timeout_s = timeout_s
        self._parts: Parts | None = None
        self._start()

    def _check_host(self, engines: int) -> None:
        """Refuse more engines than this host could bear."""
        check_place(engines, "engines of real MPI")
        most = max(32, 4 * available_cores())
        if engines > most:
            raise MachineError(
                f"{engines:,} engines are too many for this host: at most {most} are started",
                code="too-many-ranks",
            )

    def _new_parts(self) -> Parts:
        return Parts(find_launcher(self._mpi), self.engines)

    @property
    def client(self) -> Any:
        """The client; a new one after a restart."""
        if self._parts is None:
            raise MachineError("this cluster has been stopped; restart() starts it again", code="wrong-order")
        return self._parts.client

    def ready_client(self) -> Any:
        """Return the client, with the engines started again where that is needed and wished for."""
        if self.needs_restart():
            self.restart()
        return self.client

    @property
    def restart_hint(self) -> str:
        """Return as text what brings lost engines back."""
        return "the next run starts all of them again" if self._restarts else "call the cluster's restart()"

    def needs_restart(self) -> bool:
        """Whether the next run starts all engines again: some are dead or hang, and `restart` was wished."""
        client = self.client
        return self._restarts and bool(len(client.ids) < self.engines or memory_of(client).stuck_ranks())

    def stop(self) -> None:
        """End the engines and the controller, whatever they are doing, and remove their files."""
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.stop()

    def restart(self) -> LocalCluster:
        """Start all engines again: the cure for engines that hang or have died."""
        self.stop()
        self._start()
        return self

    def __enter__(self) -> LocalCluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._parts is None else self._parts.describe()
        return f"<cluster of {self.engines} MPI engines, {state}>"

    def _start(self) -> None:
        parts = self._new_parts()
        try:
            parts.start(self._timeout_s)
        except BaseException:
            parts.stop()
            raise
        self._parts = parts


class Parts:
    """The processes and folders of one start."""

    def __init__(self, launcher: Any, engines: int) -> None:
        self.launcher, self.count = launcher, engines
        self.token = secrets.token_hex(16)
        self.folders: list[str] = []
        self.guard: ChildProcess | None = None
        self.cluster: Any = None
        self.client: Any = None
        self._held_pipe: int | None = None

    def describe(self) -> str:
        """Name what has started the engines."""
        return str(self.launcher.describe())

    def make_folders(self) -> None:
        """Make the private folders."""
        try:
            self.folders.append(make_folder())
            shared = shared_folder(self.folders[0])
            self.folders += [shared] if shared else []
        except OSError as error:
            raise MachineError(
                f"no private folder for the cluster: {error}; set TMPDIR to a folder that can be written",
                code="unwritable-file",
            ) from error

    def end_command(self) -> list[str]:
        """Return the command that ends what runs on other hosts; empty when nothing does."""
        return []

    def start(self, timeout_s: float) -> None:
        """Start everything, and wait for the engines."""
        self.make_folders()
        self._start_guard()
        _running.add(self)
        self.start_processes()
        self.wait_for_engines(timeout_s)

    def wait_for_engines(self, timeout_s: float) -> None:
        """Connect, and wait until all engines are there."""
        try:
            self.client = self.cluster.connect_client_sync()
            self.client.wait_for_engines(self.count, timeout=timeout_s, interactive=False)
        except Exception as error:
            told = "; ".join(telling_line(text) for text in self.engine_output())
            raise MachineError(
                f"the {self.count} MPI engines did not start within {timeout_s:g} s "
                f"({type(error).__name__}: {error}); {self.launcher.path} printed: {told}; see labkit doctor",
                code="not-started",
            ) from error

    def _start_guard(self) -> None:
        self.guard = ChildProcess(
            module_words("labkit.real.engines.guard"),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        what = json.dumps([self.token, self.folders, self.end_command()]).encode() + b"\n"
        assert self.guard.popen.stdin is not None
        self.guard.popen.stdin.write(what)
        self.guard.popen.stdin.flush()

    def start_processes(self) -> None:
        """Start the controller and the engines."""
        from traitlets.config import Config

        private = self.folders[0]
        scratch = os.path.join(private, "s")
        os.mkdir(scratch)
        shared = self.folders[1] if len(self.folders) > 1 else None
        wanted = rank_environment(self.launcher, os.environ, self.token, scratch, shared)
        new = {name: value for name, value in wanted.items() if os.environ.get(name) != value}
        new["IPYTHONDIR"] = private  # nobody's start-up files, and nothing left in anybody's profile
        command = launch_command(self.launcher, self.count, private)
        command = command[: command.index("-n")]
        confusing = sorted(set(os.environ) - set(wanted))
        if confusing:  # left by another launcher or a batch system
            unset = [word for name in confusing for word in ("-u", name)]
            command = [shutil.which("env") or "env", *unset, *command]
        config = Config()
        config.MPIEngineSetLauncher.mpi_cmd = command
        new |= self.tie(config)
        config.EngineLauncher.engine_cmd = [sys.executable, "-m", "labkit.real.engines.begin", "engine"]
        config.EngineLauncher.environment = new
        config.ControllerLauncher.environment = {**new, "OMPI_MCA_btl": "self"}
        self.open(config, n=self.count, engines="mpi")

    def open(self, config: object, **options: object) -> None:
        """Start a cluster of ipyparallel's, which keeps quiet and leaves no files behind."""
        import ipyparallel

        log = logging.getLogger("labkit.cluster")
        log.setLevel(logging.CRITICAL)
        self.cluster = ipyparallel.Cluster(
            profile_dir=os.path.join(self.folders[0], "profile"),
            cluster_file="",
            config=config,
            load_profile=False,
            shutdown_atexit=False,
            delay=0.0,
            log=log,
            **options,
        )
        self.cluster.start_cluster_sync()

    def tie(self, config: Any) -> dict[str, str]:
        """Let the controller end with this process, and return the environment that it and engines need."""
        pipe = os.path.join(self.folders[0], PIPE)
        os.mkfifo(pipe, 0o600)
        self._held_pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        config.ControllerLauncher.controller_cmd = module_words("labkit.real.engines.begin", "controller")
        return {FOLDERS_VARIABLE: json.dumps(self.folders)}

    def engine_output(self) -> list[str]:
        """Return what the launchers of the engines have printed."""
        found = []
        for one in self.cluster.engines.values():
            with contextlib.suppress(OSError):
                found.append(Path(one.output_file).read_text("utf-8", "replace"))
        return found or [""]

    def stop(self) -> None:
        """End everything, and remove the folders."""
        _running.discard(self)
        if self.client is not None:
            with contextlib.suppress(Exception):
                self.client.close()
        if command := self.end_command():
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                subprocess.run(command, capture_output=True, timeout=60, check=False)
        left = end_processes(self.token)
        if self.cluster is not None:
            with contextlib.suppress(Exception):  # bookkeeping only: the processes are gone
                self.cluster.stop_cluster_sync()
        if self.guard is not None and self.guard.popen.stdin is not None:
            with contextlib.suppress(OSError):
                self.guard.popen.stdin.close()
            self.guard.wait(10)
            self.guard.end()
        if self._held_pipe is not None:
            os.close(self._held_pipe)
            self._held_pipe = None
        for folder in self.folders:
            shutil.rmtree(folder, ignore_errors=True)
        if left:
            raise MachineError(
                f"processes {sorted(left)} of this cluster could not be ended; end them manually",
                code="machine-failed",
            )


_running: weakref.WeakSet[Parts] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for parts in list(_running):
        parts.stop()


def cluster(
    engines: int,
    *,
    mpi: str | None = None,
    restart: bool = False,
    timeout_s: float | None = None,
    launcher: object = "mpi",
    host: str | None = None,
    **options: Any,
) -> LocalCluster:
    """Start an ipyparallel cluster of MPI engines: on this host, as a batch job of Slurm, or by ssh.

    A deadlock is reported with its cycle if all engines are on this host, otherwise at the time limit.

    Parameters
    ----------
    engines : int
        Number of engines: as many ranks as a run may have at the most.
    mpi : str, optional
        ``"bundled"``, ``"system"`` or the path of an mpiexec, as for ``on="mpi"``.
    restart : bool
        Whether a run that finds engines dead, or hanging in an earlier run, starts all of them again first.
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
                f"engines on this host have no option {', '.join(map(repr, sorted(options) or ['host']))}",
                code="unknown-name",
            )
        return LocalCluster(engines, mpi=mpi, restart=restart, timeout_s=timeout_s or START_S)
    chosen = options | ({} if mpi is None else {"mpi": mpi})
    if is_slurm(launcher):
        if host is not None:
            raise MachineError(
                'host= belongs to launcher="ssh"; Slurm chooses the hosts', code="conflicting-options"
            )
        return RemoteCluster(engines, slurm_of(launcher).changed(**chosen), None, restart, timeout_s)
    if isinstance(launcher, str) and launcher.strip().lower() == "ssh":
        if not host:
            raise MachineError('launcher="ssh" needs host=, as in host="me@node1"', code="missing-key")
        return RemoteCluster(engines, Slurm(**chosen), host, restart, timeout_s or START_S)
    raise MachineError(
        f'launcher= takes "mpi", "slurm" (or a labkit.slurm) or "ssh", got {launcher!r}', code="unknown-name"
    )


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
        """Return the command that starts all engines, without their own arguments."""
        packed = base64.urlsafe_b64encode(json.dumps(self.options.record()).encode()).decode()
        python = self.options.python or sys.executable
        return [python, "-P", "-m", "labkit.real.slurm.engines", packed, str(self.count)]

    def start_cluster(self, engines: str, n: int, config: Any) -> None:
        """Start the controller here, and the engines there."""
        own = {"IPYTHONDIR": self.folders[0], JOB_VARIABLE: self.token, **self.tie(config)}
        config.EngineLauncher.environment = {JOB_VARIABLE: self.token}
        config.ControllerLauncher.environment = own
        self.open(
            config,
            n=n,
            engines=engines,
            controller_ip="*",
            controller_location=_address(),
            send_engines_connection_env=False,
        )

    def give_up(self, why: str) -> MachineError:
        """Report that the engines did not start."""
        told = " ".join(" ".join(text.split())[-600:] for text in self.engine_output()).strip()
        said = f"{self.describe()} printed: {told or 'nothing'}"
        return MachineError(f"the {self.count} MPI engines did not start: {why}; {said}", code="not-started")


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
                "compute nodes share",
                code="unwritable-file",
            ) from error

    def end_command(self) -> list[str]:
        path = shutil.which("scancel")
        return [path, "--name", self.job_name, "--user", str(os.geteuid())] if path else []

    def start_processes(self) -> None:
        from traitlets.config import Config

        if shutil.which("sbatch") is None:
            raise MachineError(
                "there is no sbatch on PATH: this is no login node of a Slurm cluster; without launcher= the "
                "engines start on this host",
                code="missing-tool",
            )
        folder = Path(self.folders[0])
        words = self.engine_command()
        script = batch_script(
            self.options,
            folder,
            name=self.job_name,
            ranks=self.count,
            seconds=None,
            work=os.getcwd(),
            command="ENGINES",
        )
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
        """Describe how the job is doing."""
        try:
            number = find_by_name(self.job_name)
            found = None if number is None else job_states([number]).get(number) or job_details(number)
        except SilentError as error:
            return f"unknown ({error})"
        if found is None:
            return "over: Slurm does not list it"
        reason = f" ({found.reason})" if found.reason not in ("", "None") else ""
        return f"over: {found.word}{reason}" if found.is_over else f"{found.word.lower()}{reason}"

    def engine_output(self) -> list[str]:
        folder = Path(self.folders[0])
        texts = [
            path.read_text("utf-8", "replace")
            for path in (folder / "refused", folder / "slurm.out")
            if path.is_file()
        ]
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
                f"check that `ssh {self.host} python3 --version` works without a password",
                code="not-started",
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
