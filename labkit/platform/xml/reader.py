"""SimGrid's platform XML, read: every refusal names the file, the line and the reason.

Versions 4.0 and 4.1: zones in zones (routing Full, Floyd, Dijkstra, DijkstraCache, Star, Cluster or None),
clusters (star, torus, fat tree, dragonfly), cabinets, hosts, routers, links, backbones, routes between hosts
and between zones, and properties. A ``<config>`` block makes the network model. What no message feels (disks,
actors) is read over and told; the rest is refused. ``labkit.platform("FILE.xml")`` reads one,
`labkit.platform.xml.writer.platform_xml` is the text of one.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO
from xml.parsers import expat

from labkit.errors import PlatformError
from labkit.plain import require_file
from labkit.platform.spec import ClusterSpec, MachineSpec
from labkit.platform.xml.builder import Builder
from labkit.platform.xml.config import Config
from labkit.platform.xml.grammar import ELEMENTS, READ_OVER, SYNONYMS, UNSUPPORTED, Element
from labkit.platform.zones import Cluster, Zone, ZonesSpec
from labkit.platform.zones.parts import refuse

__all__ = ["read_platform"]

_CHUNK_BYTES = 1 << 16
#: blank lines and comments before the declaration, which XML has not and SimGrid reads
_BEFORE = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:\s|<!--.*?-->)+(?=<\?xml)", re.DOTALL)
_MOST_BEFORE_BYTES = 1 << 20
#: Zones in zones, and elements in elements, may be so deep.
_MOST_DEPTH = 100


def read_platform(path: Path, source: str = "") -> tuple[MachineSpec, str, list[str], float | None]:
    """Read a SimGrid platform file (versions 4.0 and 4.1).

    Read are zone, cluster, cabinet, host, router, link, backbone, host_link, route, zoneRoute, link_ctn and
    prop; properties are kept, what no message feels (disks, actors) is read over. Settings of SimGrid in a
    ``<config>`` block make the network model (`labkit.platform.xml.config`). Entities are refused, and no
    file but this one is opened.

    Parameters
    ----------
    path : Path
        The file.
    source : str, optional
        What the machine answers when it is asked what it was read from; default: the path.

    Returns
    -------
    spec : MachineSpec
        A `ClusterSpec` where the file is one cluster whose hosts are named as labkit writes them, else a
        `ZonesSpec`.
    name : str
        The file's name without its ending.
    read_over : list of str
        What was read over, with lines.
    host_speed : float or None
        Flop/s that this host counts as, where computation is measured (``smpi/host-speed``).

    Raises
    ------
    PlatformError
        Not readable, not XML, not a platform, or something that is not supported.
    """
    require_file(path, PlatformError, is_whole=False)
    try:
        with path.open("rb") as file:
            reader = _Reader(str(path))
            reader.read(file)
    except OSError as error:
        raise PlatformError(f"{path}: cannot be read ({error.strerror or error})") from None
    root, model = reader.builder.finished()
    more = (path.stem, reader.read_over, reader.host_speed)
    cluster = _as_cluster(root)
    if cluster is not None:
        return replace(cluster, model=model), *more
    if isinstance(root, Cluster):
        around = Zone(f"around {root.name}", place=root.place)
        around.members.append(root)
        root = around
    return ZonesSpec(root, source or str(path), model), *more


def _as_cluster(root: Zone | Cluster) -> ClusterSpec | None:
    """A file that holds but one cluster, with zones round it or none, is that cluster."""
    while isinstance(root, Zone):
        if len(root.members) != 1 or root.links or root.routes or root.props:
            return None
        (inner,) = root.members
        if not isinstance(inner, Zone | Cluster):
            return None
        root = inner
    is_plain = (root.prefix, root.suffix, root.radical) == ("host-", "", ((0, (root.spec.hosts or 0) - 1),))
    return root.spec if is_plain and not root.props else None


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
                f"this is a deployment, which says where actors run ({actors[0]}), and no platform; "
                "give the platform's file, and hosts of ranks with mapping= or --mapping",
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
            self._silent = 0
            self._open.append(word)
            return
        if around == "config":
            self._config(word, given)
            return
        self._check_place(word, around)
        self._open.append(word)
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
        if text.strip() and not self._silent:
            inside = f"<{self._open[-1]}>" if self._open else "the file"
            raise refuse(self.place, f"text {text.strip()[:40]!r} has no place in {inside}")

    def _entity(self, name: str, *_: Any) -> None:
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
        if len(self.read_over) < 20:
            self.read_over.append(f"<{word}> (line {self._line})")

    def _config(self, word: str, given: dict[str, str]) -> None:
        """Settings of SimGrid itself: those of the network make the model, unknown ones are refused."""
        setting = given.get("id", "")
        if word != "prop" or not setting or "value" not in given:
            raise refuse(self.place, f"<config> holds <{word[:40]}>; allowed: <prop> with id and value")
        if self._settings.take(setting, given["value"], self.place):
            self._silent = 1
        else:
            self._note(f"config {setting[:40]}")
