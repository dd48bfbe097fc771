"""A calibration as files: for labkit, for SimGrid, and for whoever wants to see the measurements.

::

    NAME.toml               the machine: --on NAME.toml, labkit.platform("NAME.toml")
    NAME.model.toml         its network model, as other models' files; --model NAME.model.toml
    NAME.xml                the same machine for SimGrid
    NAME.smpi.cfg           the model as options of smpirun, one a line
    NAME.measurements.csv   what was measured: a row for each repetition
    NAME.residuals.csv      measured and predicted time of each experiment and size
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.errors import DataError
from labkit.plain import replace_file
from labkit.platform.models import SECTIONS, NetworkModel
from labkit.platform.platform import Platform
from labkit.platform.xml.writer import platform_xml, smpirun_options

__all__ = ["model_toml", "save", "simgrid_xml"]

#: what a calibration measures of the first section of a model's file
_NETWORK = ("weight_s_bytes", "latency_factor", "bandwidth_factor", "tcp_gamma_bytes", "cross_traffic")


def save(
    folder: Path,
    name: str,
    star: Platform,
    model: NetworkModel,
    source: str,
    data: pd.DataFrame,
    residuals: pd.DataFrame,
) -> list[Path]:
    """Write everything into a folder; see `labkit.calibration.Calibration.save`.

    Parameters
    ----------
    folder : Path
        Made where it is missing.
    name : str
        What the machine and the files are called.
    star : Platform
        Of the calibrated link.
    model : NetworkModel
    source : str
        Where the figures come from, and what is assumed.
    data, residuals : pandas.DataFrame
        The tables.
    """
    stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "calibrated"
    texts: dict[str, Callable[[], str]] = {
        f"{stem}.model.toml": lambda: model_toml(model, source),
        f"{stem}.toml": lambda: platform_toml(name, star.spec, f"{stem}.model.toml", source),
        f"{stem}.xml": lambda: simgrid_xml(star, model),
        f"{stem}.smpi.cfg": lambda: "\n".join(smpirun_options(model)) + "\n",
        f"{stem}.measurements.csv": lambda: data.to_csv(index=False, float_format="%.9g"),
        f"{stem}.residuals.csv": lambda: residuals.to_csv(index=False, float_format="%.9g"),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for file, text in texts.items():
            path = folder / file
            replace_file(path, text())
            paths.append(path)
    except OSError as error:
        raise DataError(f"the calibration cannot be written to {str(folder)!r}: {error}") from error
    return paths


def model_toml(model: NetworkModel, source: str) -> str:
    """Write a network model as a TOML file."""
    lines = [f"title = {json.dumps(model.title or model.name)}", f"source = {json.dumps(source)}"]
    for section, keys in (SECTIONS | {"network": _NETWORK}).items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_toml(getattr(model, key))}" for key in keys]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        rows = ", ".join("[" + ", ".join(repr(number) for number in row) + "]" for row in value)
        return f"[{rows}]"
    return repr(value)


def platform_toml(name: str, spec: str, model_file: str, source: str) -> str:
    """Write the star of the calibrated link as a platform file."""
    return (
        f"# Use it with its model: labkit run --on THIS --model {model_file} ...\n"
        f"name = {json.dumps(name)}\n"
        f"spec = {json.dumps(spec)}\n"
        f"source = {json.dumps(source)}\n"
    )


def simgrid_xml(star: Platform, model: NetworkModel) -> str:
    """Write the platform for SimGrid, the model's options inside."""
    from xml.sax.saxutils import quoteattr  # brings http and ssl along

    text = platform_xml(star, star.hosts or 2)
    props = "".join(
        f"    <prop id={quoteattr(key)} value={quoteattr(value)}/>\n"
        for key, _, value in (item.partition(":") for item in smpirun_options(model))
    )
    head, version, body = text.partition('<platform version="4.1">\n')
    return f"{head}{version}  <config>\n{props}  </config>\n{body}"
