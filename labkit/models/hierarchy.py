"""Models of communication in a hierarchy: asymptotic, dominant term, bounded, exact.

A model is a formula in S, the bytes of a message, and P, the ranks. What it claims is its kind:

==========  =======================================================================
asymptotic  the growth: ``O(S + log P)``
dominant    the leading terms with their constants; smaller ones are not known
bounded     a lower and an upper bound, in seconds
exact       the time, in seconds
==========  =======================================================================

Formulas may be piecewise in S and P, as where protocols change with the length. Models are added where one
operation follows another, compared by `maximum` where two run at the same time, multiplied by a count, and
composed by calling them: ``message(S="8 * S / P")``. Of two kinds a sum has the weaker one. A model is
weakened by `CommunicationModel.dominant` and `CommunicationModel.asymptotic`; nothing makes it stronger but
more knowledge.

References
----------
T. Hoefler, W. Gropp, R. Thakur, J. L. Träff: Toward performance models of MPI implementations for
understanding application scaling issues. EuroMPI 2010, doi:10.1007/978-3-642-15646-5_3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd
import sympy
from numpy.typing import ArrayLike, NDArray
from sympy.parsing.sympy_parser import parse_expr

from labkit.errors import DataError
from labkit.text.html import quantity

if TYPE_CHECKING:
    from labkit.result import Run

__all__ = [
    "CommunicationModel",
    "ModelComparison",
    "P",
    "S",
    "asymptotic",
    "bounded",
    "dominant",
    "exact",
    "maximum",
]

#: bytes of a message, and ranks
S, P = sympy.symbols("S P", positive=True)

#: what a model claims, from the weakest on
KINDS = ("asymptotic", "dominant", "bounded", "exact")

#: seconds of a unit, bytes of a unit
_UNITS = {
    "s": 1,
    "ms": 1e-3,
    "us": 1e-6,
    "µs": 1e-6,
    "ns": 1e-9,
    "ps": 1e-12,
    "B": 1,
    "KiB": 1024,
    "MiB": 2**20,
}

_NAMES: dict[str, Any] = {
    "S": S,
    "P": P,
    "log": lambda x: sympy.log(x, 2),
    "log2": lambda x: sympy.log(x, 2),
    "sqrt": sympy.sqrt,
    "cbrt": sympy.cbrt,
    "min": sympy.Min,
    "max": sympy.Max,
    "floor": sympy.floor,
    "ceil": sympy.ceiling,
}

#: a formula as a user gives it: text such as "4.5 us + 2.67 ns/B * S", a number, or an expression of sympy
Formula: TypeAlias = "str | float | sympy.Expr"
_Pieces: TypeAlias = "Formula | Sequence[tuple[str | Any, Formula]]"


def _formula(given: Formula) -> sympy.Expr:
    """Read a formula."""
    if not isinstance(given, str):
        return sympy.sympify(given)
    text = re.sub(r"([\d.])\s*([µa-zA-Z]+)(/B)?\b", _with_unit, given)
    unknown = sorted(set(re.findall(r"[^\W\d]\w*", text)) - set(_NAMES) - {"e", "E"})
    if unknown or re.search(r"[^\w\s.+\-*/()^,<>=&]", text):
        allowed = f"S, P, numbers with {', '.join(_UNITS)}, and {', '.join(sorted(_NAMES)[2:])}"
        raise DataError(
            f"the formula {given!r} has {', '.join(unknown) or 'a sign'} in it; allowed: {allowed}",
            code="malformed-expression",
        )
    try:
        return sympy.sympify(parse_expr(text.replace("^", "**"), local_dict=_NAMES))
    except (SyntaxError, TypeError, ValueError, AttributeError) as error:
        raise DataError(
            f"the formula {given!r} cannot be read: {error}; example: '4.5 us + 2.67 ns/B * S'",
            code="malformed-expression",
        ) from None


def _with_unit(found: re.Match[str]) -> str:
    digit, unit, per_byte = found[1], found[2], found[3] or ""
    if unit not in _UNITS:
        return found[0]
    return f"{digit}*({_UNITS[unit]!r})" if per_byte or unit != "B" else digit


def _pieced(given: _Pieces) -> sympy.Expr:
    """Read a formula, or formulas with where they hold."""
    if isinstance(given, str | float | int | sympy.Expr):
        return _formula(given)
    pieces = [(_formula(formula), True if where is True else _formula(where)) for where, formula in given]
    if not pieces:
        raise DataError(
            "a model has no formula; give one, or pairs of a condition and a formula", code="missing-key"
        )
    return sympy.Piecewise(*pieces)


@dataclass(frozen=True, eq=False)
class CommunicationModel:
    """What an operation takes, as a formula in S (bytes) and P (ranks).

    Made by `exact`, `bounded`, `dominant` and `asymptotic`.

    Attributes
    ----------
    kind : {"exact", "bounded", "dominant", "asymptotic"}
    lower, upper : sympy.Expr
        Seconds; the same unless the model is bounded. Of an asymptotic model: the growth, without a unit.
    title : str
        What the model is of.
    is_of_hosts : bool
        Whether it holds where no two ranks share a host, as what is derived from a machine does.

    Examples
    --------
    >>> from labkit.models import P, S, bounded, exact
    >>> message = exact([("S < 256", "4.5 us + 2.67 ns/B * S"), ("S <= 1024", "5.7 us + 2.67 ns/B * S"),
    ...                  (True, "9.8 us + 2.67 ns/B * S")])
    >>> round(1e6 * message.evaluate(S=4096), 3)
    20.736
    >>> print((message(S=8) * 3).asymptotic())
    O(1)
    """

    kind: str
    lower: sympy.Expr
    upper: sympy.Expr
    title: str = ""
    is_of_hosts: bool = False

    # -- numbers -------------------------------------------------------------------------------------
    def evaluate(self, S: ArrayLike = 0, P: ArrayLike = 1) -> Any:
        """Return the seconds at some bytes and ranks.

        Parameters
        ----------
        S, P : array_like
            Broadcast against each other.

        Returns
        -------
        float or ndarray, or (lower, upper)
            Two of them for a bounded model; of a dominant model the terms that are known.

        Raises
        ------
        DataError
            For an asymptotic model, which says nothing about seconds, and where a piece is missing.
        """
        if self.kind == "asymptotic":
            raise DataError(
                f"{self} is asymptotic: it has no seconds; evaluate a bounded or an exact model",
                code="unsupported",
            )
        lower, upper = self._numbers[0](S, P), self._numbers[1](S, P)
        return (lower, upper) if self.kind == "bounded" else lower

    @cached_property
    def _numbers(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        return _function(self.lower), _function(self.upper)

    # -- algebra -------------------------------------------------------------------------------------
    def __add__(self, other: CommunicationModel) -> CommunicationModel:
        """Return the model of one operation after another."""
        return self._with(other, lambda a, b: a + b, "+")

    def __mul__(self, factor: CommunicationModel | Formula) -> CommunicationModel:
        """Return the model of an operation that is repeated, or scaled by a formula in S and P."""
        if isinstance(factor, CommunicationModel):
            return self._with(factor, lambda a, b: a * b, "*")
        formula = _formula(factor)
        if formula.is_negative:
            raise DataError(
                f"a model is multiplied by {formula}; allowed: a factor that is not negative",
                code="unsupported",
            )
        lower, upper = (sympy.piecewise_fold(bound * formula) for bound in (self.lower, self.upper))
        return replace(self, lower=lower, upper=upper)

    __rmul__ = __mul__

    def _with(
        self, other: CommunicationModel, join: Callable[[Any, Any], object], sign: str
    ) -> CommunicationModel:
        if not isinstance(other, CommunicationModel):
            raise DataError(
                f"a model cannot be joined with {other!r} by {sign}; give another model", code="unsupported"
            )
        kind = min(self.kind, other.kind, key=KINDS.index)
        mine, theirs = (m.asymptotic() if kind == "asymptotic" else m for m in (self, other))
        lower = sympy.piecewise_fold(join(mine.lower, theirs.lower))
        upper = sympy.piecewise_fold(join(mine.upper, theirs.upper))
        of_hosts = self.is_of_hosts or other.is_of_hosts
        made = CommunicationModel(kind, lower, upper, is_of_hosts=of_hosts)
        return made.asymptotic() if kind == "asymptotic" else made

    def __call__(self, S: Formula | None = None, P: Formula | None = None) -> CommunicationModel:
        """Return the model with formulas in the place of S and P: a message of S / P bytes, 2 ranks."""
        values = [(symbol, _formula(by)) for symbol, by in ((_S, S), (_P, P)) if by is not None]
        lower, upper = (
            sympy.piecewise_fold(e.subs(values, simultaneous=True)) for e in (self.lower, self.upper)
        )
        return replace(self, lower=lower, upper=upper)

    # -- the hierarchy -------------------------------------------------------------------------------
    def asymptotic(self) -> CommunicationModel:
        """Return its growth, where S and P are large: what no constant changes."""
        terms = (growth.subs(sympy.log(2), 1) for _, growth in _leading(self.upper))
        growth = sum(terms, sympy.Integer(0))
        return replace(self, kind="asymptotic", lower=growth, upper=growth)

    def dominant(self) -> CommunicationModel:
        """Return its leading terms, with their constants: for a bounded model those of the upper bound."""
        if self.kind == "asymptotic":
            raise DataError(
                f"{self} has no constants; nothing can be said about its terms but their growth",
                code="unsupported",
            )
        leading = sum((factor * term for factor, term in _leading(self.upper)), sympy.Integer(0))
        return replace(self, kind="dominant", lower=leading, upper=leading)

    # -- against measurements ------------------------------------------------------------------------
    def compare(self, study: Any, phase: str | None = None, S: float | str = 0) -> ModelComparison:
        """Compare the model with the times of a sweep.

        Parameters
        ----------
        study : Study
        phase : str, optional
            Of a phase instead of whole runs.
        S : float or str
            Bytes of the messages, or the name of the study's parameter for them.

        Returns
        -------
        Comparison
        """
        metric = "makespan_s" if phase is None else "phase_s"
        data = study.data
        rows = data[(data["metric"] == metric) & ((data["phase"] == phase) if phase else True)]
        if rows.empty:
            raise DataError(
                f"the study has no times of {f'phase {phase!r}' if phase else 'whole runs'}", code="no-data"
            )
        sizes: object = rows[S].astype(float) if isinstance(S, str) else pd.Series(float(S), rows.index)
        found = pd.DataFrame(
            {"ranks": rows["ranks"], "bytes": sizes, "measured_s": rows["value"].astype(float)}
        )
        medians = found.groupby(["ranks", "bytes"])["measured_s"].median().reset_index()
        return ModelComparison(self, self._beside(medians))

    def _beside(self, found: pd.DataFrame) -> pd.DataFrame:
        values = self.evaluate(found["bytes"].to_numpy(float), found["ranks"].to_numpy(float))
        lower, upper = values if self.kind == "bounded" else (values, values)
        return found.assign(lower_s=lower, upper_s=upper)

    def inside_bounds(self, run: Run, S: float = 0, tolerance: float = 1e-9) -> bool:
        """Return whether a run's time lies between the bounds (of an exact model: whether it is the model's).

        Parameters
        ----------
        run : Run
        S : float
            Bytes of its messages.
        tolerance : float
            Relative.

        Raises
        ------
        DataError
            If ranks of the run share hosts, and the model holds where they do not.
        """
        most = run.machine.get("most_ranks_on_a_host", 1)
        if self.is_of_hosts and most > 1:
            raise DataError(
                f"the model of {self.title or self} holds for one rank a host, and in this run up to {most} "
                'share one; run it with mapping="block:1"',
                code="unsupported",
            )
        values = self.evaluate(S, run.ranks)
        lower, upper = values if self.kind == "bounded" else (values, values)
        return bool(lower * (1 - tolerance) <= run.makespan_s <= upper * (1 + tolerance))

    # -- text ----------------------------------------------------------------------------------------
    def __str__(self) -> str:
        if self.kind == "asymptotic":
            return f"O({_text(self.upper)})"
        if self.kind == "bounded":
            return f"{_text(self.lower, True)} <= T <= {_text(self.upper, True)}"
        return f"T = {_text(self.lower, True)}" + (" + ..." if self.kind == "dominant" else "")

    __repr__ = __str__

    @property
    def latex(self) -> str:
        """The formula in LaTeX, seconds."""
        lower, upper = (sympy.latex(_rounded(e), fold_short_frac=True) for e in (self.lower, self.upper))
        if self.kind == "asymptotic":
            return rf"T(S, P) = O\left({upper}\right)"
        if self.kind == "bounded":
            return rf"{lower} \le T(S, P) \le {upper}"
        return f"T(S, P) = {lower}" + (r" + \ldots" if self.kind == "dominant" else "")

    def _repr_latex_(self) -> str:
        return f"$\\displaystyle {self.latex}$"

    def _repr_html_(self) -> str:
        from html import escape  # not MathML: JupyterLab takes its tags out of outputs that were stored

        title = f"<div>{escape(self.title)} ({self.kind}, seconds)</div>" if self.title else ""
        return f"{title}<div>{escape(str(self).replace('<=', '≤'))}</div>"


_S, _P = S, P


def exact(formula: _Pieces, title: str = "") -> CommunicationModel:
    """Make a model of the time.

    Parameters
    ----------
    formula : str, expression, or sequence of (where, formula)
        Seconds; of several the first one whose condition holds: ``[("S < 9", "4.5 us"), (True, "9.8 us")]``.
    title : str
    """
    made = _pieced(formula)
    return CommunicationModel("exact", made, made, title)


def bounded(lower: _Pieces, upper: _Pieces, title: str = "") -> CommunicationModel:
    """Make a model of the bounds between which the time lies, formulas as in `exact`."""
    return CommunicationModel("bounded", _pieced(lower), _pieced(upper), title)


def dominant(formula: _Pieces, title: str = "") -> CommunicationModel:
    """Make a model of which the leading terms are known, formula as in `exact`."""
    made = _pieced(formula)
    return CommunicationModel("dominant", made, made, title)


def asymptotic(formula: Formula, title: str = "") -> CommunicationModel:
    """Make a model of the growth: ``asymptotic("S + log(P)")``."""
    made = _formula(formula)
    return CommunicationModel("exact", made, made, title).asymptotic()


def maximum(*models: CommunicationModel) -> CommunicationModel:
    """Return the model of operations that run at the same time: the longest counts."""
    if not models:
        raise DataError("maximum of no models; give at least one", code="not-enough-data")
    first, *others = models
    for other in others:
        first = first._with(other, sympy.Max, "maximum")
    return first


# -- growth ------------------------------------------------------------------------------------------


def _function(formula: sympy.Expr) -> Callable[[ArrayLike, ArrayLike], object]:
    """Return a formula as a function of arrays; a float where both are numbers."""
    made = sympy.lambdify((S, P), formula, "numpy")

    def function(sizes: ArrayLike, ranks: ArrayLike) -> object:
        a, b = np.broadcast_arrays(np.asarray(sizes, float), np.asarray(ranks, float))
        with np.errstate(divide="ignore", invalid="ignore"):
            found: NDArray[np.float64] = np.asarray(made(a, b), float) + np.zeros(a.shape)
        if np.isnan(found).any():
            raise DataError(
                f"the model has no formula for S = {a.ravel()[0]:g}, P = {b.ravel()[0]:g}",
                code="out-of-range",
            )
        return float(found) if found.ndim == 0 else found

    return function


#: logarithms of base 2, as symbols: what a term is made of in addition to powers of S and P
_LOG_S, _LOG_P = sympy.symbols("log2(S) log2(P)", positive=True)


def _in_logs(formula: sympy.Expr) -> sympy.Expr:
    """Return a formula as a sum of products in which logarithms of S and P are symbols."""
    smooth = formula.replace(sympy.floor, lambda x: x).replace(sympy.ceiling, lambda x: x)
    plain = sympy.expand_log(sympy.expand(smooth), force=True)
    logs = {sympy.log(S): sympy.log(2) * _LOG_S, sympy.log(P): sympy.log(2) * _LOG_P}
    return sympy.expand(plain.subs(logs))


def _leading(formula: sympy.Expr) -> list[tuple[sympy.Expr, sympy.Expr]]:
    """Return the terms that no other one dominates where S and P are large, each as constant and growth."""
    parts: dict[sympy.Expr, sympy.Expr] = {}
    for term in sympy.Add.make_args(_in_logs(_beyond(formula))):
        constant, growth = term.as_independent(S, P, _LOG_S, _LOG_P)
        parts[growth] = parts.get(growth, sympy.Integer(0)) + constant
    alive = [growth for growth, constant in parts.items() if constant != 0] or [sympy.Integer(1)]
    leading = [one for one in alive if not any(_below(one, other) for other in alive if other != one)]
    logs = {_LOG_S: sympy.log(S, 2), _LOG_P: sympy.log(P, 2)}
    return [(parts.get(g, sympy.Integer(0)), g.subs(logs)) for g in sorted(leading, key=str)]


def _below(one: sympy.Expr, other: sympy.Expr) -> bool:
    """Return whether a product grows no faster than another one, in S as in P."""
    powers = [product.as_powers_dict() for product in (one, other)]
    known = (S, _LOG_S, P, _LOG_P)
    if not all(
        base == 1 or (base in known and power.is_number) for each in powers for base, power in each.items()
    ):
        return False  # nothing is known of other products, such as 2^P
    (s1, ls1, p1, lp1), (s2, ls2, p2, lp2) = ([each.get(symbol, 0) for symbol in known] for each in powers)
    return bool((s1, ls1) <= (s2, ls2) and (p1, lp1) <= (p2, lp2))


def _beyond(formula: sympy.Expr) -> sympy.Expr:
    """Return the formula that holds where S and P are large: the last piece, the larger of several."""
    folded = sympy.piecewise_fold(formula)
    if isinstance(folded, sympy.Piecewise):
        large = {S: sympy.Integer(2) ** 60, P: sympy.Integer(2) ** 60}
        for piece, where in folded.args:
            if where is sympy.true or bool(where.subs(large)):
                return _beyond(piece)
        raise DataError(f"the model has no formula for large S and P: {formula}", code="unsupported")
    maxima = folded.atoms(sympy.Max)
    # O(max(a, b)) is O(a + b)
    return folded.subs({m: sum(m.args, sympy.Integer(0)) for m in maxima}) if maxima else folded


# -- text --------------------------------------------------------------------------------------------


def _rounded(formula: sympy.Expr) -> sympy.Expr:
    """Return a formula with numbers of four digits and logarithms of base 2."""
    log2 = sympy.Function("log_2")
    based = formula.replace(sympy.log, lambda x: sympy.log(2) * log2(x) if x.free_symbols else sympy.log(x))
    return based.xreplace({number: sympy.Float(number, 4) for number in based.atoms(sympy.Float)})


def _text(formula: sympy.Expr, has_unit: bool = False) -> str:
    """Write a formula in one line; with a unit, its terms are seconds."""
    if isinstance(formula, sympy.Piecewise):
        pieces = [
            f"{_text(piece, has_unit)} " + ("otherwise" if where is sympy.true else f"for {where}")
            for piece, where in formula.args
        ]
        return "; ".join(pieces)
    if not has_unit:
        return str(formula).replace("**", "^")
    if isinstance(formula, sympy.Max):
        return f"max({', '.join(_text(one, has_unit) for one in formula.args)})"
    parts = []
    for term in sympy.Add.make_args(formula if formula.has(sympy.Max, sympy.Min) else _in_logs(formula)):
        if isinstance(term, sympy.Max):
            parts.append(("", _text(term, has_unit)))
            continue
        constant, growth = term.as_independent(S, P, _LOG_S, _LOG_P)
        number = quantity(float(constant), "s")
        parts.append((str(growth), number if growth == 1 else f"{number} {growth}".replace("**", "^")))
    text = " + ".join(text for _, text in sorted(parts, key=lambda part: (len(part[0]), part[0])))
    return text.replace("+ -", "- ")


@dataclass(frozen=True)
class ModelComparison:
    """A model and measured times.

    `data`: ranks, bytes, measured_s, lower_s, upper_s.
    """

    model: CommunicationModel
    data: pd.DataFrame

    @cached_property
    def outside(self) -> pd.DataFrame:
        """The rows whose measured time lies outside the bounds."""
        d = self.data
        is_in = (d["measured_s"] >= d["lower_s"] * (1 - 1e-9)) & (
            d["measured_s"] <= d["upper_s"] * (1 + 1e-9)
        )
        return d[~is_in]

    @cached_property
    def largest_error(self) -> float:
        """The largest relative distance of a measured time from the bounds, or from an exact model."""
        d = self.data
        below = (d["lower_s"] / d["measured_s"]).max() - 1
        above = 1 - (d["upper_s"] / d["measured_s"]).min()
        return float(max(below, above, 0.0))

    def __str__(self) -> str:
        n = len(self.data)
        if self.model.kind != "bounded":
            return f"{self.model}: {n} points, largest error {self.largest_error:.2%}"
        inside = n - len(self.outside)
        end = "" if inside == n else f"; the farthest one lies {self.largest_error:.1%} outside"
        return f"{self.model}: {inside} of {n} points lie inside{end}"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(str(self))}</p>{self.data.to_html(index=False)}"
