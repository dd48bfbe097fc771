"""The simulated file server: how long requests take."""

from __future__ import annotations

from typing import Any

from labkit.platform.storage import Storage, storage_of

__all__ = ["Server", "server_of"]


class Server:
    """The file server of one run.

    Parameters
    ----------
    storage : Storage
    """

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self._free_s = 0.0

    def end_of(self, begin_s: float, n_bytes: int, latencies: int = 1) -> float:
        """Take a request in: when it is over.

        Parameters
        ----------
        begin_s : float
            When it is made; not before those that were taken in before.
        n_bytes : int
        latencies : int
        """
        arrives = begin_s + latencies * self.storage.latency_s
        if not n_bytes:
            return arrives
        self._free_s = max(arrives, self._free_s) + n_bytes / self.storage.bandwidth
        return self._free_s


def server_of(calls: Any) -> Server:
    """Return the file server of a run."""
    if calls.server is None:
        calls.server = Server(storage_of(calls.storage))
    server: Server = calls.server
    return server
