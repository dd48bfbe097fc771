"""Models of two parameters: products c + a f(n) g(p) and sums c + a f(n) + b g(p), by a full search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
import numpy.typing as npt

from labkit.errors import DataError, ExpectationError
from labkit.html import quantity
from labkit.scaling.deviation import outcome
from labkit.scaling.language.parser import parse
from labkit.scaling.leastsquares import basis_values
from labkit.scaling.samples import LEAST_VALUES
from labkit.scaling.space import PAPER, falling
from labkit.scaling.sums import solve
from labkit.scaling.term import CONSTANT, Term

__all__ = ["Summand", "Surface", "SurfaceVerdict", "fit_surface", "judge_surface"]

Floats = npt.NDArray[np.float64]

_HALF = Term(0, "1/2")


@dataclass(frozen=True)
class Summand:
    """coefficient * f(x1) * g(x2).

    Attributes
    ----------
    terms : tuple of Term
        Of the first and of the second parameter.
    coefficient : float
        The number in front.
    """

    terms: tuple[Term, Term]
    coefficient: float

    def __str__(self) -> str:
        """Print the growth, without the number."""
        return _joined(self.terms)


@dataclass(frozen=True, eq=False)
class Surface:
    """A model of two parameters.

    Attributes
    ----------
    symbols : tuple of str
        Names of the parameters.
    constant : float
        c >= 0.
    summands : tuple of Summand
        One product, or two terms in one parameter each.
    error : float
        Largest relative distance between a point and the model.
    is_kept : bool
        Whether the data do not reject the model: every point within 2 %, or no lack of fit at 1 %.
    """

    symbols: tuple[str, str]
    constant: float
    summands: tuple[Summand, ...]
    error: float
    is_kept: bool
    points: int = field(repr=False, default=0)

    def predict(self, x1: npt.ArrayLike, x2: npt.ArrayLike) -> Floats:
        """Return the model's values; x1 and x2 are broadcast."""
        total = np.asarray(self.constant, dtype=float) + 0 * (np.asarray(x1, float) + np.asarray(x2, float))
        for s in self.summands:
            total = total + s.coefficient * s.terms[0](x1) * s.terms[1](x2)
        return np.asarray(total, dtype=np.float64)

    @property
    def growth(self) -> str:
        """The order of growth, such as ``n log n + p``."""
        return " + ".join(map(str, self.summands)) or "1"

    @property
    def formula(self) -> str:
        """The model with its numbers."""
        return self.in_unit("")

    def in_unit(self, unit: str) -> str:
        """Return the formula with its numbers in a unit, such as ``1.2 ms + 3 µs n log n``."""
        parts = [quantity(self.constant, unit)] if self.constant else []
        return " + ".join([*parts, *(f"{quantity(s.coefficient, unit)} {s}" for s in self.summands)]) or "0"

    def __str__(self) -> str:
        """Print the order of growth."""
        return f"O({self.growth})"


def fit_surface(
    x1: npt.ArrayLike, x2: npt.ArrayLike, y: npt.ArrayLike, symbols: Sequence[str] = ("n", "p")
) -> Surface:
    """Find the model of measurements over two parameters.

    All products of two terms of the default space (26 each) and all sums of one term in each parameter are
    fitted by relative least squares; the likeliest wins, a further number paid for as by BIC.

    Parameters
    ----------
    x1, x2 : array_like, shape (m,)
        Values of the parameters, repeated where a measurement was.
    y : array_like, shape (m,) or (m, repetitions)
        The measurements, > 0.
    symbols : sequence of str
        Names of the parameters.

    Returns
    -------
    Surface

    Raises
    ------
    DataError
        For unusable data, fewer than five values of a parameter or fewer than nine points.

    Examples
    --------
    >>> n, p = (v.ravel() for v in np.meshgrid([16, 32, 64, 128, 256], [2, 4, 8, 16, 32], indexing="ij"))
    >>> print(fit_surface(n, p, 3 + 2 * n * np.log2(p)))
    O(n · log p)
    """
    a, b, means, counts, spread, freedom = _grouped(x1, x2, y)
    terms1, terms2 = _terms(a, means, symbols[0]), _terms(b, means, symbols[1])
    f, f_scale = basis_values(terms1, a)
    g, g_scale = basis_values(terms2, b)
    forms = _forms(terms1, terms2)
    columns = [np.stack([f[i] * g[j] for i, j in form], axis=1) for form in forms]
    noisy = freedom > 0 and spread > 1e-6 * freedom
    weights = means
    best: tuple[float, int, Floats, float, float] | None = None
    for _ in range(2 if noisy else 1):
        best = _best(columns, means, counts, weights, spread if noisy else 0.0)
        _, at, numbers, _, _ = best
        weights = np.clip(numbers[0] + columns[at] @ numbers[1:], means / 2, means * 2)
    assert best is not None
    _, at, numbers, worst, sse = best
    summands = []
    for (i, j), number in zip(forms[at], numbers[1:], strict=True):
        scale = float(np.exp2(-f_scale[i] - g_scale[j]))
        if number > 0 and not (terms1[i].is_constant and terms2[j].is_constant):
            summands.append(Summand((terms1[i], terms2[j]), float(number) * scale))
    return Surface(
        (symbols[0], symbols[1]), float(numbers[0]), tuple(summands), worst,
        _is_kept(sse, means.size - numbers.size, spread, freedom) if noisy else worst <= 0.02, means.size,
    )  # fmt: skip


def _grouped(
    x1: npt.ArrayLike, x2: npt.ArrayLike, y: npt.ArrayLike
) -> tuple[Floats, Floats, Floats, Floats, float, int]:
    try:
        a, b, values = (np.asarray(v, dtype=float) for v in (x1, x2, y))
    except (TypeError, ValueError) as error:
        raise DataError(f"measurements must be numbers: {error}") from None
    if a.ndim != 1 or b.shape != a.shape or values.ndim not in (1, 2) or values.shape[:1] != a.shape:
        raise DataError(
            f"x1 and x2 must have shape (m,), y (m,) or (m, repetitions); got {a.shape}, {b.shape} and "
            f"{values.shape}"
        )
    if values.ndim == 2:
        a, b, values = np.repeat(a, values.shape[1]), np.repeat(b, values.shape[1]), values.ravel()
    if not all((np.isfinite(v) & (v > 0)).all() for v in (a, b, values)):
        raise DataError("every parameter and measurement must be a positive finite number")
    places, inverse = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    counts = np.bincount(inverse).astype(float)
    means = np.bincount(inverse, values) / counts
    for name, column in zip(("first", "second"), places.T, strict=True):
        if np.unique(column).size < LEAST_VALUES:
            raise DataError(
                f"a model of two parameters needs at least {LEAST_VALUES} values of each; the {name} has "
                f"{np.unique(column).size}"
            )
    if means.size < 9:
        raise DataError(f"a model of two parameters needs at least 9 points, got {means.size}")
    spread = float(((values / means[inverse] - 1) ** 2).sum())
    return places[:, 0], places[:, 1], means, counts, spread, int(values.size - means.size)


def _terms(x: Floats, y: Floats, symbol: str) -> tuple[Term, ...]:
    """Return the space of one parameter: with falling terms where the data fall along it."""
    lx = np.log2(x) - np.log2(x).mean()
    space = PAPER if float(lx @ np.log2(y)) >= 0 else tuple(sorted({*PAPER, *falling(PAPER)}))
    return tuple(t.named(symbol) for t in space)


def _forms(terms1: tuple[Term, ...], terms2: tuple[Term, ...]) -> list[tuple[tuple[int, int], ...]]:
    """Return the pairs of terms of every form: products, then sums."""
    one, two = terms1.index(CONSTANT), terms2.index(CONSTANT)
    pairs = list(product(range(len(terms1)), range(len(terms2))))
    sums = [((i, two), (one, j)) for i, j in pairs if i != one and j != two]
    return [*(((i, j),) for i, j in pairs if (i, j) != (one, two)), *sums]


def _best(
    columns: list[Floats], y: Floats, counts: Floats, weights: Floats, spread: float
) -> tuple[float, int, Floats, float, float]:
    """Return the cost, place, numbers, largest error and squared error of the best form."""
    root = np.sqrt(counts)
    unit, target = root / weights, y / weights * root
    best: tuple[float, int, Floats, float, float] | None = None
    for size in (1, 2):
        places = [k for k, c in enumerate(columns) if c.shape[1] == size]
        designs = np.stack([columns[k] for k in places]) * unit[None, :, None]
        units = np.broadcast_to(unit[None, :, None], (len(places), y.size, 1))
        for with_constant in (True, False):
            design = np.concatenate([units, designs], axis=2) if with_constant else designs
            numbers, error = solve(design, target)
            if not with_constant:
                numbers = np.concatenate([np.zeros((len(places), 1)), numbers], axis=1)
            good = np.isfinite(numbers).all(axis=1) & (numbers[:, 1:] > 0).all(axis=1) & (numbers[:, 0] >= 0)
            sse = (error**2).sum(axis=1)
            total = counts.sum()
            free = size + with_constant
            cost = total * np.log(sse + spread + 1e-22 * total) + free * np.log(total)
            cost = np.where(good, cost, np.inf)
            t = int(np.argmin(cost))
            if np.isfinite(cost[t]) and (best is None or cost[t] < best[0]):
                worst = float(np.abs(error[t] / root).max())
                best = float(cost[t]), places[t], numbers[t], worst, float(sse[t])
    if best is None:
        flat = float((target @ unit) / (unit @ unit))
        error_flat = target - flat * unit
        worst = float(np.abs(error_flat / root).max())
        return np.inf, 0, np.array([flat, 0.0]), worst, float(error_flat @ error_flat)
    return best


def _is_kept(sse: float, degrees: int, spread: float, freedom: int) -> bool:
    from scipy.special import fdtrc

    return bool(fdtrc(degrees, freedom, sse / degrees / (spread / freedom)) > 0.01)


@dataclass(frozen=True)
class SurfaceVerdict:
    """Whether growth in two parameters matches an expectation; true in a condition when the bound holds.

    Attributes
    ----------
    match : str
        As of a `labkit.scaling.Verdict`.
    model : Surface
        What was fitted.
    reading : str
        The verdict in one sentence.
    unit : str
        Of the measurements; empty where it is not known.
    """

    match: str
    model: Surface
    reading: str
    unit: str = ""

    def __bool__(self) -> bool:
        """Return whether the expectation, an upper bound, holds."""
        return self.match in ("exact", "approximate", "bound")

    def __str__(self) -> str:
        """Print the sentence and the model."""
        return f"{self.reading}\n  model        {self.model}: {self.model.in_unit(self.unit)}"


def judge_surface(
    x1: npt.ArrayLike, x2: npt.ArrayLike, y: npt.ArrayLike, expectation: str,
    symbols: Sequence[str] = ("n", "p"),
) -> SurfaceVerdict:  # fmt: skip
    """Judge measurements over two parameters against an expectation such as ``n log2(n) / p + p``.

    Every summand of the model is compared with the summands expected, parameter by parameter and by exponents
    alone: it matches exactly, approximately (each parameter within its square root), stays below (the bound
    holds), or exceeds all of them.

    Parameters
    ----------
    x1, x2, y, symbols
        As in `fit_surface`.
    expectation : str
        A product or a sum of products of the two parameters.

    Raises
    ------
    DataError, ExpectationError
        For data or an expectation that cannot be used; symbols other than the two parameters are refused.
    """
    expected = _read(expectation, (symbols[0], symbols[1]))
    model = fit_surface(x1, x2, y, symbols)
    wanted = " + ".join(_joined(t) for t in expected)
    if not model.is_kept:
        return SurfaceVerdict(
            "undecided", model,
            f"Undecided: no product and no sum of two terms describes the data, the nearest, {model}, misses "
            f"a point by {model.error:.0%}; O({wanted}) is expected.",
        )  # fmt: skip
    found = [_kind(s.terms, expected) for s in model.summands] or ["bound"]
    if "none" in found:
        over = str(model.summands[found.index("none")])
        words = f"No match: it grows as {model.growth}; {over} exceeds what O({wanted}) allows."
        return SurfaceVerdict("none", model, words)
    if {s.terms for s in model.summands} == set(expected):
        return SurfaceVerdict("exact", model, f"Exact match: it grows as {model.growth}, as expected.")
    reached = {k for t in expected for k in [_kind_of_any(t, model)] if k}
    match = "approximate" if len(reached) and "bound" not in reached else "bound"
    opening = "Approximate match" if match == "approximate" else "The bound holds, it is not tight"
    return SurfaceVerdict(match, model, f"{opening}: it grows as {model.growth}, O({wanted}) is expected.")


def _kind(terms: tuple[Term, Term], expected: Sequence[tuple[Term, Term]]) -> str:
    """Return the best match of one summand with any expected one."""
    order = ("exact", "approximate", "bound", "none")
    return min((_pair_kind(terms, e) for e in expected), key=order.index)


def _pair_kind(terms: tuple[Term, Term], expected: tuple[Term, Term]) -> str:
    kinds = {outcome(t, e, _HALF) for t, e in zip(terms, expected, strict=True)}
    return next(k for k in ("none", "bound", "approximate", "exact") if k in kinds)


def _kind_of_any(expected: tuple[Term, Term], model: Surface) -> str:
    """Return whether any summand of the model comes near an expected one: "approximate", else "bound"."""
    near = any(_pair_kind(s.terms, expected) in ("exact", "approximate") for s in model.summands)
    return "approximate" if near else "bound"


def _read(text: str, symbols: tuple[str, str]) -> tuple[tuple[Term, Term], ...]:
    out = []
    for p in parse(text):
        unknown = sorted(p.symbols - set(symbols))
        if unknown:
            raise ExpectationError(
                f"expectation {text!r}: {unknown[0]!r} is not a parameter; known: {symbols[0]}, {symbols[1]}"
            )
        pair = []
        for symbol in symbols:
            logs = sum((r for inner, r in p.logs if inner[0][0] == symbol), start=p.coefficient * 0)
            pair.append(
                Term(dict(p.exponentials).get(symbol, 0), dict(p.powers).get(symbol, 0), logs, symbol)
            )
        if any(len(inner) > 1 for inner, _ in p.logs):
            raise ExpectationError(f"expectation {text!r}: write log(n/p) as log n where both are varied")
        out.append((pair[0], pair[1]))
    return tuple(dict.fromkeys(out))


def _joined(terms: tuple[Term, Term]) -> str:
    shown = [str(t) for t in terms if not t.is_constant]
    return " · ".join(shown) if shown else "1"
