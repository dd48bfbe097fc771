"""The result of a calibration: a model, a platform, the residuals and the warnings.

::

    NAME.toml               the machine: --on NAME.toml, labkit.platform("NAME.toml")
    NAME.model.toml         its network model, as other models' files; --model NAME.model.toml
    NAME.xml                the same machine for SimGrid
    NAME.smpi.cfg           the model as options of smpirun, one a line
    NAME.measurements.csv   what was measured: a row for each repetition
    NAME.residuals.csv      measured and predicted time of each experiment and size
"""

from __future__ import annotations

import html
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from labkit.calibration.fit import Fit, Shares, one
from labkit.errors import DataError
from labkit.machines.models import SECTIONS, NetworkModel
from labkit.machines.platform import Platform, platform
from labkit.machines.xml.writer import platform_xml, smpirun_options
from labkit.text.files import replace_file
from labkit.text.units import format_seconds, format_share

__all__ = ["Calibration", "Quality", "judge_quality"]


# Was the machine quiet enough? What a reader of a calibration must be warned of.

#: On a quiet machine, repetitions of the median size spread, and the whole drifts, by at most so much.
_SPREAD, _DRIFT = 0.05, 0.05

#: Involuntary context switches per second: a quiet rank has hardly any.
_SWITCHES_PER_S = 50.0

#: A tail this far above the median was not the network.
_TAIL, _TAIL_SHARE = 3.0, 0.05


@dataclass(frozen=True)
class Quality:
    """Figures of a measurement's noise.

    Attributes
    ----------
    spread : float
        Median over the sizes of the relative spread of their round trips.
    drift : float
        How much slower the second half of the rounds was, relative: median over the sizes.
    tail : float
        Share of round trips that took over three times their median.
    switches_per_s : float
        Involuntary context switches per second of measuring.
    load : float
        The host's load average when it began.
    warnings : list of str
        What these figures mean; empty on a quiet machine.
    """

    spread: float
    drift: float
    tail: float
    switches_per_s: float
    load: float
    warnings: list[str]


def judge_quality(
    data: pd.DataFrame, table: pd.DataFrame, switches: int, seconds: float, load: float | None, is_valid: bool
) -> Quality:
    """Judge the noise of a measurement.

    `data`, `table`: Raw measurements and their medians.
    `switches`: Involuntary context switches of both ranks.
    `seconds`: How long was measured.
    `load`: Load average of the host before; None on a simulated machine, which nothing disturbs.
    `is_valid`: Whether the run counts as one rank per core.
    """
    trips = data[data["experiment"] == "pingpong"]
    middle = trips.groupby("bytes")["sender_s"].transform("median")
    tail = float((trips["sender_s"] > _TAIL * middle).mean())
    half = trips["round"] < trips["round"].max() / 2
    first = trips[half].groupby("bytes")["sender_s"].median()
    second = trips[~half].groupby("bytes")["sender_s"].median()
    drift = float((second / first - 1).median())
    spread = float(one(table, "pingpong")["spread"].median())
    rate = switches / seconds if load is not None and seconds > 0 else 0.0
    cores = _cores()
    warnings = []
    if not is_valid:
        warnings.append("more ranks than cores: the ranks shared cores, and the figures describe that")
    if load is not None and load > max(cores - 2, 0) + 0.5:
        warnings.append(
            f"the host was busy when it began (load average {load:.1f} on {cores} cores, and 2 ranks need 2)"
        )
    if rate > _SWITCHES_PER_S:
        warnings.append(f"ranks were interrupted {rate:.0f} times a second: others used their cores")
    if spread > _SPREAD:
        warnings.append(f"repetitions of the same message spread by {100 * spread:.0f} % (quiet: 5 %)")
    if tail > _TAIL_SHARE:
        warnings.append(f"{100 * tail:.0f} % of the round trips took over three times their median")
    if abs(drift) > _DRIFT:
        slower = "slower" if drift > 0 else "faster"
        warnings.append(f"the machine became {100 * abs(drift):.0f} % {slower} while it was measured")
    return Quality(spread, drift if np.isfinite(drift) else 0.0, tail, rate, load or 0.0, warnings)


def _cores() -> int:
    from labkit.real.context import available_cores

    return available_cores()


def load_average() -> float | None:
    """Return the host's load average of the last minute, or None."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


@dataclass(repr=False)
class Calibration:
    """A calibrated machine.

    Attributes
    ----------
    name : str
        What to call it.
    fit : Fit
        Model, link, protocol and fitted curves.
    data : pandas.DataFrame
        Every measurement: experiment, bytes, round, sender_s, receiver_s, late_s.
    residuals : pandas.DataFrame
        One row per experiment and size: experiment, bytes, measured_s, predicted_s (the same experiment on
        the fitted machine, simulated), error (predicted / measured - 1).
    quality : Quality
        Noise of the measurement.
    machine : dict
        Where it was measured.
    hosts : int
        Hosts of the platform that is written.
    """

    name: str
    fit: Fit
    data: pd.DataFrame
    residuals: pd.DataFrame
    quality: Quality
    machine: dict[str, Any] = field(default_factory=dict)
    hosts: int = 2

    @property
    def model(self) -> NetworkModel:
        """The network model: for ``model=`` of `labkit.run`."""
        return self.fit.model

    @property
    def platform(self) -> Platform:
        """A star of the calibrated link: for ``on=`` of `labkit.run`, with ``model=calibration.model``."""
        return self.star(self.hosts)

    @property
    def warnings(self) -> list[str]:
        """Caveats: noise, and what could not be fitted."""
        return [*self.quality.warnings, *self.fit.notes]

    @property
    def provenance(self) -> str:
        """Where the figures come from, and what is assumed."""
        quality, shares = self.quality, self.fit.shares
        about = [f"{key}: {value}" for key, value in self.machine.items() if isinstance(value, str | int)]
        if shares is None:
            weights = [
                "Assumed: weight S and TCP window gamma of the model smpi; what Wtime, Test, Iprobe cost.",
                "Two ranks cannot measure how a switch shares its links among several senders.",
            ]
        else:
            weights = [
                f"Weight S from a third rank, {shares.far_links} links away: a near rank got "
                f"{shares.ratio:.3g} times what it got.",
                "Assumed: TCP window gamma of the model smpi; what Wtime, Test, Iprobe cost.",
            ]
        lines = [
            f"Measured by labkit calibrate: {len(self.data)} measurements between "
            f"{'two' if shares is None else 'three'} ranks.",
            *about,
            f"Noise: repetitions spread by {100 * quality.spread:.2g} %, drift {100 * quality.drift:.2g} %, "
            f"{quality.switches_per_s:.0f} involuntary context switches a second.",
            *(f"Warning: {text}." for text in self.warnings),
            *weights,
        ]
        return "\n".join(lines)

    def star(self, hosts: int) -> Platform:
        """Return a star of `hosts` hosts, each on the calibrated link.

        Parameters
        ----------
        hosts : int
            At least 1.

        Returns
        -------
        Platform
            Without its own name.
        """
        return platform(f"star:{hosts},{self.fit.spec}")

    def errors(self) -> pd.DataFrame:
        """Sum up the residuals: per experiment, median and largest absolute relative error.

        Returns
        -------
        pandas.DataFrame
            Columns experiment, sizes, median, worst.
        """
        return pd.DataFrame(self.error_rows(), columns=["experiment", "sizes", "median", "worst"])

    def error_rows(self) -> list[tuple[str, int, float, float]]:
        """Return the rows of `errors`.

        Returns
        -------
        list of (str, int, float, float)
            Experiment, number of points, median and largest absolute relative error.
        """
        rows = []
        for name in dict.fromkeys(self.residuals["experiment"]):
            chosen = self.residuals.loc[self.residuals["experiment"] == name, "error"]
            errors = np.abs(chosen.to_numpy(float))
            rows.append((str(name), len(errors), float(np.median(errors)), float(np.max(errors))))
        return rows

    def save(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the platform, the model, SimGrid's files, the measurements and the residuals.

        Parameters
        ----------
        folder : path
            Made where it is missing.

        Returns
        -------
        list of pathlib.Path
            The files written.

        Raises
        ------
        DataError
            The folder cannot be written.
        """
        what = (self.platform, self.model, self.provenance, self.data, self.residuals)
        return save(Path(folder), self.name, *what)

    def _facts(self) -> list[tuple[str, str]]:
        fit = self.fit

        def limit(threshold: Any) -> str:
            if threshold.below_bytes is None:
                return f"all up to {threshold.bracket[1]:,} B"
            if threshold.below_bytes == 0:
                return "none"
            low, high = threshold.bracket
            return f"below {threshold.below_bytes:,} B (seen: up to {low:,} B, not from {high:,} B on)"

        facts = [
            ("link", f"{fit.bandwidth_bytes_per_s / 1e6:,.4g} MB/s, {fit.sharing}"),
            ("latency, one way", format_seconds(fit.latency_s)),
            ("senders go on", limit(fit.detached)),
            ("sent before the receive", limit(fit.eager)),
            (
                "breaks of the wire",
                ", ".join(f"{p.above:,.0f} B" for p in fit.curves["wire"].pieces[1:]) or "none",
            ),
        ]
        if fit.shares is not None:
            facts.append(("near beside far", _share_fact(fit.shares)))
        facts += [
            (f"error of {name}", f"median {format_share(median)}, worst {format_share(worst)}")
            for name, _, median, worst in self.error_rows()
        ]
        return facts

    def __repr__(self) -> str:
        lines = [f"{self.name}: calibrated with {len(self.data):,} measurements"]
        lines += [f"  {what:<24} {value}" for what, value in self._facts()]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        body = "".join(
            f"<tr><th style='text-align:left'>{html.escape(what)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for what, value in [*self._facts(), *(("warning", text) for text in self.warnings)]
        )
        head = f"<caption style='text-align:left'><b>{html.escape(self.name)}</b> (calibrated)</caption>"
        return f"<table>{head}{body}</table>"


def _share_fact(shares: Shares) -> str:
    later = f", {format_seconds(shares.latency_s)} later" if shares.latency_s else ""
    return (
        f"gets {shares.ratio:.2f} times what {shares.far_links} links get{later}; weight S = "
        f"{shares.weight_s_bytes:,.4g} B"
    )


# A calibration as files: for labkit, for SimGrid, and for users who want to see the measurements.


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

    `folder`: Made where it is missing.
    `name`: What the machine and the files are called.
    `star`: Of the calibrated link.
    `source`: Where the figures come from, and what is assumed.
    `data`, `residuals`: The tables.
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
        raise DataError(
            f"the calibration cannot be written to {str(folder)!r}: {error}", code="unwritable-file"
        ) from error
    return paths


def model_toml(model: NetworkModel, source: str) -> str:
    """Write a network model as a TOML file."""
    lines = [f"title = {json.dumps(model.title or model.name)}", f"source = {json.dumps(source)}"]
    for section, keys in (SECTIONS | {"network": _NETWORK}).items():
        lines += ["", f"[{section}]"]
        lines += [f"{key} = {_toml(getattr(model, key))}" for key in keys]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
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
