"""Random machines for comparisons: clusters of every kind with every option, zones in zones, any mapping."""

from __future__ import annotations

import itertools
import random

from labkit.machines.mapping import mapping_of
from labkit.machines.platform import Platform, platform
from labkit.machines.spec import parse_spec
from labkit.machines.zones import Zone

__all__ = ["random_machine"]

GIGABIT = "star:{p},bw=1Gbps,lat=24us"
USUAL = (
    "star:{p},bw=1.25GBps,lat=1us",
    GIGABIT,
    "star:{p},bw=1.25GBps,lat=1us,limiter=1.875GBps,bb_bw=5GBps,bb_lat=500ns",
)


def _options(draw: random.Random, is_crowded: bool, has_limiter: bool = True) -> str:
    """What every cluster may have. SimGrid's tori stop at a message within a host without a loopback."""
    text = ""
    if draw.random() < 0.7:
        text += f",bw={draw.randrange(10, 5000)}MBps,lat={draw.choice([0, draw.randrange(1, 90_000)])}ns"
    if has_limiter and draw.random() < 0.3:
        text += f",limiter={draw.randrange(10, 9000)}MBps"
    if draw.random() < 0.2:
        text += ",sharing=shared"
    if is_crowded or draw.random() < 0.2:
        text += f",loopback_bw={draw.randrange(1, 20)}GBps,loopback_lat={draw.choice([0, 100, 5000])}ns"
    return text


def _star(draw: random.Random, hosts: int, is_crowded: bool) -> str:
    if draw.random() < 0.3:
        return draw.choice(USUAL).format(p=hosts)
    text = f"star:{hosts}" + _options(draw, is_crowded and draw.random() < 0.5)
    if draw.random() < 0.4:
        text += f",bb_bw={draw.randrange(10, 20_000)}MBps,bb_sharing={draw.choice(['shared', 'fatpipe'])}"
        text += f",bb_lat={draw.choice([0, 500, 20_000])}ns"
    return text


def _torus(draw: random.Random, hosts: int, _: bool) -> str:
    """As many hosts or more; only one dimension may have one host."""
    while True:
        sizes = [draw.randrange(1, 6) for _ in range(draw.randrange(1, 4))]
        count = _product(sizes)
        if hosts <= count <= 3 * hosts + 8 and sizes.count(1) <= 1:
            return f"torus:{'x'.join(map(str, sizes))}" + _options(draw, is_crowded=True)


def _fat_tree(draw: random.Random, hosts: int, is_crowded: bool) -> str:
    """Limiters only where there are not more switches than hosts: SimGrid's names collide."""
    while True:
        levels = draw.randrange(1, 4)
        down, up, cables = ([draw.randrange(1, most) for _ in range(levels)] for most in (5, 4, 4))
        up[0] = draw.choice([1, 1, up[0]])
        count = _product(down)
        if hosts <= count <= 3 * hosts + 8:
            break
    switches = sum(_product(up[: level + 1]) * _product(down[level + 1 :]) for level in range(levels))
    shape = ":".join("x".join(map(str, part)) for part in (down, up, cables))
    return f"fattree:{shape}" + _options(draw, is_crowded, has_limiter=switches <= count)


def _dragonfly(draw: random.Random, hosts: int, is_crowded: bool) -> str:
    """Not more groups than routers in a chassis: SimGrid reads beyond its table then."""
    while True:
        chassis, routers, nodes = draw.randrange(1, 4), draw.randrange(1, 5), draw.randrange(1, 4)
        groups = draw.randrange(1, routers + 1)
        if hosts <= groups * chassis * routers * nodes <= 3 * hosts + 12:
            break
    blue, black, green = (draw.randrange(1, 3) for _ in range(3))
    shape = f"{groups}x{blue}:{chassis}x{black}:{routers}x{green}:{nodes}"
    return f"dragonfly:{shape}" + _options(draw, is_crowded)


def _product(numbers: list[int]) -> int:
    result = 1
    for number in numbers:
        result *= number
    return result


def _fill(draw: random.Random, zone: Zone, name: str, hosts: int) -> str:
    """Hosts round routers, every cable of another kind; its gateway."""
    routers = [f"{name}r{i}" for i in range(draw.randrange(1, 4))]
    points = [f"{name}h{i}" for i in range(hosts)]
    for point in draw.sample(routers + points, len(routers) + hosts):
        if point in routers:
            zone.router(point)
        else:
            zone.host(point, speed=1e9, cores=4)
    pairs = [(routers[i], routers[draw.randrange(i)]) for i in range(1, len(routers))]
    pairs += [(point, draw.choice(routers)) for point in points]
    if len(routers) == 3 and draw.random() < 0.5 and (routers[0], routers[2]) not in pairs:
        pairs.append((routers[0], routers[2]))
    seen: set[frozenset[str]] = set()
    for number, (a, b) in enumerate(draw.sample(pairs, len(pairs))):
        if frozenset((a, b)) in seen:
            continue
        seen.add(frozenset((a, b)))
        link, sharing = f"{name}l{number}", draw.choice(["shared", "splitduplex", "splitduplex"])
        zone.link(link, draw.choice([1e8, 1e9, 1.25e9]), draw.choice([0.0, 1e-6, 1e-5]), sharing)
        zone.route(a, b, [(link, "up") if sharing == "splitduplex" else link])
    return draw.choice(routers)


def _zones(draw: random.Random, hosts: int) -> Zone:
    """One graph, or sites of their own graphs and clusters, each joined to each other one.

    Graphs are Floyd's inside: SimGrid's Dijkstra stops where a way leaves a zone by another gateway.
    """
    if draw.random() < 0.4:
        zone = Zone("all", draw.choice(["floyd", "dijkstra"]))
        _fill(draw, zone, "g", hosts)
        return zone
    top = Zone("top", draw.choice(["full", "floyd"]))
    sites = draw.randrange(2, 4)
    ends = []
    for number in range(sites):
        name, share = f"s{number}", -(-hosts // sites)
        kind = draw.choice(["floyd", "dijkstra", "star", "torus", "fattree", "nested"])
        if kind in ("torus", "fattree"):  # SimGrid gives them no router: a host is the gateway
            spec = _torus(draw, share, True) if kind == "torus" else _fat_tree(draw, share, True)
            cluster = parse_spec(spec + ",cores=4")
            top.cluster(name, cluster, prefix=f"{name}-", suffix="")
            ends.append((name, f"{name}-{draw.randrange(cluster.hosts or 1)}"))
        elif kind == "nested":
            middle = top.zone(name, "floyd")
            gates = [
                _fill(draw, middle.zone(f"{name}{half}", "floyd"), f"{name}{half}", share) for half in "ab"
            ]
            middle.link(f"{name}ab", 2e9, 5e-6, "splitduplex")
            middle.route(
                f"{name}a", f"{name}b", [(f"{name}ab", "up")], gw_src=gates[0], gw_dst=gates[1]
            )  # fmt: skip
            ends.append((name, draw.choice(gates)))
        elif kind == "star":
            spec = f"star:{share}" + _options(draw, is_crowded=False) + ",cores=4"
            top.cluster(name, parse_spec(spec), prefix=f"{name}-", suffix="", router=f"{name}r")
            ends.append((name, f"{name}r"))
        else:
            inner = top.zone(name, kind)
            ends.append((name, _fill(draw, inner, name, share)))
    for (a, gw_a), (b, gw_b) in itertools.combinations(ends, 2):
        link, sharing = f"{a}-{b}", draw.choice(["shared", "splitduplex"])
        top.link(link, draw.choice([1e9, 5e9]), draw.choice([2e-5, 1e-3]), sharing)
        top.route(a, b, [(link, "up") if sharing == "splitduplex" else link], gw_src=gw_a, gw_dst=gw_b)
    return top


def random_machine(draw: random.Random, ranks: int) -> Platform:
    """A machine for so many ranks, which may stand several on a host, in any order."""
    per_host = draw.choice([1, 1, 2, 4])
    hosts = -(-ranks // per_host)
    kind = draw.choice(["star", "star", "torus", "fattree", "dragonfly", "zones"])
    if kind == "zones":
        machine = platform(_zones(draw, hosts))
    else:
        made = {"star": _star, "torus": _torus, "fattree": _fat_tree, "dragonfly": _dragonfly}[kind]
        text = made(draw, hosts, per_host > 1)
        machine = platform(text + (f",cores={per_host}" if per_host > 1 else ""))
    available = machine.hosts or hosts
    mapping: str | list[int] = draw.choice(["block", "cyclic", f"random:{draw.randrange(1000)}", "listed"])
    if mapping == "listed":
        mapping = draw.sample([host for host in range(available) for _ in range(per_host)], ranks)
    return Platform(machine.description, mapping=mapping_of(mapping))
