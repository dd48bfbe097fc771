"""Seeded noise: what an operating system, a slow node and a bad cable do to a run, the same every time.

Three kinds, alone or together:

jitter
    The operating system takes the processor away: in every period of every rank one detour begins, at a
    random time, and lasts between nothing and twice `jitter_s`. Work that it meets stands still
    (computation and the overheads of messages); a rank that waits does not notice.
stragglers
    Some hosts do all their work slower, by a factor.
degraded links
    Some links carry less, or take longer.

Everything is drawn from the seed: detours are a fixed function of (seed, rank, time), so that two programs on
the same noisy machine meet the same noise. Work that lasts longer than a million periods meets the sum of the
remaining detours together: their mean, and a normally distributed deviation that is drawn for the rank.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from labkit.errors import PlatformError
from labkit.machines import quantities as units

if TYPE_CHECKING:
    from labkit import _kernels

__all__ = ["Noise", "disturbed", "noise_of"]


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Noise of a simulated machine.

    Attributes
    ----------
    jitter_s : float
        Mean length of a detour; 0 for none. Of a rank's working time a share of jitter_s / period_s goes to
        the detours.
    period_s : float
        Seconds: one detour in each period of each rank; at least twice `jitter_s`.
    stragglers : float or int
        Hosts that are slow: a share (a float from 0 to 1) or a number (an int).
    slowdown : float
        How many times longer their work takes, >= 1.
    links : float or int
        Links that are degraded: a share (a float) or a number (an int).
    bandwidth : float
        What is left of their bandwidth, above 0 and at most 1.
    latency : float
        How many times longer their latency is, >= 1.
    seed : int or None
        Draws everything; None: the run's seed, so that repetitions differ.

    Raises
    ------
    PlatformError
        A number out of range.

    Examples
    --------
    >>> Noise(jitter_s=50e-6, period_s=1e-3).detour_share
    0.05
    >>> Noise.parse("jitter=50us,period=1ms,stragglers=1,slowdown=2").stragglers
    1
    """

    jitter_s: float = 0.0
    period_s: float = 1e-3
    stragglers: float | int = 0
    slowdown: float = 2.0
    links: float | int = 0
    bandwidth: float = 0.1
    latency: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        """Refuse numbers that mean nothing."""
        for name in ("jitter_s", "period_s", "slowdown", "bandwidth", "latency"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
                raise PlatformError(
                    f"noise needs a finite number as {name}, got {value!r}", code="not-finite"
                )
        _require(self.jitter_s >= 0, "jitter_s >= 0", self.jitter_s)
        _require(self.period_s > 0, "period_s > 0", self.period_s)
        _require(2 * self.jitter_s <= self.period_s, "jitter_s of at most half of period_s", self.jitter_s)
        _require(self.slowdown >= 1, "slowdown >= 1", self.slowdown)
        _require(0 < self.bandwidth <= 1, "bandwidth above 0 and at most 1", self.bandwidth)
        _require(self.latency >= 1, "latency >= 1", self.latency)
        for name in ("stragglers", "links"):
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int | float) or not count >= 0:
                raise PlatformError(
                    f"noise needs a share or a number >= 0 as {name}, got {count!r}", code="out-of-range"
                )
            _require(isinstance(count, int) or count <= 1, f"a share of at most 1 as {name}", count)

    @property
    def detour_share(self) -> float:
        """Of working time, how much is lost to detours in the mean."""
        return self.jitter_s / self.period_s

    @property
    def is_quiet(self) -> bool:
        """Whether there is no noise."""
        return not (self.jitter_s or self.stragglers or self.links)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``jitter=50us,period=1ms,stragglers=1%,slowdown=2,links=3,bandwidth=0.1,latency=5,seed=7``.

        Parameters
        ----------
        text : str
            Numbers by name, behind commas.

        Raises
        ------
        PlatformError
            An option that is not known or cannot be read.
        """
        names = {field.name.removesuffix("_s"): field.name for field in fields(cls)}
        values: dict[str, Any] = {}
        for word in text.split(","):
            name, sign, value = word.strip().partition("=")
            if not sign or name not in names:
                raise PlatformError(
                    f"noise {text!r}: {word!r} is not an option; write NAME=VALUE, one of {', '.join(names)}",
                    code="unknown-name" if sign else "malformed-specification",
                )
            try:
                values[names[name]] = _read(names[name], value)
            except ValueError:
                raise PlatformError(
                    f"noise {text!r}: {name}={value!r} is not a number", code="malformed-value"
                ) from None
        return cls(**values)

    def seeded(self, seed: int) -> Noise:
        """Return the noise with a seed: its own, or the one given.

        Parameters
        ----------
        seed : int
            Of a run, from 0 on.

        Returns
        -------
        Noise
            Another one, unless it has a seed.
        """
        return self if self.seed is not None else replace(self, seed=seed)

    def degrade(self, built: _kernels.Platform) -> tuple[_kernels.Platform, list[str]]:
        """Return the compiled machine with its degraded links, and their names.

        Parameters
        ----------
        built : labkit._kernels.Platform
            The compiled machine.

        Returns
        -------
        (labkit._kernels.Platform, list of str)
            The machine, itself where no link is degraded, and the links.
        """
        chosen = self._draw("links", self.links, int(built.link_count))
        if not chosen:
            return built, []
        worse = built.degraded(chosen, float(self.bandwidth), float(self.latency))
        return worse, [built.link_name(link) for link in chosen]

    def slow_hosts(self, built: _kernels.Platform) -> list[int]:
        """Return the hosts that are slow.

        Parameters
        ----------
        built : labkit._kernels.Platform
            The compiled machine.

        Returns
        -------
        list of int
            Numbers of hosts, in order.
        """
        return self._draw("stragglers", self.stragglers, int(built.host_count))

    def disturb(
        self, engine: _kernels.Hub | _kernels.Replay | _kernels.GoalRun, built: _kernels.Platform
    ) -> list[int]:
        """Give the ranks of an engine (a hub, a replay) their noise; return the slow hosts.

        Parameters
        ----------
        engine : labkit._kernels.Hub or Replay
            Before its ranks begin.
        built : labkit._kernels.Platform
            The compiled machine.

        Returns
        -------
        list of int
            Numbers of hosts, in order.
        """
        slow, settings = self.settings(built)
        engine.set_noise(*settings)
        return slow

    def settings(self, built: _kernels.Platform) -> tuple[list[int], tuple[int, float, float, list[float]]]:
        """Return the slow hosts, and the engine's parameters: seed, period, mean detour, slowdowns.

        Parameters
        ----------
        built : labkit._kernels.Platform
            The compiled machine.

        Returns
        -------
        (list of int, tuple)
            Period and mean detour in seconds, a slowdown for each host.
        """
        slow = self.slow_hosts(built)
        hosts = np.asarray(built.rank_hosts)
        slowdown = np.where(np.isin(hosts, slow), float(self.slowdown), 1.0).tolist() if slow else []
        return slow, (self._seed(), self.period_s, float(self.jitter_s), slowdown)

    def record(self, slow: list[int], links: list[str]) -> dict[str, object]:
        """Return what a Run keeps of it: the numbers, and which hosts and links were drawn.

        Parameters
        ----------
        slow : list of int
            Hosts that are slow.
        links : list of str
            Links that are degraded.

        Returns
        -------
        dict
            JSON-able.
        """
        return asdict(self) | {"slow_hosts": slow, "degraded_links": links}

    def __str__(self) -> str:
        parts = []
        if self.jitter_s:
            parts.append(
                f"detours of {units.format_time(self.jitter_s)} every {units.format_time(self.period_s)}"
            )
        if self.stragglers:
            parts.append(f"{_amount(self.stragglers)} of hosts {self.slowdown:g} times slower")
        if self.links:
            what = [f"{self.bandwidth:g} of the bandwidth"] * (self.bandwidth < 1)
            what += [f"{self.latency:g} times the latency"] * (self.latency > 1)
            parts.append(f"{_amount(self.links)} of links with {' and '.join(what) or 'no change'}")
        return ("; ".join(parts) or "none") + ("" if self.seed is None else f"; seed {self.seed}")

    def _seed(self) -> int:
        return (self.seed or 0) % 2**64

    def _draw(self, what: str, amount: float | int, total: int) -> list[int]:
        """Draw items out of `total` without replacement, using a pinned bit stream."""
        count = amount if isinstance(amount, int) else round(amount * total)
        if count > total:
            raise PlatformError(
                f"noise asks for {count} {what}, but the machine has {total}", code="out-of-range"
            )
        if count == 0:
            return []
        words = np.random.PCG64([self._seed(), len(what)]).random_raw(total)
        return sorted(np.argsort(words, kind="stable")[:count].tolist())


def noise_of(noise: Noise | str | None) -> Noise:
    """Read the option `noise` of a run: a Noise, its text (`Noise.parse`), or "none" or None."""
    if noise is None:
        return Noise()
    if isinstance(noise, str):
        return Noise() if noise.strip() == "none" else Noise.parse(noise)
    if not isinstance(noise, Noise):
        raise PlatformError(
            f'noise must be a labkit.Noise or a string such as "jitter=50us,period=1ms", got {noise!r}',
            code="wrong-type",
        )
    return noise


def disturbed(built: _kernels.Platform, record: dict[str, Any] | None) -> _kernels.Platform:
    """Return a compiled machine as a run had it, by what the run recorded of its noise (None: none)."""
    if record is None:
        return built
    noise = Noise(**{field.name: record[field.name] for field in fields(Noise)})
    return noise.degrade(built)[0]


def _require(is_good: bool, needed: str, got: object) -> None:
    if not is_good:
        raise PlatformError(f"noise needs {needed}, got {got}", code="wrong-arguments")


def _amount(amount: float | int) -> str:
    return str(amount) if isinstance(amount, int) else f"{100 * amount:.3g} %"


def _read(name: str, text: str) -> float | int:
    if name in ("jitter_s", "period_s"):
        return units.parse_time(text, what=name.removesuffix("_s"))
    if name == "seed":
        return int(text)
    if name in ("stragglers", "links"):
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return int(text) if text.isdigit() else float(text)
    return float(text)
