"""The start of MPI engines: on this host, as a batch job of Slurm, or by ssh."""

from __future__ import annotations

from typing import Any

from labkit.errors import MachineError
from labkit.real.engines.start import START_S, LocalCluster
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
    from labkit.real.engines.remote import RemoteCluster

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
