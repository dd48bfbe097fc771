"""An interrupt that reaches an engine just after a run must not cost the run its report."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.mpi

PROGRAM = textwrap.dedent(
    """
    import asyncio, signal, sys
    try:
        from labkit.real.engines import stage
    except (ImportError, RuntimeError) as error:
        sys.exit(f"no MPI: {error}")
    heard = []
    signal.signal(signal.SIGINT, lambda number, frame: heard.append("outside"))
    stage._LATE_S = 0.2

    async def main():
        for _ in range(2):  # the second run begins before the first one's moment is over
            with stage.own_interrupts(stage.Interrupts()):
                pass
            signal.raise_signal(signal.SIGINT)
        assert heard == []
        await asyncio.sleep(1.0)
        signal.raise_signal(signal.SIGINT)
        assert heard == ["outside"]

    asyncio.run(main())
    with stage.own_interrupts(stage.Interrupts()):
        pass
    signal.raise_signal(signal.SIGINT)
    assert heard == ["outside", "outside"], "where no loop can put the handler back, it is put back at once"
    """
)


def test_an_interrupt_between_the_end_and_the_report_is_not_heard():
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    if done.stderr.startswith("no MPI: "):
        pytest.skip(done.stderr.splitlines()[0])
    assert (done.returncode, done.stderr) == (0, "")
