"""The storage of a simulated run's files: a file server's bandwidth and latency."""

from __future__ import annotations

from dataclasses import dataclass

from labkit.errors import MachineError, PlatformError
from labkit.platform.quantities import format_bandwidth, format_time, parse_bandwidth, parse_time

__all__ = ["Storage", "storage_of"]


@dataclass(frozen=True)
class Storage:
    """What the files of a run are on (see `labkit.comm.files`).

    Attributes
    ----------
    bandwidth : float
        Bytes per second of all requests together.
    latency_s : float
        What every request takes besides.
    """

    bandwidth: float = 1e9
    latency_s: float = 1e-3

    def __str__(self) -> str:
        return f"bw={format_bandwidth(self.bandwidth)},lat={format_time(self.latency_s)}"


def storage_of(value: object) -> Storage:
    """Read the option `storage` of a run.

    Examples
    --------
    >>> storage_of("lat=500us")
    Storage(bandwidth=1000000000.0, latency_s=0.0005)
    """
    if value is None:
        return Storage()
    if isinstance(value, Storage):
        return value
    if not isinstance(value, str):
        raise MachineError(f"storage={value!r} is not known; write storage='bw=2GBps,lat=500us'")
    given: dict[str, float] = {}
    for part in filter(None, value.split(",")):
        name, _, text = part.partition("=")
        read = {"bw": parse_bandwidth, "lat": parse_time}.get(name.strip())
        if read is None or name.strip() in given:
            twice = "is given twice" if name.strip() in given else "is not known"
            raise MachineError(
                f"storage={value!r}: {name.strip()!r} {twice}; allowed: bw=2GBps and lat=500us"
            )
        try:
            given[name.strip()] = read(text.strip())
        except PlatformError as error:
            raise MachineError(f"storage={value!r}: {error}") from None
    return Storage(given.get("bw", Storage.bandwidth), given.get("lat", Storage.latency_s))
