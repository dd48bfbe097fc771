"""Limits of a replay hold wherever time and memory go: reading, preparing, long work under noise."""

from __future__ import annotations

import gzip

import pytest

import labkit as lk
from labkit.errors import DataError, RankError, TimeLimitError
from tests.support.refusals import raises_code

NOISE = "jitter=50us,period=1ms,seed=3"


def written(path, text):
    path.write_text(text)
    return path


def test_preparing_many_ranks_counts(tmp_path):
    ranks = 200_000
    text = f"num_ranks {ranks}\n" + "".join(f"rank {rank} {{\n}}\n" for rank in range(ranks))
    with raises_code(TimeLimitError, "time-limit"):
        lk.replay(written(tmp_path / "large.goal", text), timeout_s=0.05)


def test_ranks_that_are_only_declared_are_refused(tmp_path):
    """154 bytes may not take the memory of a million ranks."""
    text = "num_ranks {}\nrank 0 {{\nsend 8b to {last}\n}}\nrank {last} {{\nrecv 8b from 0\n}}\n"
    with raises_code(DataError, "invalid-value", "1048576", "2", "num_ranks"):
        lk.replay(written(tmp_path / "large.goal", text.format(1 << 20, last=(1 << 20) - 1)))
    assert lk.replay(written(tmp_path / "small.goal", text.format(4000, last=3999))).messages == 1


def test_long_work_under_noise_ends_soon(tmp_path):
    path = written(tmp_path / "long.goal", "num_ranks 1\nrank 0 {\ncalc 1000000000000000\n}\n")
    run = lk.replay(path, on="star:1", noise=NOISE)  # a billion detours
    assert run.makespan_s == pytest.approx(1e6 / 0.95, rel=1e-5)
    assert run.makespan_s == lk.replay(path, on="star:1", noise=NOISE).makespan_s


def test_work_that_noise_makes_endless_is_refused(tmp_path):
    path = written(tmp_path / "endless.goal", f"num_ranks 1\nrank 0 {{\ncalc {1 << 50}\n}}\n")
    noise = f"{NOISE},stragglers=1,slowdown=1e308"
    with raises_code(DataError, "invalid-value"):
        lk.replay(path, on="star:1", noise=noise)
    with raises_code(RankError, "rank-failed"):
        lk.run(lambda comm: lk.compute(seconds=1e6), 1, on="star:1", noise=noise)


def test_operations_that_take_too_much_memory_are_refused(tmp_path):
    path = tmp_path / "packed.goal.gz"
    with gzip.open(path, "wb") as file:
        file.write(b"num_ranks 1\nrank 0 {\n" + b"calc 1\n" * 100_000 + b"}\n")
    assert lk.replay(path).makespan_s == pytest.approx(1e-4)
    with raises_code(DataError, "invalid-value", "1 MiB", "limit_bytes"):
        lk.replay(path, limit_bytes=1 << 20)
