"""SimGrid's own settings in a platform file: the ``<config>`` block, turned into a network model.

`labkit.platform.xml.writer.smpirun_options` writes the same settings. What changes simulated times and is not
known here is refused where it stands; settings that change none (tracing, contexts, logs, precision) are
read over.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Any

from labkit.errors import PlatformError
from labkit.platform import models
from labkit.platform import quantities as units
from labkit.platform.model_file import read_options

__all__ = ["Config"]

#: SimGrid's network models and labkit's names for them
_MODELS = {"CM02": "cm02", "LV08": "lv08", "SMPI": "smpi", "IB": "ib"}
#: setting -> field of `NetworkModel`; the words of tables are written alike in both
_FIELDS = {
    "network/tcp-gamma": "tcp_gamma_bytes",
    "network/weight-s": "weight_s_bytes",
    "network/crosstraffic": "cross_traffic",
    "network/latency-factor": "latency_factor",
    "network/bandwidth-factor": "bandwidth_factor",
    "smpi/lat-factor": "latency_factor",
    "smpi/bw-factor": "bandwidth_factor",
    "smpi/ib-penalty-factors": "penalties",
    "smpi/os": "send_overhead",
    "smpi/ois": "isend_overhead",
    "smpi/or": "recv_overhead",
    "smpi/send-is-detached-thresh": "detached_below_bytes",
    "smpi/async-small-thresh": "eager_below_bytes",
    "smpi/wtime": "wtime_s",
    "smpi/test": "test_s",
    "smpi/iprobe": "iprobe_s",
}
#: settings that labkit has in one way only: what they must say, and why not otherwise
_FIXED = {
    "smpi/grow-injected-times": (False, "failed tests and probes cost the same every time"),
    "smpi/simulate-computation": (False, 'measured computation is an option of a run: compute="measured"'),
}
#: settings of how SimGrid computes its times, not of what they are: labkit solves to rounding
_NUMERICS = (
    "maxmin/precision", "surf/precision", "cpu/optim", "network/optim", "cpu/maxmin-selective-update",
    "network/maxmin-selective-update",
)  # fmt: skip
#: how fast this host counts as, where computation is measured: flop/s
HOST_SPEED = "smpi/host-speed"
#: settings of SMPI that change no simulated time
_NO_TIMES = (
    "smpi/privatization", "smpi/privatize-libs", "smpi/keep-temps", "smpi/tmpdir", "smpi/display-timing",
    "smpi/display-allocs", "smpi/display-analysis", "smpi/shared-malloc", "smpi/shared-malloc-blocksize",
    "smpi/shared-malloc-hugepage", "smpi/pedantic", "smpi/errors-are-fatal", "smpi/list-leaks",
    "smpi/auto-shared-malloc-thresh", "smpi/trace-call-use-absolute-path", "smpi/trace-call-location",
    "smpi/buffering", "smpi/papi-events",
)  # fmt: skip
#: models of processors and hosts that labkit's are
_HOSTS = {"host/model": ("default", "compound"), "cpu/model": ("Cas01",)}
_YES, _NO = ("yes", "on", "true", "1"), ("no", "off", "false", "0")
#: settings by these first words may change simulated times
_TIMES = ("network", "smpi", "cpu", "host", "surf", "maxmin", "bmf", "vm")


class Config:
    """Collects settings; `model` is the network model they make."""

    def __init__(self) -> None:
        #: flop/s that this host counts as, where computation is measured; None: labkit's own
        self.host_speed: float | None = None
        self._base: str | None = None
        self._options: dict[str, Any] = {}
        self._places: dict[str, str] = {}

    def take(self, setting: str, value: str, place: str) -> bool:
        """Take a setting.

        Returns
        -------
        bool
            Whether it changes anything; a setting that changes no simulated time is left alone.

        Raises
        ------
        PlatformError
            It is not known and may change times, cannot be read, or is given twice.
        """
        name = setting.replace("_", "-").lower()
        if name.partition("/")[0] not in _TIMES or name in _NUMERICS or name in _NO_TIMES:
            return False
        if name in self._places:
            raise _refused(place, setting, f"is set twice, first at {self._places[name]}")
        self._places[name] = place
        if name == "network/model":
            if value not in _MODELS:
                raise _refused(place, setting, f"is {value[:40]!r}; allowed: {', '.join(_MODELS)}")
            self._base = _MODELS[value]
        elif name in _HOSTS:
            if value not in _HOSTS[name]:
                raise _refused(place, setting, f"is {value[:40]!r}; allowed: {', '.join(_HOSTS[name])}")
            return False
        elif name in _FIXED:
            wanted, why = _FIXED[name]
            if _truth(value, place, setting) != wanted:
                raise _refused(place, setting, f"must be {'yes' if wanted else 'no'}: {why}")
        elif name == HOST_SPEED:
            try:
                self.host_speed = units.parse_speed(value, True)
            except PlatformError as error:
                raise _refused(place, setting, f"is {value[:40]!r}: {error}") from None
        elif name in _FIELDS:
            self._options[name] = _value(name, value, place, setting)
        else:
            hint = "choose collective algorithms with coll= or --coll" if name.startswith("smpi/") else ""
            known = ", ".join(["network/model", HOST_SPEED, *_HOSTS, *_FIELDS, *_FIXED])
            raise _refused(place, setting, f"is not known; {hint + '; ' if hint else ''}known are: {known}")
        return True

    def model(self) -> str | None:
        """Return the model's name with its options behind commas; None where nothing chooses one.

        Raises
        ------
        PlatformError
            No model can have these settings together.
        """
        if self._base is None and not self._options:
            return None
        base = self._base or "smpi"  # what smpirun takes
        plain = models.get(base)
        words = []
        for name, value in self._options.items():
            field = _FIELDS[name]
            if field in ("latency_factor", "bandwidth_factor") and (
                name.startswith("smpi/") != (base in ("smpi", "ib"))
            ):
                own = "smpi/lat-factor and smpi/bw-factor" if base in ("smpi", "ib") else "network/...-factor"
                raise _refused(
                    self._places[name], name, f"is not felt by network/model {base.upper()}, which has {own}"
                )
            if value != getattr(plain, field):
                words.append(f"{field}={_written(value)}")
        text = ",".join([base, *words])
        try:
            made = models.get(text)
        except PlatformError as error:
            raise PlatformError(f"{next(iter(self._places.values()))}: <config>: {error}") from None
        named = (name for name in (base, *models.names()) if _is_same(models.get(name), made))
        return next(named, text)


def _value(name: str, value: str, place: str, setting: str) -> Any:
    """Read a setting's value as the field's."""
    field = _FIELDS[name]
    if field == "cross_traffic":
        return _truth(value, place, setting)
    if name.startswith("network/") and field.endswith("_factor"):
        value = f"0:{value}"  # one factor for all sizes
    with contextlib.suppress(ValueError):  # SimGrid takes the rows of a table in any order
        value = ";".join(sorted(value.split(";"), key=lambda row: float(row.partition(":")[0])))
    try:
        read: Any = models.frozen(read_options(setting, [f"{field}={value}"])[field])
    except PlatformError as error:
        raise _refused(place, setting, f"is {value[:60]!r}: {str(error).rpartition('; ')[2]}") from None
    try:
        replace(models.get("smpi"), **{field: read})
    except models.ModelValueError as error:
        if field != "eager_below_bytes":  # which is compared with another setting, below
            row = "" if error.row is None else f", row {error.row + 1}"
            raise _refused(place, setting, f"is {value[:60]!r}{row}: {error.why}") from None
    if field.endswith("_factor") and all(factor == 1 for _, factor in read):
        return ()  # what no table says, too
    return read


def _truth(value: str, place: str, setting: str) -> bool:
    word = value.strip().lower()
    if word in _YES or word in _NO:
        return word in _YES
    raise _refused(place, setting, f"is {value[:40]!r}; write yes or no")


def _is_same(one: models.NetworkModel, two: models.NetworkModel) -> bool:
    return all(getattr(one, field) == getattr(two, field) for field in models.OPTIONS)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ";".join(":".join(map(repr, row)) if isinstance(row, tuple) else repr(row) for row in value)
    return repr(value)


def _refused(place: str, setting: str, why: str) -> PlatformError:
    return PlatformError(f"{place}: <config>: {setting[:60]!r} {why}")
