"""SimGrid's platform XML, read: every refusal names the file, the line and the reason.

Versions 4.0 and 4.1: zones in zones (routing Full, Floyd, Dijkstra, DijkstraCache, Star, Cluster or None),
clusters (star, torus, fat tree, dragonfly), cabinets, hosts, routers, links, backbones, routes between hosts
and between zones, and properties. A ``<config>`` block makes the network model. What no message feels (disks,
actors) is skipped with a note; the rest is refused. ``labkit.platform("FILE.xml")`` reads one,
`labkit.machines.xml.writer.platform_xml` is the text of one.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from labkit.errors import PlatformError, nearest
from labkit.machines import models
from labkit.machines import quantities as units
from labkit.machines.models import read_options
from labkit.machines.spec import ClusterSpec, MachineSpec
from labkit.machines.xml.builder import Builder
from labkit.machines.zones import ClusterZone, Zone, ZonesSpec
from labkit.machines.zones.zone import refuse
from labkit.text.files import require_file

__all__ = ["ELEMENTS", "UNSUPPORTED", "Config", "read_platform"]

_CHUNK_BYTES = 1 << 16

#: blank lines and comments before the declaration, which XML has not and SimGrid reads
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->)+(?=<\?xml)", re.DOTALL)

_MOST_BEFORE_BYTES = 1 << 20

#: Zones in zones, and elements in elements, may be so deep.
_MOST_DEPTH = 100


def read_platform(path: Path, source: str = "") -> tuple[MachineSpec, str, list[str], float | None]:
    """Read a SimGrid platform file (versions 4.0 and 4.1).

    Read are zone, cluster, cabinet, host, router, link, backbone, host_link, route, zoneRoute, link_ctn and
    prop, and profiles; properties are kept, what no message feels (disks, actors) is read over. Settings of
    SimGrid in a ``<config>`` block make the network model (`labkit.machines.xml.reader`). Entities are
    refused, and no files but this one and its profiles, in its folder or below, are opened.
    """
    require_file(path, PlatformError, is_whole=False)
    try:
        with path.open("rb") as file:
            reader = _Reader(str(path))
            reader.read(file)
    except OSError as error:
        raise PlatformError(
            f"{path}: cannot be read ({error.strerror or error})", code="unreadable-file"
        ) from None
    root, model = reader.builder.finished()
    more = (path.stem, reader.read_over, reader.host_speed)
    cluster = _as_cluster(root)
    if cluster is not None:
        return replace(cluster, model=model), *more
    if isinstance(root, ClusterZone):
        around = Zone(f"around {root.name}", place=root.place)
        around.members.append(root)
        root = around
    return ZonesSpec(root, source or str(path), model), *more


def _as_cluster(root: Zone | ClusterZone) -> ClusterSpec | None:
    """A file that holds but one cluster, with zones round it or none, is that cluster."""
    while isinstance(root, Zone):
        if len(root.members) != 1 or root.links or root.routes or root.props:
            return None
        (inner,) = root.members
        if not isinstance(inner, Zone | ClusterZone):
            return None
        root = inner
    is_plain = (root.prefix, root.suffix, root.radical) == ("host-", "", ((0, (root.spec.hosts or 0) - 1),))
    return root.spec if is_plain and not root.props else None


# The grammar of SimGrid's platform files (version 4.1): elements, attributes, nesting.


@dataclass(frozen=True)
class Element:
    """One element.

    `needed`: Attributes it must have.
    `allowed`: Further attributes and their defaults.
    `inside`: Elements it may hold.
    """

    needed: tuple[str, ...] = ()
    allowed: dict[str, str] | None = None
    inside: tuple[str, ...] = ()

    @property
    def attributes(self) -> list[str]:
        """All attributes it may have."""
        return [*self.needed, *(self.allowed or {})]


_CLUSTER = {
    "core": "1",
    "sharing_policy": "SPLITDUPLEX",
    "topology": "FLAT",
    "topo_parameters": "",
    "bb_bw": "",
    "bb_lat": "",
    "bb_sharing_policy": "SHARED",
    "router_id": "",
    "limiter_link": "",
    "loopback_bw": "",
    "loopback_lat": "",
}

_HOST = {
    "core": "1",
    "speed_file": "",
    "availability_file": "",
    "state_file": "",
    "coordinates": "",
    "pstate": "0",
}

_LINK = {
    "bandwidth_file": "",
    "latency": "0",
    "latency_file": "",
    "state_file": "",
    "sharing_policy": "SHARED",
}

#: Element names of older files with the same meaning.
SYNONYMS = {"AS": "zone", "ASroute": "zoneRoute", "bypassASroute": "bypassZoneRoute"}

ELEMENTS = {
    "platform": Element(("version",), None, ("zone", "cluster", "trace", "trace_connect")),
    "trace": Element(("id",), {"file": "", "periodicity": "0"}),
    "trace_connect": Element(("trace", "element"), {"kind": "HOST_AVAIL"}),
    "zone": Element(
        ("id", "routing"), None,
        ("prop", "zone", "cluster", "host", "router", "link", "route", "zoneRoute", "bypassRoute",
         "bypassZoneRoute", "backbone", "cabinet", "host_link", "trace", "trace_connect"),
    ),
    "cluster": Element(("id", "prefix", "suffix", "radical", "speed", "bw", "lat"), _CLUSTER, ("prop",)),
    "cabinet": Element(("id", "prefix", "suffix", "radical", "speed", "bw", "lat")),
    "host": Element(("id", "speed"), _HOST, ("prop",)),
    "router": Element(("id",), {"coordinates": ""}),
    "link": Element(("id", "bandwidth"), _LINK, ("prop",)),
    "backbone": Element(("id", "bandwidth", "latency")),
    "host_link": Element(("id", "up", "down")),
    "route": Element(("src", "dst"), {"symmetrical": "YES"}, ("link_ctn",)),
    "zoneRoute": Element(("src", "dst", "gw_src", "gw_dst"), {"symmetrical": "YES"}, ("link_ctn",)),
    "bypassRoute": Element(("src", "dst"), None, ("link_ctn",)),
    "bypassZoneRoute": Element(("src", "dst", "gw_src", "gw_dst"), None, ("link_ctn",)),
    "link_ctn": Element(("id",), {"direction": "NONE"}),
    "prop": Element(("id", "value")),
}  # fmt: skip

_CONFIG = Element((), {"id": ""}, ("prop",))

#: Elements that no message and no computation of an MPI program feels: read over, and said to be.
READ_OVER = (
    "disk",
    "storage",
    "storage_type",
    "mount",
    "actor",
    "process",
    "argument",
    "model_prop",
    "random",
)

#: Elements that would change a simulation and that labkit does not have, and what to do instead.
UNSUPPORTED = {
    "include": "files that include others are not supported; put the other file's text in its place",
    "peer": "peers (Vivaldi coordinates) are not supported; write hosts, links and routes",
}


# SimGrid's own settings in a platform file: the ``<config>`` block, turned into a network model.
#
# `labkit.machines.xml.writer.smpirun_options` writes the same settings. What changes simulated times and
# is not
# known here is refused where it stands; settings that change none (tracing, contexts, logs, precision) are
# read over.

#: SimGrid's network models and labkit's names for them
_MODELS = {"CM02": "cm02", "LV08": "lv08", "SMPI": "smpi", "IB": "ib"}

#: setting -> field of `NetworkModel`; tables are written alike in both
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
    "maxmin/precision",
    "surf/precision",
    "cpu/optim",
    "network/optim",
    "cpu/maxmin-selective-update",
    "network/maxmin-selective-update",
)

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

#: settings with these prefixes may change simulated times
_TIMES = ("network", "smpi", "cpu", "host", "surf", "maxmin", "bmf", "vm")
#: how similar another prefix must be to be a misspelled one; none of SimGrid's others is
_MISSPELLED = 0.75


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

        Returns: Whether it changes anything; a setting that changes no simulated time is left alone.
        Raises PlatformError: It is not known and may change times, cannot be read, or is given twice.
        """
        name = setting.replace("_", "-").lower()
        prefix = name.partition("/")[0]
        if prefix not in _TIMES and (meant := nearest(prefix, _TIMES, 1, _MISSPELLED)):
            raise _refused(place, setting, f"is not known{meant}")
        if prefix not in _TIMES or name in _NUMERICS or name in _NO_TIMES:
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

        Raises PlatformError: No model can have these settings together.
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
                    self._places[name],
                    name,
                    f"has no effect with network/model {base.upper()}, which has {own}",
                )
            if value != getattr(plain, field):
                words.append(f"{field}={_written(value)}")
        text = ",".join([base, *words])
        try:
            made = models.get(text)
        except PlatformError as error:
            raise PlatformError(
                f"{next(iter(self._places.values()))}: <config>: {error}", code="malformed-line"
            ) from None
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


def _written(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ";".join(":".join(map(repr, row)) if isinstance(row, tuple) else repr(row) for row in value)
    return repr(value)


def _refused(place: str, setting: str, why: str) -> PlatformError:
    return PlatformError(f"{place}: <config>: {setting[:60]!r} {why}", code="malformed-line")


class _Reader:
    """Expat's events, checked against the grammar and handed to a builder."""

    def __init__(self, source: str) -> None:
        self._source = source
        self.builder = Builder(source)
        self.read_over: list[str] = []
        self._settings = Config()
        self._open: list[str] = []
        self._silent = 0  # depth inside an element that is read over
        self._lines_before = 0
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = self._text
        self._parser.EntityDeclHandler = self._entity
        self._parser.SkippedEntityHandler = self._skipped

    @property
    def host_speed(self) -> float | None:
        """What <config> says of this host, in flop/s."""
        return self._settings.host_speed

    @property
    def place(self) -> str:
        """Where the parser is."""
        return f"{self._source}, line {self._line}"

    @property
    def _line(self) -> int:
        return self._parser.CurrentLineNumber + self._lines_before

    def read(self, file: BinaryIO) -> None:
        """Read a file to its end."""
        try:
            self._parser.Parse(self._declared(file), False)
            while chunk := file.read(_CHUNK_BYTES):
                self._parser.Parse(chunk, False)
            self._parser.Parse(b"", True)
            self._refuse_deployment()
            self.builder.settle(self._settings.model(), self._source)
        except expat.ExpatError as error:
            reason = expat.errors.messages.get(error.code, str(error))
            line = error.lineno + self._lines_before
            raise refuse(f"{self._source}, line {line}", f"not well-formed XML: {reason}") from None
        except (ValueError, LookupError) as error:  # an encoding Python has not, or expat cannot use
            raise refuse(self.place, f"not readable as text: {error}") from None

    def _declared(self, file: BinaryIO) -> bytes:
        """Read the beginning of a file, without blank lines and comments before its declaration."""
        head = file.read(_CHUNK_BYTES)
        if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<!--") and not head[:1].isspace():
            return head
        while b"<?xml" not in head and len(head) < _MOST_BEFORE_BYTES and (more := file.read(_CHUNK_BYTES)):
            head += more
        found = _BEFORE.match(head)
        if found is None:
            return head
        self._lines_before = found[0].count(b"\n")
        return head[found.end() :]

    def _refuse_deployment(self) -> None:
        actors = [one for one in self.read_over if one.startswith(("<actor>", "<process>"))]
        if actors and not self.builder.has_root:
            raise refuse(
                self._source,
                f"this is a deployment, which places actors on hosts ({actors[0]}), and no platform; "
                "give the platform's file, and hosts of ranks with mapping= or --mapping",
                "malformed-file",
            )

    # --- events -------------------------------------------------------------------------------------

    def _start(self, word: str, given: dict[str, str]) -> None:
        word = SYNONYMS.get(word, word)
        if self._silent:
            self._silent += 1
            return
        if len(self._open) >= _MOST_DEPTH:
            raise refuse(self.place, f"elements lie more than {_MOST_DEPTH} deep in each other")
        around = self._open[-1] if self._open else ""
        if word in UNSUPPORTED:
            raise refuse(self.place, f"<{word}>: {UNSUPPORTED[word]}")
        if word in READ_OVER and around:
            self._note(word)
            return
        if word == "config" and around == "platform":
            self._attributes(word, _CONFIG, given)
            self._open.append(word)
            return
        if around == "config":
            self._config(word, given)
            return
        self._check_place(word, around)
        self._open.append(word)
        if given.get("coordinates"):
            self._mention(f"coordinates of {word}")
        if given.get("topo_parameters") and given.get("topology", "FLAT") == "FLAT":
            self._mention("topo_parameters of a flat cluster")
        self.builder.start(word, self._attributes(word, ELEMENTS[word], given), self.place)

    def _end(self, word: str) -> None:
        word = SYNONYMS.get(word, word)
        if self._silent:
            self._silent -= 1
            return
        self._open.pop()
        if word in ELEMENTS and "config" not in self._open:
            self.builder.end(word, self.place)

    def _text(self, text: str) -> None:
        if self._open[-1:] == ["trace"] and not self._silent:
            self.builder.text(text)
        elif text.strip() and not self._silent:
            inside = f"<{self._open[-1]}>" if self._open else "the file"
            raise refuse(self.place, f"text {text.strip()[:40]!r} has no place in {inside}")

    def _entity(self, name: str, *_: object) -> None:
        raise refuse(self.place, f"entity {name!r} is declared; platforms need none, and none are read")

    def _skipped(self, name: str, _: bool) -> None:
        raise refuse(self.place, f"entity {name!r} is not known")

    # --- checks -------------------------------------------------------------------------------------

    def _check_place(self, word: str, around: str) -> None:
        if not around:
            if word != "platform":
                raise refuse(
                    self.place, f"the outermost element is <{word[:40]}>, a platform begins with <platform>"
                )
            return
        allowed = ELEMENTS[around].inside
        if word not in allowed:
            known = "has no place here" if word in ELEMENTS else "is not known"
            inside = ", ".join(allowed) or "nothing"
            raise refuse(self.place, f"<{word[:40]}> {known}; allowed in <{around}>: {inside}")

    def _attributes(self, word: str, element: Element, given: dict[str, str]) -> dict[str, str]:
        for name in given:
            if name not in element.attributes:
                allowed = ", ".join(element.attributes)
                raise refuse(self.place, f"<{word}> has no attribute {name[:40]!r}; allowed: {allowed}")
        for name in element.needed:
            if name not in given:
                raise refuse(self.place, f"<{word}> lacks the attribute {name!r}")
        return {**(element.allowed or {}), **given}

    def _note(self, word: str) -> None:
        self._silent = 1
        self._mention(word)

    def _mention(self, word: str) -> None:
        if len(self.read_over) < 20:
            self.read_over.append(f"<{word}> (line {self._line})")

    def _config(self, word: str, given: dict[str, str]) -> None:
        """Settings of SimGrid itself: those of the network make the model, unknown ones are refused."""
        setting = given.get("id", "")
        if word != "prop" or not setting or "value" not in given:
            raise refuse(self.place, f"<config> contains <{word[:40]}>; allowed: <prop> with id and value")
        self._attributes(word, ELEMENTS[word], given)
        self._open.append(word)
        if not self._settings.take(setting, given["value"], self.place):
            self._mention(f"config {setting[:40]}")
