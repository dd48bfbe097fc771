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
from typing import TYPE_CHECKING, Any

from labkit.errors import DataError
from labkit.platform.models import NetworkModel
from labkit.platform.xml.writer import platform_xml, smpirun_options

if TYPE_CHECKING:
    from labkit.calibration.result import Calibration

__all__ = ["model_toml", "save", "simgrid_xml"]

_SECTIONS = {
    "network": ("weight_s_bytes", "latency_factor", "bandwidth_factor", "tcp_gamma_bytes", "cross_traffic"),
    "protocol": (
        "detached_below_bytes", "eager_below_bytes", "send_overhead", "isend_overhead", "recv_overhead",
    ),
    "calls": ("wtime_s", "test_s", "iprobe_s"),
}  # fmt: skip


def save(calibration: Calibration, folder: Path) -> list[Path]:
    """Write everything into a folder; see `labkit.calibration.Calibration.save`."""
    name = "".join(c if c.isalnum() or c in "-_" else "-" for c in calibration.name) or "calibrated"
    star = calibration.platform
    texts: dict[str, Callable[[], str]] = {
        f"{name}.model.toml": lambda: model_toml(calibration.model, provenance(calibration)),
        f"{name}.toml": lambda: platform_toml(calibration, f"{name}.model.toml"),
        f"{name}.xml": lambda: simgrid_xml(calibration),
        f"{name}.smpi.cfg": lambda: "\n".join(smpirun_options(calibration.model)) + "\n",
        f"{name}.measurements.csv": lambda: calibration.data.to_csv(index=False, float_format="%.9g"),
        f"{name}.residuals.csv": lambda: calibration.residuals.to_csv(index=False, float_format="%.9g"),
    }
    assert star.hosts is not None
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = []
        for file, text in texts.items():
            path = folder / file
            path.write_text(text(), "utf-8")
            paths.append(path)
    except OSError as error:
        raise DataError(f"the calibration cannot be written to {str(folder)!r}: {error}") from error
    return paths


def provenance(calibration: Calibration) -> str:
    """Say where the figures come from, and what is assumed."""
    quality = calibration.quality
    about = [f"{key}: {value}" for key, value in calibration.machine.items() if isinstance(value, str | int)]
    shares = calibration.fit.shares
    if shares is None:
        weights = [
            "Assumed: weight S and TCP window gamma of the model smpi; what Wtime, Test, Iprobe cost.",
            "Two ranks cannot tell how a switch shares its links among several senders.",
        ]
    else:
        weights = [
            f"Weight S from a third rank, {shares.far_links} links away: a near rank got "
            f"{shares.ratio:.3g} times what it got.",
            "Assumed: TCP window gamma of the model smpi; what Wtime, Test, Iprobe cost.",
        ]
    lines = [
        f"Measured by labkit calibrate: {len(calibration.data)} measurements between "
        f"{'two' if shares is None else 'three'} ranks.",
        *about,
        f"Noise: repetitions spread by {100 * quality.spread:.2g} %, drift {100 * quality.drift:.2g} %, "
        f"{quality.switches_per_s:.0f} involuntary context switches a second.",
        *(f"Warning: {text}." for text in calibration.warnings),
        *weights,
    ]
    return "\n".join(lines)


def model_toml(model: NetworkModel, source: str) -> str:
    """Write a network model as a TOML file.

    Parameters
    ----------
    model : NetworkModel
        The model.
    source : str
        Where its numbers come from.

    Returns
    -------
    str
        In the form of the files in ``datasets/models``.
    """
    lines = [f"title = {json.dumps(model.title or model.name)}", f"source = {json.dumps(source)}"]
    for section, keys in _SECTIONS.items():
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


def platform_toml(calibration: Calibration, model_file: str) -> str:
    """Write the star of the calibrated link as a platform file."""
    return (
        f"# Use it with its model: labkit run --on THIS --model {model_file} ...\n"
        f"name = {json.dumps(calibration.name)}\n"
        f"spec = {json.dumps(calibration.platform.spec)}\n"
        f"source = {json.dumps(provenance(calibration))}\n"
    )


def simgrid_xml(calibration: Calibration) -> str:
    """Write the platform for SimGrid, the model's options inside.

    Returns
    -------
    str
        Platform XML (version 4.1): ``smpirun -platform FILE`` needs no further option for the model.
    """
    from xml.sax.saxutils import quoteattr  # brings http and ssl along

    star = calibration.platform
    text = platform_xml(star, star.hosts or 2)
    props = "".join(
        f"    <prop id={quoteattr(key)} value={quoteattr(value)}/>\n"
        for key, _, value in (item.partition(":") for item in smpirun_options(calibration.model))
    )
    head, version, body = text.partition('<platform version="4.1">\n')
    return f"{head}{version}  <config>\n{props}  </config>\n{body}"
