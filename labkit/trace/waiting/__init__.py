"""Wait states and what they go back to: tables that a run's trace is made into.

`find_waiting` gives a `Waiting`: who waited for whom, in which call path, as what
(`labkit.trace.waiting.kinds`); what that goes back to, with direct and indirect costs; the critical path.
``_kernels.analyze_waits`` does the work: ``kernels/include/labkit/trace``, ``wait_states.hpp`` and
``delay_costs.hpp``.
"""

from labkit.trace.waiting.analysis import Waiting, find_waiting
from labkit.trace.waiting.kinds import KINDS, WaitKind

__all__ = ["KINDS", "WaitKind", "Waiting", "find_waiting"]
