"""The family of models c + a f + b g (+ d h): all members fitted to one data set, each with its evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from labkit.scaling.model import LEVEL
from labkit.scaling.samples import Summary
from labkit.scaling.search import Terms
from labkit.scaling.term import CONSTANT, Term

__all__ = [
    "ROUNDING",
    "SEEN_TWICE",
    "Candidate",
    "Family",
    "log_evidence",
    "lost",
    "screen",
    "solve",
    "unchanged",
    "without",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

#: relative errors below this are rounding
ROUNDING = 1e-11
#: logarithms of how much less likely a model is beforehand: a constant or a lower term below 0; a second and
#: a third term beyond the number of choices
_BELOW, _BELOW_NOISY, _LOWER_BELOW, _SECOND, _THIRD = 0.3, 7.0, 2.0, 6.0, 14.0
#: logarithm of how much a model loses that leaves the tolerance, or whose leading term is not visible,
#: entirely; of what it loses at the edge, within a hundredth of the tolerance
_OUTSIDE, _FARTHER = 60.0, 8.0
_EDGE, _EDGE_WIDTH = 6.0, 0.01
#: of noisy data, a level: what they scatter bends them as well
_LEVEL_NOISY = 6.0
#: what growth with a falling term loses below this share of the last value; the share of the last value but
#: one from which on what has only fallen so far is believed to grow
_TRACE, _GROWN, _LARGER = 10.0, 0.3, 0.6
#: a level is believed where the data reach this share of it
_REACHED = 0.7
#: pairs and triples that are fitted with care, after a quick look at all of them
_REFINED, _EXTENDED = 60, 12
_LEAST_FOR_THREE = 7
#: the share of the tolerance that a term must contribute, and that models may miss without a difference
VISIBLE, _PRACTICAL = 0.02, 0.1
#: the share of the last value but one that an exponential, or growth after a fall, must contribute
SEEN_TWICE = 0.05
#: what misses a point by up to this many tolerances may be bent; iterations, and the least weight in one
_BENT, _LAWSON, _LEAST_WEIGHT = 2.0, 24, 1e-6
#: how much more than the mean the last point counts
_LATE = 0.6
#: what sums of two terms miss points left out by, as a share of what the best single term misses them by: up
#: to the first share nothing is scatter, from the second on all is
_FORESEEN, _UNFORESEEN = 0.1, 0.4
#: how far a term may miss a point that scatters, in multiples of what it misses points left out by, of the
#: roughness, and of the tolerance; the width of the edge
_SCATTER, _TURNS, _MOST_SCATTER, _SCATTER_EDGE = 2.0, 1.5, 4.0, 0.05
#: candidates of a kind less likely than its best by this have no weight
_HOPELESS = 10.0


class Candidate(NamedTuple):
    """One fitted member of the family.

    `terms`: Places of its functions, in the order of growth.
    `numbers`: Their coefficients, of functions scaled to a maximum of 1.
    `constant`: c, of either sign.
    `lead`: Its growth: 1 where it levels off.
    `error`, `sse`, `press`: The largest relative error, the squared ones summed up, and the same of points
        left out.
    `miss`: The largest error relative to what a model may miss: 1 at most where it describes the data.
    `free`: How many numbers were fitted.
    `evidence`: Logarithm of its weight.
    """

    terms: tuple[int, ...]
    numbers: tuple[float, ...]
    constant: float
    lead: Term
    error: float
    sse: float
    press: float
    miss: float
    free: int
    evidence: float


def solve(designs: Floats, target: Floats) -> tuple[Floats, Floats, Floats]:
    """Return the least-squares numbers, residuals and leverages of many designs, shape (t, n, m)."""
    sizes = np.abs(designs).max(axis=1)
    q, r = np.linalg.qr(designs / sizes[:, None])
    onto = np.einsum("tnm,n->tm", q, target)
    diagonal = np.abs(np.diagonal(r, axis1=1, axis2=2))
    is_regular = diagonal.min(axis=1) > 1e-14 * diagonal.max(axis=1)
    r[~is_regular] = np.eye(r.shape[1])
    numbers = np.linalg.solve(r, onto[..., None])[..., 0]
    numbers[~is_regular] = np.nan
    error = target - np.einsum("tnm,tm->tn", q, onto)
    leverage = np.minimum((q * q).sum(axis=2), 1 - 1e-9)
    return numbers / sizes, np.where(is_regular[:, None], error, np.inf), leverage


@dataclass(frozen=True, eq=False)
class Family:
    """Every member of the family that data allow.

    `layout`: The functions over the values of the parameter.
    `summary`: The data.
    `tolerance`: The largest relative error of a model that describes the data.
    """

    layout: Terms
    summary: Summary
    tolerance: float

    @cached_property
    def limits(self) -> Floats:
        """How far a model may miss each point, relative to it, shape (n,)."""
        noise = 4.0 * self.summary.deviation / np.sqrt(self.summary.counts) if self.summary.is_noisy else 0.0
        return np.maximum(max(self.tolerance, 100 * ROUNDING), noise) * np.ones(self.summary.points.size)

    @cached_property
    def candidates(self) -> list[Candidate]:
        """All candidates, the likeliest first."""
        pairs = self._pairs()
        singles = self._scattered(self._singles(), pairs)
        found = self._bent([*singles, *pairs, *self._triples(pairs, singles)])
        own = self.layout.foreign
        if own.size and np.isfinite(self.layout.values[own]).all():
            found += self._bent(self._lines(own))
        return sorted(found, key=lambda c: (-c.evidence, c.terms))

    def _scattered(self, singles: list[Candidate], pairs: list[Candidate]) -> list[Candidate]:
        """Return single terms, of which those without a level may miss points by as far as they scatter.

        Where the data bend to and fro, and no sum of two terms predicts points left out much better than the
        best single term does, what that term misses is scatter: a sum would only follow it. Of repetitions,
        the scatter is known.
        """
        half, falls = float(self.summary.points[-1]) / 2, self.layout.is_falling
        is_level = [bool(c.terms and falls[c.terms[0]] and c.constant > half) for c in singles]
        levels, lines = (
            [c for c, i in zip(singles, is_level, strict=True) if i == one] for one in (True, False)
        )
        if self.summary.freedom or not self.tolerance or not lines or not pairs:
            return singles
        n = self.summary.points.size
        own, others = (np.sqrt(min(c.press for c in some) / n) for some in (lines, pairs))
        unforeseen = np.clip((others / max(own, ROUNDING) - _FORESEEN) / (_UNFORESEEN - _FORESEEN), 0.0, 1.0)
        farthest = min(_SCATTER * float(own), _TURNS * self._roughness)
        scatter = np.clip(farthest / float(self.limits.max()), 1.0, _MOST_SCATTER)
        times = 1.0 + float(unforeseen) * (float(scatter) - 1.0)
        misses = np.array([c.miss for c in lines])
        # what deviates by more than that describes nothing, and must not outdo what does
        outside = lost(misses) * np.clip((misses / times - 1.0) / _SCATTER_EDGE, 0.0, 1.0)
        evidence = np.array([c.evidence for c in lines]) + lost(misses)
        evidence -= np.maximum(outside, lost(misses / times))
        misses = np.where(misses > times, misses, misses / times)
        found = zip(lines, misses.tolist(), evidence.tolist(), strict=True)
        return levels + [c._replace(miss=miss, evidence=e) for c, miss, e in found]

    @cached_property
    def _roughness(self) -> float:
        """How far the data, in logarithms, bend one way and then the other, in several places of many.

        One step does so, too, but at its place alone.
        """
        at, logs = np.log(self.layout.x), np.log(self.summary.points)
        bends = np.diff(np.diff(logs) / np.diff(at)) * (at[2:] - at[:-2]) / 2
        turns = np.minimum(np.abs(bends[1:]), np.abs(bends[:-1]))
        turns = np.sort(np.where(bends[1:] * bends[:-1] < 0, turns, 0.0))
        return float(turns[-1 - max(0, turns.size - 3) // 4])

    def _bent(self, found: list[Candidate]) -> list[Candidate]:
        """Return the candidates, those that can meet every point of single measurements bent to do so.

        Least squares may miss a point by more than the tolerance where another curve of the same terms misses
        none: the one whose largest error is least (Lawson's iteration: weights grow with the errors).
        """
        if self.summary.is_noisy or not found:
            return found
        misses = np.array([c.miss for c in found])
        evidence = np.array([c.evidence for c in found])
        believed = evidence + lost(misses)
        can = (misses > 1) & (misses < _BENT) & (believed > evidence.max() - _HOPELESS)
        near = [t for t in np.argsort(-believed, kind="stable").tolist() if can[t] and found[t].constant]
        out, near = found.copy(), near[:_REFINED]
        for width in {len(found[t].terms) for t in near}:
            some = [t for t in near if len(found[t].terms) == width]
            places = np.array([found[t].terms for t in some], dtype=np.int64).reshape(len(some), width)
            for t, numbers, error in zip(some, *self._minimax(places), strict=True):
                c, miss = found[t], float((np.abs(error) / self.limits).max())
                signs = np.sign([*c.numbers, c.constant])
                if miss < c.miss and (np.sign(numbers) == signs).all():
                    out[t] = c._replace(
                        numbers=tuple(numbers[:width].tolist()),
                        constant=float(numbers[width]),
                        miss=miss,
                        error=float(np.abs(error).max()),
                        sse=float((error * error).sum()),
                        evidence=float(believed[t] - lost(np.asarray(miss))),
                    )
        return out

    def _minimax(self, places: Ints) -> tuple[Floats, Floats]:
        """Return the numbers, the constant last, and errors of the sums whose largest error is least."""
        rows = np.moveaxis(self.layout.values[places] * self._unit, 1, 2)
        unit = np.broadcast_to(self._unit[None, :, None], (len(places), self._unit.size, 1))
        q, r = np.linalg.qr(np.concatenate([rows, unit], axis=2))
        weights = np.ones(rows.shape[:2])
        best, least = np.zeros(r.shape[:2]), np.full(len(places), np.inf)
        for _ in range(_LAWSON):
            weighted = np.swapaxes(q * weights[..., None], 1, 2)
            numbers = np.linalg.solve(weighted @ q, weighted.sum(axis=2)[..., None])
            off = np.abs(1 - (q @ numbers)[..., 0]) / self.limits
            largest = off.max(axis=1)
            better = largest < least
            best[better], least[better] = numbers[better, :, 0], largest[better]
            weights *= off
            weights = np.maximum(weights / weights.max(axis=1, keepdims=True), _LEAST_WEIGHT)
        error = 1 - (q @ best[..., None])[..., 0]
        return np.linalg.solve(r, best[..., None])[..., 0] * self.summary.points.min(), error

    @cached_property
    def _unit(self) -> Floats:
        return np.asarray(self.summary.points.min() / self.summary.points, dtype=np.float64)

    def _solve(self, places: Ints, with_constant: bool) -> tuple[Floats, Floats, Floats]:
        """Fit sums of functions, shape (t, m); the constant is the last number."""
        rows = self.layout.values[places] * self._unit
        designs = np.moveaxis(rows, 1, 2)
        if with_constant:
            unit = np.broadcast_to(self._unit[None, :, None], (len(places), self.summary.points.size, 1))
            designs = np.concatenate([designs, unit], axis=2)
        root = np.sqrt(self._counts)
        numbers, error, leverage = solve(designs * root[None, :, None], root)
        return numbers * self.summary.points.min(), error / root, leverage

    @cached_property
    def _counts(self) -> Floats:
        return self.summary.counts if self.summary.is_noisy else np.ones(self.summary.points.size)

    def _singles(self) -> list[Candidate]:
        """Return the constant and every c + a f."""
        flat = np.zeros((1, 0), dtype=np.int64)
        found = self._judged(flat, *self._solve(flat, True), True, 0.0)
        return found + self._lines(self.layout.usable)

    def _lines(self, functions: Ints) -> list[Candidate]:
        """Return c + a f of some functions."""
        places = functions[:, None]
        numbers, error, leverage = self._solve(places, True)
        falls = self.layout.is_falling[functions]
        a, c = numbers.T
        with np.errstate(invalid="ignore"):
            good = np.where(falls, (c > 0) & ((a > 0) | self.layout.may_level[functions]), a > 0)
            bare = falls & (c <= 0) & (a > 0)  # nothing is below 0 in the end
        price = float(np.log(max(len(self.layout.usable), 1)))
        found = self._judged(places[good], numbers[good], error[good], leverage[good], True, price)
        if bare.any():
            found += self._judged(places[bare], *self._solve(places[bare], False), False, price)
        return found

    def _allowed(self, k: Ints, l: Ints, a: Floats, b: Floats) -> npt.NDArray[np.bool_]:  # noqa: E741
        """Return which signs of two terms, the first the slower, make sense."""
        low, high = self.layout.is_falling[k], self.layout.is_falling[l]
        with np.errstate(invalid="ignore"):
            rising = ~high & (b > 0) & ((a > 0) | (self.layout.is_simple[k] & self.layout.is_simple[l]))
            both = high & (
                ((a > 0) & (b > 0))
                | ((a < 0) & (b < 0) & self.layout.may_level[k] & self.layout.may_level[l])
            )
        return np.asarray(np.where(low & ~high, (a > 0) & (b > 0), rising | both))

    def _pairs(self) -> list[Candidate]:
        """Return the sums of two terms that fit best."""
        usable, n = self.layout.usable, self.summary.points.size
        if len(usable) < 2 or n < 5:
            return []
        i, j = self.layout.pairs
        k, l = usable[i], usable[j]  # noqa: E741
        root = np.sqrt(self._counts)
        rows, unit = self.layout.values[usable] * self._unit * root, self._unit * root
        price = float(np.log(len(i))) + _SECOND
        found = []
        for with_constant in (True, False):
            rest = without(unit) if with_constant else unchanged
            a, b, errors = screen(rest(rows), rest(root), i, j)
            order = np.argsort(np.where(self._allowed(k, l, a, b), errors, np.inf), kind="stable")[:_REFINED]
            order = order[np.isfinite(errors[order])]
            places = np.stack([k[order], l[order]], axis=1)
            numbers, error, leverage = self._solve(places, with_constant)
            good = self._allowed(places[:, 0], places[:, 1], numbers[:, 0], numbers[:, 1])
            if with_constant:  # what falls towards a level needs one, what grows does not
                with np.errstate(invalid="ignore"):
                    good &= ~self.layout.is_falling[places[:, 1]] | (numbers[:, 2] >= 0)
            found += self._judged(
                places[good], numbers[good], error[good], leverage[good], with_constant, price
            )
        return found

    def _triples(self, pairs: list[Candidate], singles: list[Candidate]) -> list[Candidate]:
        """Return sums of three terms that extend the best of two, where points are left to judge them by."""
        n = self.summary.points.size
        if n < _LEAST_FOR_THREE or not pairs or min(c.error for c in [*pairs, *singles]) <= 100 * ROUNDING:
            return []
        best = [c.terms for c in sorted(pairs, key=lambda c: c.sse)[:_EXTENDED] if min(c.numbers) > 0]
        growing = self.layout.usable[~self.layout.is_falling[self.layout.usable]]
        if not best:
            return []
        trials = np.concatenate(
            [np.repeat(best, growing.size, axis=0), np.tile(growing, len(best))[:, None]], axis=1
        )
        places = np.sort(trials[(trials[:, :2] != trials[:, 2:]).all(axis=1)], axis=1)
        code = places @ (len(self.layout.terms) ** np.arange(2, -1, -1))
        places = places[np.unique(code, return_index=True)[1]]
        if not len(places):
            return []
        price = float(np.log(len(self.layout.usable) ** 3 / 6)) + _THIRD
        numbers, error, leverage = self._solve(places, True)
        with np.errstate(invalid="ignore"):
            good = (numbers[:, :3] > 0).all(axis=1)
        return self._judged(places[good], numbers[good], error[good], leverage[good], True, price)

    def _judged(
        self,
        places: Ints,
        numbers: Floats,
        error: Floats,
        leverage: Floats,
        with_constant: bool,
        price: float,
    ) -> list[Candidate]:
        """Return fitted sums with their evidence, the negative and the hopeless ones left out."""
        if not len(places):
            return []
        width, y = places.shape[1], self.summary.points
        own = numbers[:, :width]
        constant = numbers[:, width] if with_constant else np.zeros(len(places))
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            curves = constant[:, None] + np.einsum("tm,tmg->tg", own, self.layout.far[places])
            good = np.isfinite(own).all(axis=1) & np.isfinite(error).all(axis=1) & (curves > 0).all(axis=1)
            left_out = (self._counts * self._lateness * (error / (1 - leverage)) ** 2).sum(axis=1)
            evidence = (
                self.log_likelihood(left_out, width + 1) - price + self.layout.log_priors[places].sum(axis=1)
            )
            below, ramp = (_BELOW_NOISY, 0.03) if self.summary.is_noisy else (_BELOW, 0.2)
            evidence -= below * np.clip(-constant / (ramp * float(y.min())), 0.0, 1.0)
            if width:
                self._doubt_terms(evidence, places, own, constant)
            worst = (np.abs(error) / self.limits).max(axis=1)
            evidence -= lost(worst)
        evidence = np.where(good, evidence, -np.inf)
        if not good.any():
            return []
        # what may be bent to meet every point is not hopeless yet
        hope = np.where(worst < _BENT, evidence + lost(worst), evidence)
        kept = np.flatnonzero(np.maximum(evidence, hope) > evidence.max() - _HOPELESS)
        error, own = error[kept], own[kept]
        columns = (
            np.abs(error).max(axis=1),
            (self._counts * error**2).sum(axis=1),
            left_out[kept],
            worst[kept],
            evidence[kept],
        )
        return [
            Candidate(
                tuple(terms), tuple(a), c, self._lead(terms, a, c), largest, sse, press, miss, width + 1, e
            )
            for terms, a, c, largest, sse, press, miss, e in zip(
                places[kept].tolist(),
                own.tolist(),
                constant[kept].tolist(),
                *map(np.ndarray.tolist, columns),
                strict=True,
            )
        ]

    def _doubt_terms(self, evidence: Floats, places: Ints, own: Floats, constant: Floats) -> None:
        """Lower the evidence, in place, of sums whose terms fall, hardly show, or stand at one point."""
        width, y = places.shape[1], self.summary.points
        levels = self.layout.is_falling[places[:, -1]] & (own[:, -1] < 0)
        level = (_LEVEL_NOISY if self.summary.is_noisy else 0.0) + 4.0 * np.maximum(
            0.0, 1 - float(y[-1]) / np.abs(constant) / _REACHED
        )
        evidence -= np.where(levels, level, np.where((own < 0).any(axis=1), _LOWER_BELOW, 0.0))
        if width == 2:  # what falls all along is not said to grow for a trace of it
            mixed = self.layout.is_falling[places[:, 0]] & ~self.layout.is_falling[places[:, 1]]
            grown = own[:, 1] * self.layout.values[places[:, 1], -1] / float(y[-1])
            evidence -= np.where(mixed, _TRACE * np.maximum(0.0, 1.0 - grown / _GROWN), 0.0)
        falling = self.layout.is_falling[places]
        turned = (float(y[-1] / y.min()) - 1) / self.tolerance if self.tolerance else 1.0
        if turned < 1 and width > 1:  # what has only fallen so far grows only if that is the larger part
            unseen = (falling.any(axis=1) & ~falling.all(axis=1)) | ((own < 0) & ~falling).any(axis=1)
            below = np.minimum(own, 0.0) * self.layout.values[places, -2]
            grown = own[:, -1] * self.layout.values[places[:, -1], -2] + below.sum(axis=1)
            share = (grown + np.minimum(constant, 0.0)) / float(y[-2])
            hardly = np.clip((_LARGER - share) / _GROWN, 0.0, 1.0)
            evidence -= np.where(unseen, 2 * _OUTSIDE * (1.0 - turned) * hardly, 0.0)
        steep = self.layout.is_exponential[places] | (~falling & falling.any(axis=1, keepdims=True))
        if steep.any():  # at one point alone it is a step
            ahead = np.abs(own) * self.layout.values[places, -2] / float(y[-2])
            seen = np.where(steep, ahead, 1.0).min(axis=1)
            evidence -= 3 * _OUTSIDE * np.maximum(0.0, 1.0 - seen / SEEN_TWICE)
        evidence -= self.hidden((np.abs(own) * self.layout.heights[places]).min(axis=1))

    def hidden(self, heights: Floats) -> Floats:
        """Return what terms lose that change by so little over the range that the tolerance hides it."""
        if not self.tolerance:
            return np.zeros_like(heights)
        share = heights / float(self.summary.points.max())
        return np.asarray(_OUTSIDE * np.maximum(0.0, 1.0 - share / (VISIBLE * self.tolerance)))

    @cached_property
    def _lateness(self) -> Floats:
        """Weights of the points: growth is a question of the large values more than of the small ones."""
        return np.linspace(1 - _LATE, 1 + _LATE, self.summary.points.size)

    def log_likelihood(self, left_out: Floats | float, free: int) -> Floats:
        """Return the logarithm of the evidence for a model that misses points left out by as much.

        The unknown spread is integrated out.  Repetitions count as measurements as far as they scatter more
        than models may miss the points without a difference in practice, else a point counts once.
        """
        spread = self.summary.spread if self.summary.is_noisy else 0.0
        total, n = float(self._counts.sum()), self.summary.points.size
        return log_evidence(left_out, free, spread, total, n, self.tolerance)

    def _lead(self, terms: list[int], numbers: list[float], constant: float) -> Term:
        """Return the growth: the fastest term, or 1 where it falls and levels off, or rises to a level."""
        if not terms:
            return CONSTANT
        if self.layout.is_falling[terms[-1]]:
            left = float(np.dot(numbers, self.layout.values[terms, -1]))
            if numbers[-1] < 0 or constant >= LEVEL * (constant + left):
                return CONSTANT
        return self.layout.terms[terms[-1]]

    def curve(self, candidate: Candidate, at: Floats) -> Floats:
        """Return a candidate's values."""
        with np.errstate(over="ignore", invalid="ignore"):
            parts = [
                a * np.exp2(self.layout.bases[k].log2(at) - self.layout.log_scales[k])
                for k, a in zip(candidate.terms, candidate.numbers, strict=True)
            ]
        return np.asarray(candidate.constant + sum(parts) + 0.0 * at, dtype=np.float64)


def log_evidence(
    left_out: Floats | float, free: int, spread: float, total: float, points: int, tolerance: float
) -> Floats:
    """Return what `Family.log_likelihood` does, of `total` measurements at `points` values."""
    practical = (_PRACTICAL * tolerance) ** 2
    share = spread / (spread + total * practical) if spread else 0.0
    worth = points + (total - points) * share
    return np.asarray(-(worth - free) / 2 * np.log((left_out + spread) / total + ROUNDING**2))


def lost(miss: Floats) -> Floats:
    """Return what evidence loses outside the tolerance: something at its edge, and more the farther it is."""
    edge = _EDGE * np.clip((miss - 1.0) / _EDGE_WIDTH, 0.0, 1.0)
    return np.asarray(
        edge + _OUTSIDE * np.clip(miss - 1.0, 0.0, 1.0) + _FARTHER * np.log(np.maximum(miss, 1.0))
    )


def without(unit: Floats) -> Callable[[Floats], Floats]:
    """Return what leaves of rows the part that no multiple of `unit` explains."""
    return lambda rows: np.asarray(rows - np.multiply.outer(rows @ unit / (unit @ unit), unit))


def unchanged(rows: Floats) -> Floats:
    """Return rows as they came, where no constant takes part."""
    return rows


def screen(rows: Floats, target: Floats, i: Ints, j: Ints) -> tuple[Floats, Floats, Floats]:
    """Return both numbers and the squared error of all pairs of rows, by the normal equations."""
    size = np.sqrt((rows * rows).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        scaled = rows / size[:, None]
        product, onto = scaled @ scaled.T, scaled @ target
        rest = np.maximum(1 - product**2, 1e-15)
        along = (onto[:, None] - product * onto[None, :]) / rest
        a, b = along[i, j], along[j, i]
        errors = target @ target - a * onto[i] - b * onto[j]
    return a, b, np.where(np.isfinite(errors), np.maximum(errors, 0.0), np.inf)
