"""Start MPI engines on this host with the settings of labkit's own launches, and stop them surely."""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import json
import logging
import os
import secrets
import shutil
import subprocess
import sys
import weakref
from pathlib import Path
from types import TracebackType
from typing import Any

from labkit.checks import check_ranks
from labkit.errors import MachineError
from labkit.place import check_place
from labkit.process.child import ChildProcess, module_words
from labkit.process.folders import make_folder, shared_folder
from labkit.process.tree import JOB_VARIABLE, end_processes
from labkit.process.watchdog import PIPE
from labkit.real.cores import available_cores
from labkit.real.engines.begin import FOLDERS_VARIABLE
from labkit.real.engines.target import memory_of
from labkit.real.failure import telling_line
from labkit.real.mpi.environment import launch_command, rank_environment
from labkit.real.mpi.find import find_launcher

__all__ = ["INSTALL_HINT", "START_S", "LocalCluster", "Parts"]

INSTALL_HINT = "install it with: python -m pip install 'labkit[mpi,lab]'"

#: how long the engines may take to come up on a busy host
START_S = 120.0


class LocalCluster:
    """MPI engines on this host; see `labkit.cluster`.

    Attributes
    ----------
    engines : int
        Their number.
    client : ipyparallel.Client
        A client, for whatever else the engines are to do (``client[:]`` is a view of all).
    """

    #: tells `labkit.run` what this is
    labkit_cluster = True

    def __init__(
        self, engines: int, *, mpi: str | None = None, restart: bool = False, timeout_s: float = START_S
    ) -> None:
        check_ranks(engines)
        self._check_host(engines)
        if importlib.util.find_spec("ipyparallel") is None:
            raise MachineError(f"a cluster of engines needs ipyparallel, which is missing; {INSTALL_HINT}")
        if os.environ.get(JOB_VARIABLE):
            raise MachineError("this process is itself a rank of a run, and cannot start a cluster")
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
            raise MachineError(f"{engines:,} engines are too many for this host: at most {most} are started")

    def _new_parts(self) -> Parts:
        return Parts(find_launcher(self._mpi), self.engines)

    @property
    def client(self) -> Any:
        """The client; a new one after a restart."""
        if self._parts is None:
            raise MachineError("this cluster has been stopped; restart() starts it again")
        return self._parts.client

    def ready_client(self) -> Any:
        """Return the client, with the engines started anew where that is needed and wished for."""
        if self.needs_restart():
            self.restart()
        return self.client

    @property
    def restart_hint(self) -> str:
        """Say what brings lost engines back."""
        return "the next run starts all of them anew" if self._restarts else "call the cluster's restart()"

    def needs_restart(self) -> bool:
        """Whether the next run starts all engines anew: some are dead or hang, and `restart` was wished."""
        client = self.client
        return self._restarts and bool(len(client.ids) < self.engines or memory_of(client).stuck_ranks())

    def stop(self) -> None:
        """End the engines and the controller, whatever they are doing, and remove their files."""
        parts, self._parts = self._parts, None
        if parts is not None:
            parts.stop()

    def restart(self) -> LocalCluster:
        """Start all engines anew: the cure for engines that hang or have died."""
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
                f"no private folder for the cluster: {error}; set TMPDIR to a folder that can be written"
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
                f"the {self.count} MPI engines did not come up within {timeout_s:g} s "
                f"({type(error).__name__}: {error}); {self.launcher.path} says: {told}; see labkit doctor"
            ) from error

    def _start_guard(self) -> None:
        self.guard = ChildProcess(
            module_words("labkit.real.engines.guard"), stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        what = json.dumps([self.token, self.folders, self.end_command()]).encode() + b"\n"
        assert self.guard.popen.stdin is not None
        self.guard.popen.stdin.write(what)
        self.guard.popen.stdin.flush()

    def start_processes(self) -> None:
        """Start the controller and the engines."""
        import ipyparallel
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
        log = logging.getLogger("labkit.cluster")
        log.setLevel(logging.CRITICAL)
        self.cluster = ipyparallel.Cluster(
            n=self.count, engines="mpi", profile_dir=os.path.join(private, "profile"), cluster_file="",
            config=config, load_profile=False, shutdown_atexit=False, delay=0.0, log=log,
        )  # fmt: skip
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
                f"processes {sorted(left)} of this cluster could not be ended; end them by hand"
            )


_running: weakref.WeakSet[Parts] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for parts in list(_running):
        parts.stop()
