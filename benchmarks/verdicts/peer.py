"""Extra-P's models of the same data: run in Extra-P's own environment, numbers in and out as JSON."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")


def exponents(function):
    """Return [[coefficient, [[parameter, polynomial, logarithm], ...]], ...] of a function."""
    out = []
    for term in function.compound_terms:
        parts = term.parameter_term_pairs if hasattr(term, "parameter_term_pairs") else [(0, term)]
        found = {}
        for parameter, compound in parts:
            for simple in compound.simple_terms:
                place = found.setdefault(int(parameter), [0.0, 0.0])
                place[simple.term_type == "logarithm"] += float(simple.exponent)
        out.append([float(term.coefficient), [[k, *v] for k, v in sorted(found.items())]])
    return out


def answer() -> None:
    from extrap.entities.callpath import Callpath
    from extrap.entities.coordinate import Coordinate
    from extrap.entities.measurement import Measurement
    from extrap.entities.metric import Metric
    from extrap.modelers.multi_parameter.multi_parameter_modeler import MultiParameterModeler
    from extrap.modelers.single_parameter import Default
    from extrap.modelers.single_parameter.segmented import SegmentedModeler

    where, metric = Callpath("main"), Metric("time")
    work = json.loads(Path(sys.argv[1]).read_text())
    modelers = {"single": Default, "segmented": SegmentedModeler, "multi": MultiParameterModeler}
    answers = []
    for job in work:
        modeler = modelers[job["kind"]]()
        sets = [
            [
                Measurement(Coordinate(*x) if isinstance(x, list) else Coordinate(x), where, metric, y)
                for x, y in zip(one["x"], one["y"], strict=False)
            ]
            for one in job["sets"]
        ]
        start, models = time.process_time(), []
        for one in sets:
            try:
                models.append(modeler.model([one])[0])
            except Exception as error:
                models.append(error)
        seconds, found = time.process_time() - start, []
        for one, model in zip(job["sets"], models, strict=False):
            if isinstance(model, Exception):
                found.append({"error": str(model)})
                continue
            if getattr(model, "changing_points", None) or type(model).__name__ == "SegmentedModel":
                changes = model.changing_points or []
                found.append({"change": [float(c.coordinate[0]) for c in changes]})
                continue
            function = model.hypothesis.function
            at = [float(np.asarray(function.evaluate(b))) for b in one.get("beyond", [])]
            found.append({"terms": exponents(function), "beyond": at})
        answers.append({"seconds": seconds, "found": found})
    Path(sys.argv[2]).write_text(json.dumps(answers))


if __name__ == "__main__":
    answer()
