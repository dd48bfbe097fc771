"""The trust that verdicts deserve: labkit and Extra-P on the same synthetic data, in one run.

    python benchmarks/verdicts/compare.py [--quick] [--no-peer] [--peer FOLDER]

Extra-P gets an environment of its own (build/extra-p, made when missing; without its graphical part).
The sets and their seeds are in sets.py. Figures are shares of sets unless a unit is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import sets
from ours import ours

HERE = Path(__file__).parent
SQRT = sets.Term(0, "1/2")
SMALL_NOISES = (0.0001, 0.001, 0.003, 0.01)


def environment(folder: Path) -> Path | None:
    """Return the Python of Extra-P's environment, made when it is missing; None when it cannot be had."""
    python = folder / "bin" / "python"
    if python.exists():
        return python
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "--no-deps", "extrap==4.2.1"], check=True)
        needs = ["numpy<2", "matplotlib", "marshmallow<4", "packaging", "pycubexr<3", "scikit-learn", "tqdm"]
        subprocess.run([*pip, *needs], check=True, stderr=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        print(f"Extra-P is left out: its environment could not be made ({error})")
        return None
    return python


def ask_peer(python: Path, jobs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        question, answer = Path(folder) / "in.json", Path(folder) / "out.json"
        question.write_text(json.dumps(jobs))
        subprocess.run([str(python), str(HERE / "peer.py"), str(question), str(answer)], check=True)
        return list(json.loads(answer.read_text()))


def job(kind: str, data: Sequence[Any]) -> dict[str, Any]:
    out = []
    for one in data:
        x = one.x.tolist() if hasattr(one, "x") else np.stack([one.x1, one.x2], axis=1).tolist()
        y = one.y.tolist() if one.y.ndim == 2 else one.y[:, None].tolist()
        last = one.x[-1] if hasattr(one, "beyond") else 0
        beyond = [float(k * last) for k in sets.BEYOND] if last else []
        out.append({"x": x, "y": y, "beyond": beyond})
    return {"kind": kind, "sets": out}


def leading(found: dict[str, Any]) -> sets.Term | None:
    """Return the leading term of one of Extra-P's models in one parameter."""
    if "terms" not in found:
        return None
    terms = [
        sets.Term(0, Fraction(v[1]).limit_denominator(12), Fraction(v[2]).limit_denominator(12))
        for coefficient, parts in found["terms"]
        for v in parts
        if coefficient > 0
    ]
    return max(terms, default=sets.Term())


def forms(found: dict[str, Any]) -> set[tuple[sets.Term, sets.Term]]:
    """Return the summands of one of Extra-P's models in two parameters."""
    out = set()
    for _, parts in found.get("terms", []):
        pair = [sets.Term(), sets.Term()]
        for k, q, r in parts:
            pair[k] = sets.Term(0, Fraction(q).limit_denominator(12), Fraction(r).limit_denominator(12))
        out.add((pair[0], pair[1]))
    return out


def line(name: str, *values: object) -> None:
    shown = [f"{v:.3f}" if isinstance(v, float) else str(v) for v in values]
    print(f"{name:62} " + "  ".join(f"{v:>12}" for v in shown), flush=True)


def mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


def cpu(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def noisy_table(step: int) -> None:
    print("\nNoisy sets, one law: 3,000 at each noise" + (f", every {step}th" if step > 1 else ""))
    line("", *(f"{n:.0%}" for n in sets.NOISES))
    rows: dict[str, list[float]] = {}
    for noise in sets.NOISES:
        tally: dict[str, list[Any]] = {}
        for s in list(sets.noisy(noise))[::step]:
            for name, value in ours.judge_noisy(s, SQRT).items():
                tally.setdefault(name, []).append(value)
        for name, values in tally.items():
            rows.setdefault(name, []).append(mean(values))
    for name, figures in rows.items():
        line(name, *figures)


def common_table(peer: list[dict[str, Any]] | None) -> None:
    print("\nThe 900 sets that Extra-P models too")
    line("", *(f"{n:.0%}" for n in sets.NOISES))
    own, theirs = [], []
    for i, noise in enumerate(sets.NOISES):
        data = sets.common(noise)
        seconds, models = cpu(lambda data=data: ours.fit_sets(data))
        far = [
            ours.predict(m, s.x[-1] * sets.BEYOND[0]) / s.beyond[0] - 1
            for s, m in zip(data, models, strict=False)
        ]
        exact = mean([m.term == s.term for s, m in zip(data, models, strict=False)])
        own.append((exact, float(np.median(np.abs(far))), seconds))
        if peer:
            found = peer[i]["found"]
            far = [f["beyond"][0] / s.beyond[0] - 1 for s, f in zip(data, found, strict=False)]
            exact = mean([leading(f) == s.term for s, f in zip(data, found, strict=False)])
            theirs.append((exact, float(np.median(np.abs(far))), peer[i]["seconds"]))
    for what, k in (
        ("exact leading term", 0),
        ("median error at 8 times the range", 1),
        ("CPU seconds for 900", 2),
    ):
        line(f"labkit:  {what}", *(o[k] for o in own))
        if theirs:
            line(f"Extra-P: {what}", *(t[k] for t in theirs))
    if theirs:
        line("CPU ratio", *(f"{t[2] / o[2]:.0f} times" for o, t in zip(own, theirs, strict=False)))


def once_table(peer: list[dict[str, Any]] | None) -> None:
    print("\nThe same 900, each value measured once")
    line("", *(f"{n:.0%}" for n in sets.NOISES))
    rows: dict[str, list[float]] = {}

    def add(name: str, value: float) -> None:
        rows.setdefault(name, []).append(value)

    for i, noise in enumerate(sets.NOISES):
        data = sets.once(noise)
        models, found = [ours.fit(s) for s in data], [ours.match(s, str(s.term)) for s in data]
        add(
            "labkit:  exact leading term", mean([m.term == s.term for s, m in zip(data, models, strict=True)])
        )
        held = np.array([ours.holds(s) for s in data]).mean(axis=0)
        add("labkit:  95 % interval at 8 times the range holds the truth", float(held[0]))
        for match in ("none", "undecided"):
            add(f"labkit:  right expectation called {match}", mean([one == match for one in found]))
        if peer:
            theirs = [leading(f) for f in peer[i]["found"]]
            add("Extra-P: exact leading term", mean([t == s.term for s, t in zip(data, theirs, strict=True)]))
            faster = [t is not None and t > s.term.times(SQRT) for s, t in zip(data, theirs, strict=True)]
            add("Extra-P: leading term faster than the truth by more than sqrt(p)", mean(faster))
    for name, figures in rows.items():
        line(name, *figures)


def noiseless_table() -> None:
    print("\nWithout noise")
    curves = list(sets.segmented())
    line("segmented: false exact of 40", sum(ours.claims_exact(c) for c in curves))
    curves = list(sets.saturating())
    line("saturating: alarms against a constant, of 200", sum(ours.match(c, "1") == "none" for c in curves))
    curves = list(sets.sums())
    line(
        f"sums: both terms exact, of {len(curves)}", mean([set(c.terms) <= ours.sum_terms(c) for c in curves])
    )
    held = np.array([ours.holds(c) for c in sets.wavering()])
    line("three terms, one measurement: interval at 8, 64 times holds the truth", *held.mean(axis=0))
    wrong = [name for name, c in sets.counted() if ours.fit(c).term != c.terms[0]]
    line(f"counts: leading term missed, of {len(list(sets.counted()))}", len(wrong))
    for name in wrong:
        print(f"    {name}")


def change_table(peer: list[dict[str, Any]] | None) -> None:
    print("\nChange points at 2 % noise, 12 points")
    changing, steady = list(sets.changing()), list(sets.steady())
    found = [ours.changes(c) for c in changing]
    right = [
        abs(f[0] - c.change_at) <= 1 if len(f) == 1 else False for f, c in zip(found, changing, strict=False)
    ]
    line("labkit:  found of 40, at the right place, false of 40",
         sum(map(bool, found)), sum(right), sum(bool(ours.changes(c)) for c in steady))  # fmt: skip
    three = [ours.changes(c) for c in sets.three_laws()]
    line("labkit:  three laws of 4 points each, both places right, of 40", sum(f == [4, 8] for f in three))
    if peer:
        theirs = [f.get("change", []) for f in peer[0]["found"]]
        right = [
            any(abs(np.log2(v) - np.log2(c.x[c.change_at])) <= 1.01 for v in f)
            for f, c in zip(theirs, changing, strict=False)
        ]
        line("Extra-P: found of 40, at the right place, false of 40",
             sum(map(bool, theirs)), sum(right), sum("change" in f for f in peer[1]["found"]))  # fmt: skip


def exponential_table() -> None:
    print("\nc + 2^k k^q: exact form of 40")
    line("", "no noise", "5 %")
    data = [list(sets.exponential(noise)) for noise in (0.0, 0.05)]
    line("labkit", *(sum(ours.fit(c).term == c.terms[0] for c in some) for some in data))
    rate = [sum(ours.fit(c).term.exponential == 1 for c in some) for some in data]
    line("labkit: 2^k with any power of k", *rate)


def less_one_table(peer: list[dict[str, Any]] | None) -> None:
    print("\nSteps that one rank does not have, a (p - c), measured once: leading term p, of 200")
    line("", *(f"{n:.2%}" for n in SMALL_NOISES))
    data = [list(sets.less_one(noise)) for noise in SMALL_NOISES]
    truth = sets.Term(0, 1)
    line("labkit", *(sum(ours.fit(c).term == truth for c in some) for some in data))
    line("labkit: expectation p called exact or approximate", *(
        sum(ours.match(c, "p") in ("exact", "approximate") for c in some) for some in data
    ))  # fmt: skip
    if peer:
        line("Extra-P", *(sum(leading(f) == truth for f in answer["found"]) for answer in peer))


def surface_table(peer: list[dict[str, Any]] | None) -> None:
    print("\nTwo parameters, 5 x 5 points: exact form of 40")
    line("", "no noise", "2 %")
    data = [list(sets.surfaces(0.0)), list(sets.surfaces(0.02))]
    line("labkit", *(sum(ours.surface(s) == set(s.summands) for s in some) for some in data))
    if peer:
        line("Extra-P", *(
            sum(forms(f) == set(s.summands) for f, s in zip(answer["found"], some, strict=False))
            for answer, some in zip(peer, data, strict=False)
        ))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="every tenth noisy set")
    parser.add_argument("--no-peer", action="store_true", help="without Extra-P")
    parser.add_argument("--peer", type=Path, default=HERE.parents[1] / "build" / "extra-p", metavar="FOLDER")
    options = parser.parse_args()
    python = None if options.no_peer else environment(options.peer)
    answers = None
    if python:
        jobs = [job("single", sets.common(noise)) for noise in sets.NOISES]
        jobs += [job("segmented", list(sets.changing())), job("segmented", list(sets.steady()))]
        jobs += [job("multi", list(sets.surfaces(noise))) for noise in (0.0, 0.02)]
        jobs += [job("single", list(sets.less_one(noise))) for noise in SMALL_NOISES]
        jobs += [job("single", sets.once(noise)) for noise in sets.NOISES]
        answers = ask_peer(python, jobs)
    noisy_table(10 if options.quick else 1)
    common_table(answers[:3] if answers else None)
    once_table(answers[11:] if answers else None)
    noiseless_table()
    change_table(answers[3:5] if answers else None)
    surface_table(answers[5:7] if answers else None)
    exponential_table()
    less_one_table(answers[7:11] if answers else None)


if __name__ == "__main__":
    main()
