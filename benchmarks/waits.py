"""Wait states and delay costs of large traces: time and memory of the analysis, and of the explorer's panes.

    python benchmarks/waits.py [messages, default 1e6] [ranks, default 1024]

The trace is made up, not recorded: ranks of a ring compute for random times, send to the next one and receive
from the one before, and meet in a reduction every hundred steps. Its tables are those of a recorded run.
"""

from __future__ import annotations

import resource
import sys
import time

import numpy as np
import pandas as pd

from labkit.result import Run, phase_frame
from labkit.trace.trace import Trace

_OVERHEAD_S, _LATENCY_S, _EVERY = 1e-6, 5e-6, 100


def made_up(messages: int, ranks: int) -> Run:
    """Return a run with a trace of about so many messages."""
    steps = max(messages // ranks, 1)
    random = np.random.default_rng(7)
    all_ranks = np.arange(ranks, dtype=np.int32)
    left = (all_ranks - 1) % ranks
    now = np.zeros(ranks)
    calls: dict[str, list[np.ndarray]] = {n: [] for n in ("rank", "kind", "begin_s", "end_s", "joint")}
    sent, posted, over = [], [], []

    def call(kind: int, begin: np.ndarray, end: np.ndarray, joint: int = -1) -> None:
        rows = (all_ranks, np.full(ranks, kind, np.int8), begin, end, np.full(ranks, joint, np.int32))
        for name, row in zip(calls, rows, strict=True):
            calls[name].append(row)

    for step in range(steps):
        now = now + random.exponential(1e-4, ranks)
        sent.append(now)
        call(0, now, now + _OVERHEAD_S)
        begin = now + _OVERHEAD_S
        end = np.maximum(begin, now[left]) + _LATENCY_S
        call(1, begin, end)
        posted.append(begin)
        over.append(end)
        now = end
        if step % _EVERY == _EVERY - 1:
            end = np.full(ranks, now.max() + 2 * _LATENCY_S)
            call(2, now, end, step)
            now = end
    columns = {name: np.concatenate(parts) for name, parts in calls.items()}
    order = np.argsort(columns["rank"], kind="stable")
    columns = {name: column[order] for name, column in columns.items()}
    kind = columns.pop("kind")
    table = pd.DataFrame(columns)
    table["bytes"] = np.where(kind == 2, 8, 0)
    table["call"] = np.array(["Send", "Recv", "Allreduce"], object)[kind]
    table["place"] = np.array(["ring, a.py:1", "ring, a.py:2", "ring, a.py:3"], object)[kind]
    table["phase"] = "ring"
    for name in ("root", "position"):
        table[name] = np.full(len(table), -1, np.int32)
    send_s, recv_s, end_s = (np.concatenate(parts) for parts in (sent, posted, over))
    count = len(send_s)
    rows = pd.DataFrame({
        "source": np.tile(left, steps), "destination": np.tile(all_ranks, steps),
        "tag": np.zeros(count, np.int32), "context": np.zeros(count, np.int32), "bytes": np.full(count, 8),
        "send_posted_s": send_s.reshape(steps, ranks)[:, left].ravel(), "recv_posted_s": recv_s,
        "end_s": end_s,
    })  # fmt: skip
    waits = pd.DataFrame({
        "rank": np.tile(all_ranks, steps), "begin_s": recv_s, "end_s": end_s,
        "message": np.arange(count, dtype=np.int32),
    })  # fmt: skip
    trace = Trace(
        rows, waits, pd.DataFrame({"rank": [], "begin_s": [], "end_s": []}), now.tolist(), calls=table
    )
    phases = phase_frame((rank, "ring", 0.0, float(now[rank]), 0) for rank in range(ranks))
    return Run("ring", ranks, "made up", "none", makespan_s=float(now.max()), phases=phases, trace=trace)


def peak_bytes() -> int:
    """Most memory that this process held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    """Make a trace up, analyze it, and say what that took."""
    given = [int(float(text)) for text in sys.argv[1:3]]
    messages, ranks = [*given, *(1_000_000, 1024)[len(given) :]]
    run = made_up(messages, ranks)
    held = peak_bytes()
    began, cpu = time.perf_counter(), time.process_time()
    waiting = run.waits()
    spent, cpu = time.perf_counter() - began, time.process_time() - cpu
    costs = float(waiting.delays["direct_s"].sum() + waiting.delays["indirect_s"].sum())
    print(
        f"{ranks} ranks, {len(run.trace.messages):,} messages, {len(run.trace.calls):,} calls: "
        f"{len(waiting.waits):,} waits, {len(waiting.delays):,} delays in {spent:.1f} s ({cpu:.1f} s "
        f"of CPU); {(peak_bytes() - held) / 1e6:.0f} MB beside the trace's {held / 1e6:.0f} MB"
    )
    print(f"costs / waiting - 1 = {costs / waiting.seconds - 1:.1e}")
    began, cpu = time.perf_counter(), time.process_time()
    said = waiting.reading()
    print(f"{said}\n(said in {time.perf_counter() - began:.2f} s, {time.process_time() - cpu:.2f} s of CPU)")
    panes(run)


def panes(run: Run) -> None:
    """Open the explorer and ask it, and say what that took of CPU."""
    from labkit.jupyter.explorers.waits_explorer import waits

    began = time.process_time()
    shown = waits(run)
    took = [f"explorer opened in {time.process_time() - began:.2f} s of CPU"]
    for name, value in (
        ("metric", "waiting"),
        ("path", 2),
        ("rank", 17 % run.ranks),
        ("values", "exclusive"),
    ):
        began = time.process_time()
        getattr(shown, name).value = value
        took.append(f"another {name}: {time.process_time() - began:.3f} s")
    print("; ".join(took))


if __name__ == "__main__":
    main()
