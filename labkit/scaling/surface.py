"""Models of two parameters: products c + a f(n) g(p) and sums of two of them, by a full search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from labkit.errors import DataError, ExpectationError
from labkit.scaling.description import TOLERANCE, check_tolerance
from labkit.scaling.family import ROUNDING, log_evidence, lost, screen, solve, unchanged, without
from labkit.scaling.leastsquares import basis_values
from labkit.scaling.parser import Product, parse
from labkit.scaling.samples import LEAST_VALUES, floats_of
from labkit.scaling.search import PAPER, falling
from labkit.scaling.term import CONSTANT, Term
from labkit.scaling.verdict import beyond, outcome
from labkit.text import html as markup
from labkit.text.html import quantity

__all__ = ["Summand", "Surface", "SurfaceVerdict", "fit_surface", "judge_surface"]

Floats = npt.NDArray[np.float64]

_HALF = Term(0, "1/2")
#: steeper terms, and the local power of a parameter from which on they are tried
_CUBES, _STEEP = (Term(0, "5/2"), Term(0, 3)), 1.8
#: pairs of products that are fitted with care, and the cost of a second product in addition to the choices
_REFINED, _SECOND = 120, 4.0
#: single measurements that miss every model by this many times the tolerance have no verdict
_ROUGH = 5.0


@dataclass(frozen=True)
class Summand:
    """coefficient * f(x1) * g(x2).

    `terms`: Of the first and of the second parameter.
    `coefficient`: The number in front.
    """

    terms: tuple[Term, Term]
    coefficient: float
    own: _Own | None = None

    def __call__(self, x1: Floats, x2: Floats, symbols: tuple[str, str]) -> Floats:
        """Return the summand's values."""
        shape = self.own(x1, x2, symbols) if self.own else self.terms[0](x1) * self.terms[1](x2)
        return np.asarray(self.coefficient * shape, dtype=np.float64)

    def __str__(self) -> str:
        """Print the growth, without the number; of an expectation's own product as it was written."""
        return (
            _joined(self.terms)
            if self.own is None or not any(len(a) > 1 for a, _ in self.own.product.logs)
            else (self.own.text)
        )


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
    is_described : bool
        Whether the model misses no point by more than the tolerance and the scatter of the repetitions.
    """

    symbols: tuple[str, str]
    constant: float
    summands: tuple[Summand, ...]
    error: float
    is_described: bool
    points: int = field(repr=False, default=0)

    def predict(self, x1: npt.ArrayLike, x2: npt.ArrayLike) -> Floats:
        """Return the model's values; x1 and x2 are broadcast."""
        a, b = np.broadcast_arrays(floats_of(self.symbols[0], x1), floats_of(self.symbols[1], x2))
        parts = [s(a, b, self.symbols) for s in self.summands]
        return np.asarray(self.constant + sum(parts) + 0.0 * a, dtype=np.float64)

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
        """Print the growth, the formula and the quality of the fit."""
        name = "Model" if self.is_described else "Nearest surface"
        quality = f"(largest error {self.error:.2%}, {self.points} points)"
        return f"{name} O({self.growth}): {self.formula} {quality}"

    __repr__ = __str__


def fit_surface(
    x1: npt.ArrayLike,
    x2: npt.ArrayLike,
    y: npt.ArrayLike,
    symbols: Sequence[str] = ("n", "p"),
    tolerance: float = TOLERANCE,
) -> Surface:
    """Find the model of measurements over two parameters.

    All products f(x1) g(x2) of two terms and all sums of two such products, with a constant, are fitted by
    relative least squares; the likeliest wins, by leave-one-out errors and parsimony as of one parameter.

    Parameters
    ----------
    x1, x2 : array_like, shape (m,)
        Values of the parameters, repeated where a measurement was.
    y : array_like, shape (m,) or (m, repetitions)
        The measurements, > 0.
    symbols : sequence of str
        Names of the parameters.
    tolerance : float
        How far a model may miss a point that it describes, relative to it.

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
    grid = _Grid(_grouped(x1, x2, y, symbols), (symbols[0], symbols[1]), check_tolerance(tolerance))
    return grid.surface(grid.best)


@dataclass(frozen=True)
class _Grouped:
    """One value for each pair of values of the parameters, its number of repetitions, and their spread."""

    x1: Floats
    x2: Floats
    y: Floats
    counts: Floats
    spread: float
    freedom: int


def _grouped(x1: npt.ArrayLike, x2: npt.ArrayLike, y: npt.ArrayLike, names: Sequence[str]) -> _Grouped:
    try:
        a, b, values = (np.asarray(v, dtype=float) for v in (x1, x2, y))
    except (TypeError, ValueError) as error:
        raise DataError(f"measurements must be numbers: {error}", code="wrong-type") from None
    if a.ndim != 1 or b.shape != a.shape or values.ndim not in (1, 2) or values.shape[:1] != a.shape:
        raise DataError(
            f"x1 and x2 must have shape (m,), y (m,) or (m, repetitions); got {a.shape}, {b.shape} and "
            f"{values.shape}",
            code="count-mismatch",
        )
    if values.ndim == 2:
        a, b, values = np.repeat(a, values.shape[1]), np.repeat(b, values.shape[1]), values.ravel()
    if not all((np.isfinite(v) & (v > 0)).all() for v in (a, b, values)):
        raise DataError("every parameter and measurement must be a positive finite number", code="not-finite")
    places, inverse = np.unique(np.stack([a, b], axis=1), axis=0, return_inverse=True)
    inverse = inverse.ravel()
    counts = np.bincount(inverse).astype(float)
    means = np.bincount(inverse, values) / counts
    for name, column in zip(names, places.T, strict=True):
        if np.unique(column).size < LEAST_VALUES:
            raise DataError(
                f"a model of two parameters needs at least {LEAST_VALUES} values of each; {name} has "
                f"{np.unique(column).size}",
                code="not-enough-data",
            )
    if means.size < 9:
        raise DataError(
            f"a model of two parameters needs at least 9 points, got {means.size}", code="not-enough-data"
        )
    spread = float(((values / means[inverse] - 1) ** 2).sum())
    return _Grouped(places[:, 0], places[:, 1], means, counts, spread, int(values.size - means.size))


def _terms(x: Floats, y: Floats, symbol: str) -> tuple[Term, ...]:
    """Return the space of one parameter: with falling terms where the data fall, p^3 where they are steep."""
    lx = np.log2(x) - np.log2(x).mean()
    slope = float(lx @ np.log2(y)) / float(lx @ lx)
    last = y[x == x.max()].mean() / y[x == np.sort(np.unique(x))[-2]].mean()
    steep = np.log2(last) / np.log2(x.max() / np.sort(np.unique(x))[-2]) > _STEEP
    terms = {*PAPER, *(falling(PAPER) if slope < 0 or symbol == "p" else ()), *(_CUBES if steep else ())}
    return tuple(t.named(symbol) for t in sorted(terms))


#: summands of a model: the pair of terms, or an expectation's own product
_Form = tuple["tuple[Term, Term] | _Own", ...]


@dataclass(frozen=True)
class _Own:
    """A summand of an expectation: its growth in each parameter, and its values, with those of log(n/p)."""

    terms: tuple[Term, Term]
    product: Product

    @property
    def text(self) -> str:
        """The product with the arguments of its logarithms, such as ``n/p log(n/p)``."""
        bare = [Term(t[0], t[1], 0, t.symbol) for t in self.terms]
        parts = [_joined((bare[0], bare[1]))]
        for argument, r in self.product.logs:
            inner = "".join(
                f"{'/' if e < 0 else ' '}{s}" for s, e in sorted(argument, key=lambda a: -a[1])
            ).strip()
            parts.append(f"log({inner})" if r == 1 else f"log^{r}({inner})")
        return " ".join(parts)

    def __call__(self, x1: Floats, x2: Floats, symbols: tuple[str, str]) -> Floats:
        logs = dict(zip(symbols, (np.log2(x1), np.log2(x2)), strict=True))
        values = dict(zip(symbols, (x1, x2), strict=True))
        total = sum((float(e) * logs[s] for s, e in self.product.powers), np.zeros_like(x1))
        total = total + sum((float(e) * values[s] for s, e in self.product.exponentials), np.zeros_like(x1))
        with np.errstate(divide="ignore", invalid="ignore"):
            for argument, r in self.product.logs:
                inner = sum((float(e) * logs[s] for s, e in argument), np.zeros_like(x1))
                total = total + float(r) * np.log2(np.maximum(inner, 0.0))
            return np.asarray(np.exp2(total), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """c + sum a_i f_i, with its evidence."""

    form: _Form
    constant: float
    numbers: tuple[float, ...]
    error: float
    miss: float
    evidence: float


class _Grid:
    """The models of one data set over two parameters."""

    def __init__(self, data: _Grouped, symbols: tuple[str, str], tolerance: float) -> None:
        self.data, self.symbols, self.tolerance = data, symbols, tolerance
        terms1, terms2 = _terms(data.x1, data.y, symbols[0]), _terms(data.x2, data.y, symbols[1])
        f, _ = basis_values(terms1, data.x1)
        g, _ = basis_values(terms2, data.x2)
        self.pairs = [(s, t) for s in terms1 for t in terms2 if not (s.is_constant and t.is_constant)]
        flat = terms1.index(CONSTANT) * len(terms2) + terms2.index(CONSTANT)
        self.rows = np.delete((f[:, None] * g[None]).reshape(-1, data.y.size), flat, axis=0)
        usable = np.flatnonzero(np.isfinite(self.rows).all(axis=1)).tolist()
        self.pairs = [self.pairs[k] for k in usable]
        self.rows = self.rows[usable]
        self.is_noisy = data.freedom > 0 and data.spread > 1e-6 * data.freedom
        noise = 4.0 * np.sqrt(data.spread / data.freedom / data.counts) if self.is_noisy else 0.0
        self.limits = np.maximum(max(tolerance, 100 * ROUNDING), noise) * np.ones(data.y.size)
        self.weights = data.y

    @cached_property
    def best(self) -> _Fitted:
        """The likeliest model; of noisy data fitted twice, by errors relative to the curve."""
        for _ in range(2 if self.is_noisy else 1):
            found = self._found()
            self.weights = np.clip(self._curve(found), self.data.y / 2, self.data.y * 2)
        return found

    def _found(self) -> _Fitted:
        unit, m = 1 / self.weights, len(self.pairs)
        root = np.sqrt(self.data.counts)
        rows, target = self.rows * unit * root, self.data.y * unit * root
        found = self._fit_many([()], np.zeros((1, 0, self.data.y.size)), 0.0, (True,))
        price = float(np.log(m))
        designs = self.rows[:, None, :]
        found += self._fit_many([(p,) for p in self.pairs], designs, price, (True, False))
        i, j = np.triu_indices(m, 1)
        for with_constant in (True, False):
            u = unit * root
            rest = without(u) if with_constant else unchanged
            a, b, errors = screen(rest(rows), rest(target), i, j)
            errors = np.where((a > 0) & (b > 0), errors, np.inf)
            order = np.argpartition(errors, min(_REFINED, errors.size - 1))[:_REFINED]
            order = order[np.isfinite(errors[order])]
            forms = [(self.pairs[i[t]], self.pairs[j[t]]) for t in order]
            designs = np.stack([self.rows[i[order]], self.rows[j[order]]], axis=1)
            found += self._fit_many(forms, designs, 2 * price + _SECOND, (with_constant,))
        return max(found, key=lambda c: c.evidence)

    def _fit_many(
        self, forms: Sequence[_Form], designs: Floats, price: float, constants: tuple[bool, ...]
    ) -> list[_Fitted]:
        data, out = self.data, []
        root = np.sqrt(data.counts) / self.weights
        total, width = float(data.counts.sum()), designs.shape[1]
        spread = data.spread if self.is_noisy else 0.0
        for with_constant in constants:
            columns = np.moveaxis(designs, 1, 2) * root[None, :, None]
            if with_constant:
                columns = np.concatenate(
                    [columns, np.broadcast_to(root[None, :, None], (len(forms), root.size, 1))], 2
                )
            numbers, error, leverage = solve(columns, data.y * root)
            with np.errstate(invalid="ignore", divide="ignore"):
                good = (
                    np.isfinite(numbers).all(axis=1)
                    & (numbers > 0).all(axis=1)
                    & np.isfinite(error).all(axis=1)
                )
                left_out = ((error / (1 - leverage)) ** 2).sum(axis=1)
                off = np.abs(error / np.sqrt(data.counts))
                miss = (off / self.limits).max(axis=1)
                evidence = log_evidence(left_out, width + 1, spread, total, data.y.size, self.tolerance)
                evidence = evidence - price - lost(miss)
            for t in np.flatnonzero(good).tolist():
                own = tuple(numbers[t, :width].tolist())
                c = float(numbers[t, width]) if with_constant else 0.0
                out.append(_Fitted(forms[t], c, own, float(off[t].max()), float(miss[t]), float(evidence[t])))
        return out

    def _values(self, summand: tuple[Term, Term] | _Own) -> Floats:
        """Return a summand's values, scaled to a maximum of 1."""
        if isinstance(summand, _Own):
            values = summand(self.data.x1, self.data.x2, self.symbols)
            return np.asarray(values / values.max(), dtype=np.float64)
        return np.asarray(self.rows[self.pairs.index(summand)])

    def _curve(self, fitted: _Fitted) -> Floats:
        parts = [a * self._values(f) for f, a in zip(fitted.form, fitted.numbers, strict=True)]
        return np.asarray(fitted.constant + sum(parts) + 0.0 * self.data.y, dtype=np.float64)

    def surface(self, fitted: _Fitted) -> Surface:
        """Return the model."""
        summands = []
        for f, a in zip(fitted.form, fitted.numbers, strict=True):
            own = f if isinstance(f, _Own) else None
            terms = f.terms if isinstance(f, _Own) else f
            with np.errstate(over="ignore"):
                top = (
                    own(self.data.x1, self.data.x2, self.symbols)
                    if own
                    else terms[0](self.data.x1) * terms[1](self.data.x2)
                )
            summands.append(Summand(terms, float(a / top.max()), own))
        return Surface(
            self.symbols, fitted.constant, tuple(summands), fitted.error, fitted.miss <= 1, self.data.y.size
        )

    def with_expected(self, expected: Sequence[_Own]) -> _Fitted:
        """Return the likeliest of the family, the expectation's own form, and that with one product more."""
        best = self.best
        values = np.stack([self._values(e) for e in expected])
        if not np.isfinite(values).all():
            return best
        form: _Form = tuple(expected)
        found = [best, *self._own_forms(form, values)]
        price = float(np.log(len(self.pairs))) + _SECOND
        designs = np.concatenate(
            [np.broadcast_to(values, (len(self.pairs), *values.shape)), self.rows[:, None]], axis=1
        )
        found += self._fit_many([(*form, p) for p in self.pairs], designs, price, (True, False))
        return max(found, key=lambda c: c.evidence)

    def _own_forms(self, form: _Form, values: Floats) -> list[_Fitted]:
        """Fit the expectation's sum, and what is left of it where a summand does not show."""
        found = self._fit_many([form], values[None], 0.0, (True, False))
        if len(form) > 1:
            for k in range(len(form)):
                rest = tuple(f for n, f in enumerate(form) if n != k)
                found += self._fit_many([rest], np.delete(values, k, axis=0)[None], 0.0, (True, False))
        return found


@dataclass(frozen=True)
class SurfaceVerdict:
    """Whether growth in two parameters matches an expectation; true in a condition when the bound holds.

    Attributes
    ----------
    match : str
        As of a `labkit.scaling.Verdict`.
    model : Surface
        What describes the data.
    reading : str
        The verdict in one sentence.
    unit : str
        Of the measurements; empty where it is not known.
    """

    match: str
    model: Surface
    reading: str
    unit: str = ""

    @property
    def ok(self) -> bool:
        """Whether the expectation, an upper bound, holds."""
        return self.match in ("exact", "approximate", "bound")

    def __bool__(self) -> bool:
        """Return `ok`."""
        return self.ok

    @property
    def growth(self) -> str:
        """The measured growth for a table."""
        return self.model.growth if self.model.is_described else f"{self.model.growth}?"

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict as JSON-able values."""
        model = self.model
        return {
            "match": self.match,
            "growth": model.growth,
            "model": model.formula,
            "error": model.error,
            "is_described": model.is_described,
            "reading": self.reading,
        }

    def __str__(self) -> str:
        """Print the sentence and the model."""
        return f"{self.reading}\n  model        O({self.model.growth}): {self.model.in_unit(self.unit)}"

    def _repr_html_(self) -> str:
        rows = [
            (
                "Measured",
                f"O({markup.escape(self.model.growth)}) &nbsp; "
                f"{markup.escape(self.model.in_unit(self.unit))}",
            ),
            ("Fit", f"largest error {self.model.error:.2%}, {self.model.points} points"),
        ]
        inner = f"<div>{markup.escape(self.reading)}</div>{markup.properties(rows)}"
        return markup.titled_block(markup.badge(self.match), inner)


def judge_surface(
    x1: npt.ArrayLike,
    x2: npt.ArrayLike,
    y: npt.ArrayLike,
    expectation: str,
    symbols: Sequence[str] = ("n", "p"),
    tolerance: float = TOLERANCE,
) -> SurfaceVerdict:
    """Judge measurements over two parameters against an expectation such as ``n/p log2(n/p) + p``.

    The expectation's own form is tried next to all sums of two products, and with one product more. Every
    summand of the likeliest model is compared with the summands expected, parameter by parameter and by
    exponents
    alone: it matches exactly, approximately (each parameter within its square root), stays below (the bound
    holds), or
    exceeds all of them.

    Parameters
    ----------
    x1, x2, y, symbols, tolerance
        As in `fit_surface`.
    expectation : str
        A product or a sum of products of the two parameters.

    Raises
    ------
    DataError, ExpectationError
        For data or an expectation that cannot be used; symbols other than the two parameters are refused.
    """
    names = (symbols[0], symbols[1])
    expected = _read(expectation, names)
    grid = _Grid(_grouped(x1, x2, y, names), names, check_tolerance(tolerance))
    model = grid.surface(grid.with_expected(expected))
    wanted = " + ".join(str(Summand(e.terms, 1.0, e)) for e in expected)
    terms = [e.terms for e in expected]
    grown = [s.terms for s in model.summands] or [(CONSTANT, CONSTANT)]
    found = [_kind(g, terms) for g in grown]
    said = f"it grows like {model.growth}" if model.summands else "it is constant"
    if not model.is_described:
        said = (
            f"no model fits within {100 * tolerance:.3g} %; the nearest, O({model.growth}), misses a "
            f"point by {beyond(100 * model.error, 100 * tolerance)} %"
        )
        if model.error > _ROUGH * tolerance and not grid.is_noisy:
            return SurfaceVerdict(
                "undecided", model, f"Undecided: {said}; O({wanted}) is expected; measure repetitions."
            )
    if "none" in found:
        over = str(model.summands[found.index("none")]) if model.summands else "a constant"
        return SurfaceVerdict("none", model, f"No match: {said}; {over} exceeds what O({wanted}) allows.")
    if set(grown) >= set(_largest(terms)):
        exceeds = any(not any(_is_within(g, e) for e in terms) for g in grown)
        if model.is_described and not exceeds:
            return SurfaceVerdict("exact", model, f"Exact match: {said}, as expected.")
        return SurfaceVerdict("approximate", model, f"Approximate match: {said}; O({wanted}) is expected.")
    reached = {_kind_of_any(t, grown) for t in _largest(terms)}
    match = "approximate" if "bound" not in reached else "bound"
    opening = "Approximate match" if match == "approximate" else "The bound holds but is not tight"
    return SurfaceVerdict(match, model, f"{opening}: {said}, O({wanted}) is expected.")


def _largest(terms: Sequence[tuple[Term, Term]]) -> list[tuple[Term, Term]]:
    """Return the summands that no other one exceeds in both parameters."""
    return [t for t in terms if not any(o != t and _is_within(t, o) for o in terms)]


def _is_within(terms: tuple[Term, Term], other: tuple[Term, Term]) -> bool:
    return terms[0] <= other[0] and terms[1] <= other[1]


def _kind(terms: tuple[Term, Term], expected: Sequence[tuple[Term, Term]]) -> str:
    """Return the best match of one summand with any expected one."""
    order = ("exact", "approximate", "bound", "none")
    return min((_pair_kind(terms, e) for e in expected), key=order.index)


def _pair_kind(terms: tuple[Term, Term], expected: tuple[Term, Term]) -> str:
    kinds = {outcome(t, e, _HALF) for t, e in zip(terms, expected, strict=True)}
    return next(k for k in ("none", "bound", "approximate", "exact") if k in kinds)


def _kind_of_any(expected: tuple[Term, Term], grown: Sequence[tuple[Term, Term]]) -> str:
    """Return whether any growth that was found comes near an expected one: "approximate", else "bound"."""
    near = any(_pair_kind(g, expected) in ("exact", "approximate") for g in grown)
    return "approximate" if near else "bound"


def _read(text: str, symbols: tuple[str, str]) -> tuple[_Own, ...]:
    """Read the summands of an expectation in two parameters; log(n/p) grows like log n."""
    out: dict[tuple[Term, Term], _Own] = {}
    for p in parse(text):
        unknown = sorted(p.symbols - set(symbols))
        if unknown:
            raise ExpectationError(
                f"expectation {text!r}: {unknown[0]!r} is not a parameter; known: {symbols[0]}, {symbols[1]}"
            )
        pair = []
        for symbol in symbols:
            grown = [r for inner, r in p.logs if min((e, s) for s, e in inner if e > 0)[1] == symbol]
            logs = sum(grown, start=p.coefficient * 0)
            pair.append(
                Term(dict(p.exponentials).get(symbol, 0), dict(p.powers).get(symbol, 0), logs, symbol)
            )
        out.setdefault((pair[0], pair[1]), _Own((pair[0], pair[1]), p))
    return tuple(out.values())


def _joined(terms: tuple[Term, Term]) -> str:
    """Return the product of both terms: n log n / p, n · log p."""
    above = [str(t) for t in terms if not t.is_constant and not _is_divisor(t)]
    below = [str(t.power(-1)) for t in terms if _is_divisor(t)]
    top = " · ".join(above) or "1"
    return f"{top} / {' / '.join(below)}" if below else top


def _is_divisor(term: Term) -> bool:
    return term.polynomial < 0 and not term.logarithmic and not term.exponential
