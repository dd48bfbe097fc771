"""Synthetic measurements with a known truth: fixed seeds, written before the fits they judge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.scaling import PAPER, WIDE, Term

__all__ = [
    "BEYOND", "NOISES", "Curve", "Set", "Surface", "changing", "counted", "exponential", "less_one", "noisy",
    "once", "saturating", "segmented", "steady", "sums", "surfaces", "three_laws", "wavering",
]  # fmt: skip

Floats = npt.NDArray[np.float64]

NOISES = (0.02, 0.05, 0.10)
BEYOND = (8, 64)
REPETITIONS = 5
PER_CELL = 750


@dataclass(frozen=True)
class Set:
    """Measurements of c + a f, with the term f and the true values beyond the range."""

    term: Term
    noise: float
    x: Floats
    y: Floats
    beyond: tuple[float, ...]


@dataclass(frozen=True)
class Curve:
    """Values without repetitions (or with), and what is true of them."""

    x: Floats
    y: Floats
    terms: tuple[Term, ...] = ()
    change_at: int | None = None
    beyond: tuple[float, ...] = ()


@dataclass(frozen=True)
class Surface:
    """Values over a grid of two parameters; each summand is a pair of terms, one for each parameter."""

    x1: Floats
    x2: Floats
    y: Floats
    summands: tuple[tuple[Term, Term], ...]


def noisy(noise: float, seed: int = 1) -> Iterator[Set]:
    """Return 3,000 sets for a noise: two spaces, 5 and 6 powers of two, 5 repetitions."""
    for space, named in enumerate((PAPER, WIDE)):
        terms = [t for t in named if not t.is_constant]
        for points in (5, 6):
            rng = np.random.default_rng([seed, space, points])  # the same truths at every noise
            for _ in range(PER_CELL):
                term = terms[rng.integers(len(terms))]
                x = 2.0 ** (rng.integers(2, 6) + np.arange(points))
                c = term(x[:1])[0] * 10 ** rng.uniform(-1, 1.3)
                scale = 10 ** rng.uniform(-7, -2)
                scatter = rng.standard_normal((points, REPETITIONS))
                y = scale * (c + term(x))[:, None] * (1 + noise * scatter)
                beyond = tuple(float(scale * (c + term(k * x[-1]))) for k in BEYOND)
                yield Set(term, noise, x, np.maximum(y, 1e-30), beyond)


def common(noise: float, sets: int = 900) -> list[Set]:
    """Return those that Extra-P models too: evenly spread over all of them."""
    every = list(noisy(noise))
    return [every[i] for i in np.linspace(0, len(every) - 1, sets).round().astype(int)]


def once(noise: float) -> list[Set]:
    """Return the same 900, of which each value was measured once."""
    return [replace(s, y=s.y[:, :1]) for s in common(noise)]


def segmented(sets: int = 40, seed: int = 2) -> Iterator[Curve]:
    """Return noiseless curves that follow one term up to a point and another from there on."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        x = 2.0 ** (rng.integers(2, 5) + np.arange(12))
        yield Curve(x, *_in_two(rng, x))


def _in_two(rng: np.random.Generator, x: Floats) -> Any:
    """Return values, terms and the first index of the second law, which is clearly another one."""
    at = int(rng.integers(4, x.size - 3))
    low, high = (
        [Term(), Term(0, 0, 1), Term(0, "1/2")],
        [Term(0, 1), Term(0, 1, 1), Term(0, "3/2"), Term(0, 2)],
    )
    first, second = low[rng.integers(3)], high[rng.integers(4)]
    if rng.random() < 0.3:
        first, second = second, first
    jump = 10 ** rng.uniform(0, 0.5)
    left = first(x) / first(x[at])
    right = jump * second(x) / second(x[at])
    return np.where(np.arange(x.size) < at, left, right), (first, second), at


def saturating(sets: int = 200, seed: int = 3) -> Iterator[Curve]:
    """Return noiseless curves that grow by at least 30 % and level off."""
    rng = np.random.default_rng(seed)
    made = 0
    while made < sets:
        x = 2.0 ** (rng.integers(2, 6) + np.arange(rng.integers(5, 9)))
        middle = x[0] * 2 ** rng.uniform(0.5, 4)
        kind = made % 4
        if kind == 0:
            y = x / (x + middle)
        elif kind == 1:
            y = 1 - np.exp(-x / middle)
        elif kind == 2:
            y = 1 - 0.9 * (x / x[0]) ** -rng.uniform(0.4, 1.5)
        else:
            y = np.arctan(x / middle)
        y = y + rng.uniform(0, 1) * y[0]
        if y[-1] > 1.3 * y[0] and (y[-1] - y[-2]) < 0.5 * (y[1] - y[0]):
            made += 1
            yield Curve(x, y * 10 ** rng.uniform(-6, 0))


def sums(sets: int = 200, seed: int = 4) -> Iterator[Curve]:
    """Return noiseless c + a f + b g whose terms each contribute at least 5 % somewhere in the range."""
    rng = np.random.default_rng(seed)
    terms = [t for t in WIDE if not t.is_constant]
    made = 0
    while made < sets:
        i, j = sorted(rng.choice(len(terms), 2, replace=False))
        f, g = terms[i], terms[j]
        x = 2.0 ** (rng.integers(2, 5) + np.arange(rng.integers(8, 13)))
        ratio = 10 ** rng.uniform(0, 3)  # coefficient of the slower over that of the faster
        low, high = ratio * f(x), g(x)
        c = rng.uniform(0, 1) * low[0] if rng.random() < 0.5 else 0.0
        y = c + low + high
        if min((low / y).max(), (high / y).max()) >= 0.05:
            made += 1
            yield Curve(x, y * 10 ** rng.uniform(-7, -2), (f, g))


def wavering(sets: int = 200, seed: int = 8) -> Iterator[Curve]:
    """Return sums of three terms and a constant that waver by 0.3 %, as simulated times do, 16 ... 1024."""
    rng = np.random.default_rng(seed)
    terms = [t for t in WIDE if not t.is_constant]
    x = 2.0 ** np.arange(4, 11)
    for _ in range(sets):
        chosen = [terms[i] for i in rng.choice(len(terms), 3, replace=False)]
        weights = 10 ** rng.uniform(-1.5, 0, 3)

        def truth(at: Floats, chosen: Any = chosen, weights: Any = weights) -> Floats:
            parts = [w * t(at) / t(x[-1:]) for w, t in zip(weights, chosen, strict=True)]
            return np.asarray(0.05 + sum(parts))

        beyond = tuple(float(truth(k * x[-1:])[0]) for k in BEYOND)
        yield Curve(x, truth(x) * np.exp(0.003 * rng.standard_normal(x.size)), tuple(chosen), beyond=beyond)


def changing(sets: int = 40, seed: int = 5, noise: float = 0.02) -> Iterator[Curve]:
    """Return noisy curves of 12 points with one change of law, 5 repetitions."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        x = 2.0 ** (rng.integers(2, 5) + np.arange(12))
        y, terms, at = _in_two(rng, x)
        yield Curve(x, y[:, None] * (1 + noise * rng.standard_normal((12, REPETITIONS))), terms, at)


def three_laws(sets: int = 40, seed: int = 10, noise: float = 0.02) -> Iterator[Curve]:
    """Return noisy curves of three laws, four points each, that differ by a power of p at least."""
    rng = np.random.default_rng(seed)
    laws = [Term(), Term(0, 1), Term(0, 2)]
    for _ in range(sets):
        x = 2.0 ** (rng.integers(2, 5) + np.arange(12))
        chosen: list[Term] = []
        while len(chosen) < 3:
            term = laws[rng.integers(3)]
            if not chosen or term != chosen[-1]:
                chosen.append(term)
        y, level = np.empty(12), 1.0
        for part, term in enumerate(chosen):
            some = slice(4 * part, 4 * part + 4)
            level *= 10 ** rng.uniform(0, 0.5)
            y[some] = level * term(x[some]) / term(x[some][:1])
            level = y[some][-1] * 2.0 ** float(term.polynomial)
        yield Curve(x, y[:, None] * (1 + noise * rng.standard_normal((12, REPETITIONS))), tuple(chosen), 4)


def exponential(noise: float, sets: int = 40, seed: int = 11) -> Iterator[Curve]:
    """Return c + 2^k k^q at consecutive k, with 5 repetitions where there is noise: table 8 of the paper."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        k = np.arange(2.0, rng.integers(8, 14))
        term = Term(1, int(rng.integers(0, 5)))
        y = rng.uniform(0, 3) * term(k[:1]) + term(k)
        scatter = rng.standard_normal((k.size, REPETITIONS if noise else 1))
        yield Curve(k, y[:, None] * (1 + noise * scatter), (term,))


def steady(sets: int = 40, seed: int = 6, noise: float = 0.02) -> Iterator[Curve]:
    """Return noisy curves of 12 points without a change."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        x = 2.0 ** (rng.integers(2, 5) + np.arange(12))
        term = WIDE[rng.integers(1, len(WIDE))]
        y = 10 ** rng.uniform(-1, 1) * term(x[:1]) + term(x)
        yield Curve(x, y[:, None] * (1 + noise * rng.standard_normal((12, REPETITIONS))), (term,))


def surfaces(noise: float, sets: int = 40, seed: int = 7) -> Iterator[Surface]:
    """Return c + a f(n) g(p) and c + a f(n) + b g(p) over 5 x 5 values, 5 repetitions."""
    rng = np.random.default_rng(seed)
    terms = [t for t in PAPER if not t.is_constant]
    for number in range(sets):
        f, g = terms[rng.integers(len(terms))], terms[rng.integers(len(terms))]
        n, p = 2.0 ** (rng.integers(4, 9) + np.arange(5)), 2.0 ** (rng.integers(2, 5) + np.arange(5))
        x1, x2 = (v.ravel() for v in np.meshgrid(n, p, indexing="ij"))
        scatter = rng.standard_normal((25, REPETITIONS))
        if number % 2:
            part = f(x1) / f(n[-1]) + 10 ** rng.uniform(-0.5, 0.5) * g(x2) / g(p[-1])
            summands: tuple[tuple[Term, Term], ...] = ((f, Term()), (Term(), g))
        else:
            part = f(x1) * g(x2) / (f(n[-1]) * g(p[-1]))
            summands = ((f, g),)
        y = part + 10 ** rng.uniform(-2, -0.5)
        yield Surface(x1, x2, y[:, None] * (1 + noise * scatter), summands)


def counted() -> Iterator[tuple[str, Curve]]:
    """Return counts with negative constants and other closed forms, each with its leading term."""
    small, usual = np.arange(2.0, 14), 2.0 ** np.arange(2, 7)
    for x in (small, usual, 2.0 ** np.arange(1, 9)):
        log = np.log2(x)
        for name, y, term in (
            ("p - 1", x - 1, Term(0, 1)),
            ("p (p - 1)", x * (x - 1), Term(0, 2)),
            ("log2 p", log, Term(0, 0, 1)),
            ("2 (p - 1)", 2 * (x - 1), Term(0, 1)),
            ("p log2 p", x * log, Term(0, 1, 1)),
            ("2 log2 p", 2 * log, Term(0, 0, 1)),
            ("p log2 p - p + 1", x * log - x + 1, Term(0, 1, 1)),
            ("p log2 p / 2", x * log / 2, Term(0, 1, 1)),
        ):
            yield f"{name} at {x[0]:g} ... {x[-1]:g}", Curve(x, y, (term,))
    yield "log2 p - 1 at 4 ... 128", Curve(2.0 ** np.arange(2, 8), np.arange(2.0, 8) - 1, (Term(0, 0, 1),))


def less_one(noise: float, sets: int = 200, seed: int = 9) -> Iterator[Curve]:
    """Return a (p - c) with c of 0.5 to 1 at 8 to 12 numbers of ranks, once each: one rank sends nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        every = np.sort(np.concatenate([2.0 ** np.arange(1, 8), 3 * 2.0 ** np.arange(6)]))
        x = every[: rng.integers(8, 13)]
        y = 10 ** rng.uniform(-6, 4) * (x - rng.uniform(0.5, 1))
        yield Curve(x, y * (1 + noise * rng.standard_normal(x.size)), (Term(0, 1),))
