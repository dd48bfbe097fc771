"""The simulated machine as the running rank sees it."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from labkit.comm.collective.calls import phase_line
from labkit.program.context import Decisions
from labkit.program.function_phases import matches
from labkit.program.rank_counts import Tally
from labkit.program.sampling import Sample
from labkit.program.variation import Variation
from labkit.sim.isolation.alarms import Alarms
from labkit.sim.isolation.process_state import Store, Swaps
from labkit.sim.measured import Measured
from labkit.trace.trace import NO_PHASE, Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from labkit._kernels import Hub, HubSums
    from labkit.comm.collective.calls import CollectiveCalls
    from labkit.local.costs import KernelCosts

__all__ = ["RankContext"]

#: the most that a reading of the clock costs in a model
_READ_COST_S = 2e-8
#: readings in a row after which each takes longer: by these seconds, or by this share of the wait
_MANY_READS, _READ_S, _READ_SHARE = 10_000, 1e-8, 1e-3


class RankContext:
    """The machine as the running rank sees it; one object serves all ranks."""

    #: a digest of the machine, its mapping, the network model and the calibration
    setting = ""
    #: patterns of phases in which no calls are noted
    left_out: tuple[str, ...] = ()
    #: whether ranks share memory, so that one may wait for another one's store
    shares_memory = False

    def __init__(
        self, hub: Hub, size: int, calls: CollectiveCalls, calibration: KernelCosts, measured: Measured
    ) -> None:
        self.hub, self._size = hub, size
        #: collective calls under way, and what communicators carry (`labkit.comm`)
        self.calls = calls
        self._measured = measured
        self._is_sampling = False
        #: whether the program has charged any computation
        self.is_charged = measured.is_everything
        #: whether the run is written down as a time-independent trace
        self.keeps_calls = False
        #: what sampled work took, by name and rank (-1: all ranks together)
        self.notes: list[str] = []
        self._alarms = Alarms()
        self.samples: dict[tuple[str, int], Sample] = {}
        #: what requests have decided (`labkit.tune`)
        self.decisions = Decisions()
        #: what ranks of stand-in data exchange in addition to messages (`labkit.local.standin`)
        self.board: dict[object, object] = {}
        #: what ranks wait for of their own process, by rank; and what returns the running rank's
        self.waits: dict[int, Any] = {}
        self.own_waits: Any = None
        #: what ranks have for themselves of what the process has once, and of logging
        self.swaps, self.logs = Swaps(), Store()
        #: what the ranks' node-local work costs (`labkit.local.costs`)
        self.calibration = calibration
        #: whether kernels of `labkit.local` have been charged
        self.uses_kernels = False
        #: what gathering and scattering data with gaps costs them; None where it is free
        self.packing = self.calibration.packing
        #: what ranks have set and done manually of MPI's start and end (`labkit.comm.environment`), by rank
        self.own_states: dict[int, dict[str, object]] = {}
        #: whether MPI is initialized before the program begins: a function gets its communicator
        self.is_early = True
        #: the pool of workers of a script that was started with one (`labkit.comm.futures`)
        self.futures: object = None
        #: what a rank's clock has said last, and since when and how many times it is read and nothing else
        self._reads: dict[int, tuple[float, float, int]] = {}
        #: the name of a host in the platform, by its number
        self.host_name: Callable[[int], str] = "host-{}".format
        self._open: dict[int, list[tuple[str, float]]] = {}
        self.phases: list[Entry] = []
        #: what the ranks send, count and hold; None unless requested
        self.tally: Tally | None = None
        #: what the ranks call, summed up; None unless requested
        self.summary: HubSums | None = None
        #: the variation that is tried (`Run.what_if`)
        self.trial: Variation | None = None
        #: the run's seed, and whether anything was drawn from it
        self.seed, self.is_seeded = 0, False
        #: by rank and phase, where the trial asks: the number of times it was entered
        self._visits: dict[int, dict[str, int]] = {}

    @property
    def rank(self) -> int:
        """The running rank's number."""
        return int(self.hub.rank)

    @property
    def pools(self) -> list[Any]:
        """The pools whose master is the running rank: results come while it waits."""
        pools: list[object] = self.own_waits().pools
        return pools

    @property
    def size(self) -> int:
        """The number of ranks that the run began with."""
        return self._size

    @property
    def run_seed(self) -> int:
        """The run's seed, for what is drawn from it."""
        self.is_seeded = True
        return self.seed

    def innermost_phase(self) -> str:
        """Return the phase that the running rank is in."""
        opened = self._open.get(self.hub.rank)
        return opened[-1][0] if opened else NO_PHASE

    def is_left_out(self) -> bool:
        """Whether the running rank is in a phase in which no calls are noted."""
        return any(matches(name, self.left_out) for name, _ in self._open.get(self.hub.rank, ()))

    def begin_phase(self, name: str) -> None:
        """Note that the running rank enters a phase."""
        opened = self._open.setdefault(self.hub.rank, [])
        if self.trial is not None and name in self.trial.visits and all(name != one for one, _ in opened):
            own = self._visits.setdefault(self.hub.rank, {})
            own[name] = own.get(name, 0) + 1
        now_s = self.hub.now()
        opened.append((name, now_s))
        if self.tally is not None:
            self.tally.enter(self.hub.rank, name)
        if self.summary is not None:
            self.summary.enter(self.hub.rank, name, now_s)
        if self.keeps_calls:
            self.hub.declare_group(phase_line(self.hub.rank, name, True))

    def end_phase(self, name: str) -> None:
        """Note that the running rank leaves it."""
        rank = self.hub.rank
        if self._open.get(rank):
            opened, begin = self._open[rank].pop()
            now_s = self.hub.now()
            self.phases.append((rank, opened, begin, now_s, len(self._open[rank])))
            if self.tally is not None:
                self.tally.leave(rank)
            if self.summary is not None:
                self.summary.leave(rank, opened, now_s)
            if self.keeps_calls:
                self.hub.declare_group(phase_line(rank, opened, False))

    def compute(self, seconds: float | None, flops: float | None) -> None:
        """Charge computation to the running rank; on a host with more ranks than cores it shares them."""
        self.is_charged = True
        if self.trial is not None:
            factor = self._tried()
            seconds, flops = (None if amount is None else amount * factor for amount in (seconds, flops))
        if seconds is not None:
            self.hub.compute(seconds)
        elif flops is not None:
            self.hub.compute_flops(flops)

    def pack(self, size: int, pieces: int, span: int) -> None:
        """Charge the running rank with gathering or scattering bytes in pieces within a span of memory."""
        if self.packing is not None:
            seconds = self.calibration.packing_s(size, pieces, span)
            self.compute(None, seconds * self.calibration.reference_flops_per_s)

    def _tried(self) -> float:
        """How many times as long the running rank's computation is to take."""
        rank = int(self.hub.rank)
        if self.trial is None:
            return 1.0
        return self.trial.factor(self._open.get(rank, ()), rank, self._visits.get(rank, {}))

    def count(self, name: str, amount: float) -> None:
        """Count for the running rank, where somebody asked; it takes no simulated time."""
        if self.tally is not None:
            self.tally.add(self.hub.rank, name, amount)

    def sleep(self, seconds: float) -> None:
        """Let time pass for the running rank; others may have its core meanwhile.

        What an alarm interrupts goes on when its handler has returned.
        """
        until = self.hub.wtime() + seconds if self._alarms.due else 0.0
        while (left := self.alarm_left()[0]) and left <= seconds:
            self._sleep(left)
            self._alarms.ring(self.hub.rank, max(self.hub.wtime(), until - seconds + left))
            seconds = max(until - self.hub.wtime(), 0.0)
        self._sleep(seconds)

    def _sleep(self, seconds: float) -> None:
        waits = self.waits.get(self.hub.rank)
        if waits is not None and waits.is_live:
            waits.wait(lambda: False, seconds)
        elif self.shares_memory:  # what it waits for may be a store of another rank
            self.hub.sleep(max(seconds, 1e-6))
            self.hub.catch_up("load from shared memory")
        else:
            self.hub.sleep(seconds)

    @property
    def is_measured(self) -> bool:
        """Whether the running rank's own code is being timed: then its kernels charge nothing in addition."""
        return self._measured.is_everything or self._is_sampling

    @property
    def is_deterministic(self) -> bool:
        """Whether the run's times depend on its input alone."""
        return not ((self._measured.is_everything and self._measured.replay is None) or self.samples)

    def note(self, text: str) -> None:
        """Note something about the run, once."""
        if text not in self.notes:
            self.notes.append(text)

    @property
    def switches(self) -> int:
        """The number of switches from rank to rank."""
        return int(self.hub.switches)

    def begin_sample(self) -> None:
        """The running rank begins sampled work: what came before is charged as usual."""
        self.hub.catch_up_host()
        self._is_sampling = True

    def end_sample(self) -> None:
        """The sampled work is over, and charges itself."""
        self.hub.skip_host()
        self._is_sampling = False

    def charge_cpu(self, seconds: float) -> None:
        """Charge CPU seconds of this host to the running rank."""
        self.is_charged = True
        self.hub.compute_flops(seconds * self._measured.flops_per_cpu_s * self._tried())

    def wtime(self) -> float:
        """The running rank's clock; reading it costs what the model says.

        One that is read again and again while nothing else takes time goes faster: a program may wait for it.
        """
        now, rank = float(self.hub.wtime()), int(self.hub.rank)
        at, since, reads = self._reads.get(rank, (-1.0, now, 0))
        if now - at > _READ_COST_S:
            self._reads[rank] = now, now, 1
        elif reads < _MANY_READS:
            self._reads[rank] = now, since, reads + 1
        else:
            if reads == _MANY_READS:
                self.note(
                    f"a rank has read its clock {_MANY_READS:,} times in a row, and nothing else took "
                    "simulated time; its further readings take longer, so that it does not wait forever"
                )
            self.hub.sleep(max(_READ_S, _READ_SHARE * (now - since)))
            if self.shares_memory:
                self.hub.catch_up("load from shared memory")
            now = float(self.hub.wtime())
            self._reads[rank] = now, since, reads + 1
        if self._alarms.due:
            self._alarms.ring(rank, now)
        return now

    def alarm_left(self) -> tuple[float, float]:
        """Return the seconds to the running rank's next alarm, and from one to the next."""
        return self._alarms.left(self.hub.rank, self.hub.wtime()) if self._alarms.due else (0.0, 0.0)

    def set_alarm(self, seconds: float, interval: float) -> tuple[float, float]:
        """Set the running rank's alarm; what was left of the one before."""
        before = self.alarm_left()
        self._alarms.set(self.hub.rank, self.hub.wtime(), seconds, interval)
        return before

    def set_alarm_handler(self, handler: object) -> object:
        """Set what the running rank's alarms call; what they have called before."""
        before = self.alarm_handler()
        self._alarms.handlers[self.hub.rank] = handler
        return before

    def alarm_handler(self) -> object:
        """Return what the running rank's alarms call."""
        return self._alarms.handlers.get(self.hub.rank, signal.SIG_DFL)
