"""Mappings of ranks to hosts: block, cyclic, seeded random or fragmented, or from a file."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from labkit.errors import PlatformError, nearest
from labkit.text.files import text_of

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = [
    "FORMS",
    "BlockMapping",
    "CyclicMapping",
    "FragmentedMapping",
    "ListedMapping",
    "RandomMapping",
    "RankMapping",
    "crowding",
    "mapping_of",
]

Hosts = NDArray[np.int32]
#: What a mapping may be, for messages.
FORMS = (
    "block, cyclic, random, random:SEED, block:RANKS_PER_HOST, fragmented, fragmented:SEED, a list with a "
    "host (number or name) for each rank, or a file with a host on each line"
)


class RankMapping(ABC):
    """A rule that places ranks on hosts; `str` gives the text that `mapping_of` reads."""

    @abstractmethod
    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Place the ranks.

        `ranks`, `hosts`, `cores`: Each at least 1; there may be more ranks than cores in all.
        Returns (ndarray of int32, shape (ranks,)): The host of each rank, from 0 on.
        Raises PlatformError: The rule cannot place this number of ranks.
        """

    def least_hosts(self, ranks: int) -> int:
        """Count the hosts that a machine must grow to, whatever its cores."""
        del ranks
        return 1

    def job_hosts(self, ranks: int, cores: int) -> int | None:
        """Count the hosts of a job; None for a rule that places ranks anywhere in the machine."""
        del ranks, cores
        return None


@dataclass(frozen=True)
class BlockMapping(RankMapping):
    """The first ranks on the first host, as many as it has cores (or evenly, where there are more ranks).

    `per_host`: Ranks on a host, where not as many as it has cores: 1 gives each rank its own host.
    """

    per_host: int | None = None

    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Rank r on host r // per host."""
        per_host = self.per_host or _per_host(ranks, hosts, cores)
        if ranks > hosts * per_host:
            raise PlatformError(
                f"mapping {self} puts {ranks} ranks on {-(-ranks // per_host)} hosts, and there are {hosts}; "
                "put more ranks on a host, or use more hosts",
                code="count-mismatch",
            )
        return (np.arange(ranks, dtype=np.int64) // per_host).astype(np.int32)

    def least_hosts(self, ranks: int) -> int:
        """As many as the ranks need."""
        return -(-ranks // self.per_host) if self.per_host else 1

    def job_hosts(self, ranks: int, cores: int) -> int:
        """As many as the ranks fill."""
        return -(-ranks // (self.per_host or cores))

    def __str__(self) -> str:
        return "block" if self.per_host is None else f"block:{self.per_host}"


@dataclass(frozen=True)
class CyclicMapping(RankMapping):
    """One rank after the other on one host after the other, and again from the first."""

    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Rank r on host r % hosts."""
        return (np.arange(ranks, dtype=np.int64) % hosts).astype(np.int32)

    def job_hosts(self, ranks: int, cores: int) -> int:
        """As many as ranks: a host for each, where there are enough."""
        del cores
        return ranks

    def __str__(self) -> str:
        return "cyclic"


@dataclass(frozen=True)
class RandomMapping(RankMapping):
    """Any core is as likely as any other; no core twice, unless there are more ranks than cores.

    The cores are sorted by keys of PCG64's raw stream, which no release of NumPy changes.

    `seed`: From 0 on.
    """

    seed: int = 0

    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Rank r on the host of the r-th core of a shuffled machine."""
        per_host = _per_host(ranks, hosts, cores)
        keys = np.random.PCG64(self.seed).random_raw(hosts * per_host)
        return (np.argsort(keys, kind="stable")[:ranks] // per_host).astype(np.int32)

    def __str__(self) -> str:
        return f"random:{self.seed}"


@dataclass(frozen=True)
class FragmentedMapping(RankMapping):
    """Hosts anywhere in the machine, each filled: what a scheduler gives when the machine is nearly full.

    The hosts are sorted by keys of PCG64's raw stream, which no release of NumPy changes.

    `seed`: From 0 on.
    """

    seed: int = 0

    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Rank r on the (r // per host)-th of the shuffled hosts."""
        order = np.argsort(np.random.PCG64(self.seed).random_raw(hosts), kind="stable")
        return order[np.arange(ranks, dtype=np.int64) // _per_host(ranks, hosts, cores)].astype(np.int32)

    def __str__(self) -> str:
        return f"fragmented:{self.seed}"


@dataclass(frozen=True)
class ListedMapping(RankMapping):
    """Host by host, as a list or a file says.

    `listed`: The host of each rank; a list longer than a run's ranks is used from its beginning.
    `source`: The file, for messages; empty for a list.
    `lines`: The line of each entry, where it came from a file.
    """

    listed: tuple[int, ...]
    source: str = ""
    lines: tuple[int, ...] = ()

    def place(self, ranks: int, hosts: int, cores: int) -> Hosts:
        """Rank r on the r-th host listed."""
        del cores
        for rank, host in enumerate(self.listed[:ranks]):
            if not 0 <= host < hosts:
                where = (
                    f"{self.source}, line {self.lines[rank]}" if self.lines else f"{self._what}, rank {rank}"
                )
                raise PlatformError(
                    f"{where}: host {host} is not there; the machine has hosts 0 to {hosts - 1}",
                    code="out-of-range",
                )
        if len(self.listed) < ranks:
            raise PlatformError(
                f"{self._what} names hosts for {len(self.listed)} ranks, this run has {ranks}; it needs a "
                "host for each rank",
                code="count-mismatch",
            )
        return np.array(self.listed[:ranks], dtype=np.int32)

    def least_hosts(self, ranks: int) -> int:
        """One more than the last host named."""
        return max(self.listed[:ranks], default=0) + 1

    @property
    def _what(self) -> str:
        return f"the mapping file {self.source}" if self.source else "the mapping"

    def __str__(self) -> str:
        return self.source or f"a list of {len(self.listed):,} hosts"


def mapping_of(
    what: str | os.PathLike[str] | Sequence[int | str] | RankMapping,
    number_of: Callable[[str], int | None] | None = None,
) -> RankMapping:
    """Read a mapping.

    Examples
    --------
    >>> mapping_of("cyclic").place(6, hosts=4, cores=2).tolist()
    [0, 1, 2, 3, 0, 1]
    >>> mapping_of([3, 3, 0]).place(2, hosts=4, cores=1).tolist()
    [3, 3]
    """
    if isinstance(what, RankMapping):
        return what
    if isinstance(what, str) and (named := named_mapping(what)) is not None:
        return named
    if isinstance(what, str | os.PathLike):
        return _from_file(Path(what), number_of or (lambda _: None))
    return _from_list(what, number_of or (lambda _: None))


def named_mapping(text: str) -> RankMapping | None:
    """Read a mapping that needs no file; None where it is not one of them."""
    if text in ("block", "cyclic"):
        return BlockMapping() if text == "block" else CyclicMapping()
    name, colon, seed = text.partition(":")
    if name == "block":
        if not (seed.isascii() and seed.isdigit() and 0 < len(seed) < 10 and int(seed) > 0):
            raise PlatformError(
                f"mapping {text!r}: {seed!r} is not a number of ranks on a host; write block or, for "
                "example, block:1",
                code="malformed-value",
            )
        return BlockMapping(int(seed))
    if name not in ("random", "fragmented"):
        return None
    if colon and not (seed.isascii() and seed.isdigit() and len(seed) < 19):
        raise PlatformError(
            f"mapping {text!r}: {seed!r} is not a seed; write {name} or, for example, {name}:7",
            code="malformed-value",
        )
    return RandomMapping(int(seed or 0)) if name == "random" else FragmentedMapping(int(seed or 0))


def _per_host(ranks: int, hosts: int, cores: int) -> int:
    return max(cores, -(-ranks // hosts))


def _from_list(what: object, number_of: Callable[[str], int | None]) -> ListedMapping:
    try:
        if isinstance(what, Sequence) and any(isinstance(one, str) for one in what):
            what = [
                _entry(one, f"mapping, rank {rank}", number_of)[0] if isinstance(one, str) else one
                for rank, one in enumerate(what)
            ]
        array = np.asarray(what)
        is_good = array.ndim == 1 and array.size > 0 and array.dtype.kind in "iu"
    except (TypeError, ValueError):
        is_good = False
    if not is_good:
        raise PlatformError(f"a mapping is {FORMS}; got {_shown(what)}", code="wrong-type")
    return ListedMapping(tuple(array.tolist()))


def _shown(what: object) -> str:
    text = repr(what)
    return f"{text[:60]}{'...' if len(text) > 60 else ''} ({type(what).__name__})"


def _from_file(path: Path, number_of: Callable[[str], int | None]) -> ListedMapping:
    try:
        text = text_of(path, PlatformError)
    except PlatformError as error:
        if error.code not in ("missing-file", "unreadable-file"):
            raise
        reason = str(error).partition(" cannot be read: ")[2] or error
        raise PlatformError(
            f"mapping {os.fspath(path)!r} is neither known nor a readable file ({reason})"
            f"{nearest(path.name, ('block', 'cyclic', 'random', 'fragmented'))}; allowed: {FORMS}",
            code="unknown-name",
        ) from None
    listed: list[int] = []
    lines: list[int] = []
    for line, content in enumerate(text.splitlines(), 1):
        entry = content.partition("#")[0].strip()
        if not entry:
            continue
        host, times = _entry(entry, f"{path}, line {line}", number_of)
        listed += [host] * times
        lines += [line] * times
        if len(listed) > 1 << 20:
            raise PlatformError(
                f"{path}, line {line}: more than 2^20 ranks, the most there may be", code="out-of-range"
            )
    if not listed:
        raise PlatformError(
            f"{path}: no host in it; write the host of each rank on a line, by number or name",
            code="malformed-file",
        )
    return ListedMapping(tuple(listed), str(path), tuple(lines))


def _entry(entry: str, where: str, number_of: Callable[[str], int | None]) -> tuple[int, int]:
    """Read ``host`` or ``host:ranks``; a name may hold blanks and colons, and look like a number."""
    if (whole := number_of(entry)) is not None:
        return whole, 1
    name, colon, count = (part.strip() for part in entry.rpartition(":"))
    if not colon:
        name, count = entry, ""
    if colon and not (count.isascii() and count.isdigit() and int(count[:9]) > 0 and len(count) < 9):
        raise PlatformError(
            f"{where}: {count[:60]!r} is not a number of ranks; write host or, for example, host-3:4",
            code="malformed-value",
        )
    host = number_of(name)
    if host is None and name.isascii() and name.isdigit() and len(name) < 10:
        host = int(name)
    if host is None:
        raise PlatformError(
            f"{where}: no host is called {name[:60]!r}; write one host, by its number or its name",
            code="unknown-name",
        )
    return host, int(count) if colon else 1


def crowding(built: _kernels.Platform) -> list[str]:
    """Return as sentences where ranks share cores; nothing where each has its own.

    Notes
    -----
    The rule is SimGrid's: while k ranks compute on a host with c cores, each goes on at min(1, c / k) of a
    core's speed. What calls of MPI cost themselves, and sleeping, need no core.
    """
    crowded = built.crowded_hosts()
    if not crowded:
        return []
    _, cores, ranks = max(crowded, key=lambda row: row[2] / row[1])
    where = "a host has" if len(crowded) == 1 else f"{len(crowded):,} hosts have"
    return [
        f"{where} more ranks than cores: what computes there at the same time shares them "
        f"({ranks} ranks on {cores} core{'s' if cores > 1 else ''}: up to {ranks / cores:.3g} times slower)"
    ]
