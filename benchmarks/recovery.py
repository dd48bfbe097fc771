"""The rate at which a fit finds the exact leading term of synthetic measurements.

Each data set is c + a p^q log2(p)^r with q a positive multiple of 1/4 or 1/3 up to 2 and r in {0, 1, 2}, at
6 or 7 powers of two from 4, 8, 16 or 32 ranks on, with 5 repetitions of multiplicative normal noise; c is 0
to 100 times the growing part at the least p, in half of the sets 0.

    python benchmarks/recovery.py [--sets 600] [--seed 1]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from labkit.scaling import WIDE, Term, judge

TERMS = [t for t in WIDE if t.polynomial > 0]
NOISES = (0.02, 0.05, 0.10)


@dataclass(frozen=True)
class Sample:
    """One synthetic data set."""

    term: Term
    x: np.ndarray
    y: np.ndarray


def samples(sets: int, noise: float, seed: int) -> list[Sample]:
    """Return data sets; the same seed gives the same truth at every noise."""
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(sets):
        term = TERMS[rng.integers(len(TERMS))]
        x = 2.0 ** (rng.integers(2, 6) + np.arange(rng.integers(6, 8)))
        f = term(x)
        c = f[0] * 10 ** rng.uniform(-1, 2) if rng.random() < 0.5 else 0.0
        scale = 10 ** rng.uniform(-7, -2)
        y = scale * (c + f)[:, None] * (1 + noise * rng.standard_normal((x.size, 5)))
        out.append(Sample(term, x, np.maximum(y, 1e-30)))
    return out


@dataclass
class Tally:
    """Counts of one setting."""

    exact: int = 0
    kept: int = 0
    plausible: int = 0
    ok: int = 0
    undecided: int = 0


def recover(data: list[Sample], space: str | None, shift: Term | None = None) -> Tally:
    """Judge every set against its truth (times `shift`) and count."""
    tally = Tally()
    for s in data:
        e = s.term if shift is None else s.term.times(shift)
        v = judge(s.x, s.y, str(e), space=space)
        assert v.model is not None
        tally.exact += v.model.term == s.term
        tally.kept += v.is_plausible
        tally.plausible += len(v.plausible)
        tally.ok += v.ok
        tally.undecided += v.match == "undecided"
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=600)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    settings: list[tuple[str, str | None, Term | None]] = [
        ("right expectation, ruler only", "ruler", None),
        ("right expectation, joined space", None, None),
        ("wide space (expectation unused)", "wide", None),
        ("expectation too high by sqrt p", None, Term(0, "1/2")),
        ("expectation too high by log p", None, Term(0, 0, 1)),
    ]
    print(f"{options.sets} sets, seed {options.seed}; columns: noise 2 / 5 / 10 %")
    heads = ("truth found", "E not rejected", "terms kept", "match", "undecided")
    print(f"{'given':34}" + "".join(f"{head:>20}" for head in heads))
    for name, space, shift in settings:
        cells: list[list[str]] = [[] for _ in heads]
        for noise in NOISES:
            t = recover(samples(options.sets, noise, options.seed), space, shift)
            for cell, count in zip(cells, (t.exact, t.kept, t.plausible, t.ok, t.undecided), strict=True):
                cell.append(f"{count / options.sets:.2f}")
        print(f"{name:34}" + "".join(f"{' / '.join(c):>20}" for c in cells))


if __name__ == "__main__":
    main()
