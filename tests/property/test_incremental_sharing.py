"""The incremental solver through the real engine: it gives the times of complete solutions."""

from __future__ import annotations

import random

import numpy as np
import pytest

from labkit.machines import platform
from tests.support.message_program import run_program


def unsynchronized(p: int, seed: int, rounds: int) -> str:
    """Every rank sleeps, posts everything to everybody with sizes of its own, waits; so often."""
    rng = random.Random(seed)
    sizes = [[rng.randrange(131072) for _ in range(p)] for _ in range(p)]
    lines = []
    for rank in range(p):
        parts = []
        for round_ in range(rounds):
            parts.append(f"sleep {rng.randrange(100_000)}")
            peers = [(rank + k) % p for k in range(1, p)]
            parts += [f"irecv {i} {peer} {round_} 131072" for i, peer in enumerate(peers)]
            parts += [f"isend {p + i} {peer} {round_} {sizes[rank][peer]}" for i, peer in enumerate(peers)]
            parts += [f"waitall {' '.join(map(str, [*range(p - 1), *range(p, 2 * p - 1)]))}", "mark"]
        lines.append(f"{rank}: {'; '.join(parts)}")
    return "\n".join(lines)


@pytest.mark.parametrize("model", ["lab", "smpi", "raw"])
@pytest.mark.parametrize("machine", ["star", "star:48,bb_bw=20GBps,bb_lat=1us", "star:48,sharing=shared"])
def test_exact_repairs_give_the_times_of_complete_solutions(machine: str, model: str) -> None:
    text = unsynchronized(32, 7, 2)
    repaired = run_program(text, 32, platform(machine), model)
    filled = run_program(text, 32, platform(machine), model, fills_only=True)
    assert repaired.repairs > 0  # else nothing is compared
    assert filled.repairs == 0
    assert np.allclose(repaired.finish_s, filled.finish_s, rtol=4e-10, atol=0)
    assert np.allclose(repaired.marks, filled.marks, rtol=4e-10, atol=0)


def test_a_tolerance_keeps_what_it_promises() -> None:
    text = unsynchronized(56, 3, 1)
    exact = run_program(text, 56, platform("star"), "lab")
    for tolerance in (1e-3, 1e-2):
        loose = run_program(text, 56, platform("star"), "lab", tolerance=tolerance)
        assert loose.repairs < exact.repairs
        assert loose.certified_instants > 10
        assert 0 < loose.perturbation <= tolerance * (1 + 1e-6)
        assert abs(loose.finish_s.max() / exact.finish_s.max() - 1) < tolerance


def test_the_same_program_gives_the_same_bits() -> None:
    text = unsynchronized(32, 11, 1)
    first, second = (run_program(text, 32, platform("star"), "lab", tolerance=1e-3) for _ in range(2))
    assert first.finish_s.tobytes() == second.finish_s.tobytes()
