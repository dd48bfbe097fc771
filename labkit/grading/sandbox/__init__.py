"""Runs what students hand in, and believes none of it.

**The argument, in ten lines.** A submission's code runs only in separate processes, one for each rank of
each run, forked from a process that never runs any of it. Such a process has one socket; over it, it asks
the grader to send, receive, combine or wait, and at the end hands back one plain value. The simulator runs in
the grader: what it counts (messages, bytes, rounds, simulated seconds) the submission cannot reach. Inputs,
oracles, checks, seeds and scores never leave the grader; a rank is sent its own input and nothing else. What
comes back is JSON and raw numbers, read with limits and never unpickled; other ranks' pickles are passed on
unopened. So a submission can patch NumPy, labkit or the interpreter: it changes its own requests, and they
are judged by what they do. Ranks share no memory, and the kernel keeps them from making a channel of their
own (below), so a result that needs another rank's data needs messages, and messages are counted.

**What contains a rank** (Linux, without privileges): a list of allowed system calls and arguments (seccomp)
without sockets, processes, threads, signals, shared mappings and futexes, file locks, or files opened for
writing; Landlock, which leaves only Python's and installed packages' files readable, without labkit's
algorithms; a read-only view of files without `/proc`; no clock of the machine, and one core for all ranks;
limits on CPU time, memory, file sizes and open files; its own network and IPC namespace, and a user without
powers, where the machine permits; a clean environment; and an end with the grader, whichever way that ends.
`Containment` says which of these are in force and what is lost without the others, and so does every report.

**What is not contained.** Bugs of the kernel. The names and sizes of files can be seen (not their content).
Node-local work costs what a submission charges (`labkit.local` does so by itself): simulated times are honest
about communication, not about work that was not charged. Without seccomp (macOS, Windows) nothing but limits
is left, and submissions are refused unless the teacher insists. A channel that nobody has thought of earns
nothing where a case says what its ranks need (`labkit.grading.trial.Case`): that much must have come in
messages. Channels that remain are measured by ``benchmarks/channels.py``.
"""

from labkit.grading.sandbox.outcome import Limits, Outcome
from labkit.grading.sandbox.sandbox import Sandbox
from labkit.process.confinement.containment import Containment

__all__ = ["Containment", "Limits", "Outcome", "Sandbox"]
