"""Fitting the figures of ``cost/links.py`` to measured collectives, kind by kind of link."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence

from bench.fidelity.measured import GROUP, MeasuredCollective
from shardwright.cluster.layout import GroupLayout
from shardwright.cluster.place import group_layout
from shardwright.cost.algorithms.route import route_of
from shardwright.cost.algorithms.way import Way
from shardwright.cost.collective import ways_of
from shardwright.cost.links import NEUTRAL, PROFILES, LinkProfile, kind_of_link
from shardwright.sharding import CollectiveKind

Profiles = Mapping[str, LinkProfile]

FIELDS = (
    "efficiency",
    "launch_s",
    "fill_s",
    "reduce_efficiency",
    "bridged_efficiency",
    "host_bytes_per_s",
)
"""Fitted where the table has a figure; those of networks are published and stay."""
SHARES = ("efficiency", "reduce_efficiency", "bridged_efficiency")
FAMILIES = (("NVLink2", "NVLink3", "NVLink4", "NVLink", "xGMI"), ("PCIe4", "PCIe"))
PRIOR = 0.01
"""Mean error that is accepted rather than move one figure by a factor of e."""
STEPS = (1.5, 1.2, 1.07, 1.02)


def predict(rows: Sequence[MeasuredCollective], profiles: Profiles) -> list[float]:
    """Seconds of each row with those figures of the links."""
    known: dict[tuple[CollectiveKind, GroupLayout], tuple[Way, ...]] = {}
    return [_predict(row, profiles, known) for row in rows]


def fit_kind(rows: Sequence[MeasuredCollective], kind: str, profiles: Profiles) -> Profiles:
    """The figures with those of one kind of link fitted to rows on nothing else.

    Starts from what the kind's family lets one expect, and leaves that only as far as rows demand:
    figures that no row depends on stay.
    """
    own = [row for row in rows if len(row.placed.topology.levels) == 1 and inner_kind(row) == kind]
    profile = start = family_mean(kind, profiles)
    for step in STEPS if own else ():
        profile = _climb(own, kind, {**profiles, kind: profile}, step, start)
    return {**profiles, kind: profile}


def family_mean(kind: str, profiles: Profiles) -> LinkProfile:
    """What one expects of a kind of link that was never measured: the mean of its relatives."""
    family = next(family for family in FAMILIES if kind in family)
    relatives = [profiles[other] for other in family if other != kind]
    means = {name: _mean([getattr(profile, name) for profile in relatives]) for name in FIELDS}
    return dataclasses.replace(profiles[kind], **means)


def inner_kind(row: MeasuredCollective) -> str:
    """The kind of link inside the hosts of a row."""
    return kind_of_link(row.placed.topology.levels[0].name)


def table() -> dict[str, LinkProfile]:
    """The figures as they stand in the product."""
    return dict(PROFILES)


def _climb(
    rows: Sequence[MeasuredCollective],
    kind: str,
    profiles: Profiles,
    step: float,
    start: LinkProfile,
) -> LinkProfile:
    best, least = profiles[kind], math.inf
    moved = True
    while moved:
        moved = False
        for name in FIELDS:
            for factor in (step, 1 / step):
                tried = _changed(best, name, factor)
                loss = _loss(rows, {**profiles, kind: tried}) + PRIOR * _distance(tried, start)
                if loss < least * (1 - 1e-4):
                    best, least, moved = tried, loss, True
    return best


def _changed(profile: LinkProfile, name: str, factor: float) -> LinkProfile:
    value = getattr(profile, name) * factor
    return dataclasses.replace(profile, **{name: min(1.0, value) if name in SHARES else value})


def _distance(profile: LinkProfile, start: LinkProfile) -> float:
    pairs = [(getattr(profile, name), getattr(start, name)) for name in FIELDS]
    return sum(abs(math.log(value / old)) for value, old in pairs if value and old)


def _loss(rows: Sequence[MeasuredCollective], profiles: Profiles) -> float:
    times = predict(rows, profiles)
    return statistics.fmean(
        abs(math.log(time_s / row.time_s)) for time_s, row in zip(times, rows, strict=True)
    )


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if value]
    return statistics.geometric_mean(known) if known else 0.0


def _predict(
    row: MeasuredCollective,
    profiles: Profiles,
    known: dict[tuple[CollectiveKind, GroupLayout], tuple[Way, ...]],
) -> float:
    kind, layout = row.collective.kind, group_layout(row.placed, (GROUP,))
    if (kind, layout) not in known:
        route = route_of(layout, lambda name: profiles.get(kind_of_link(name), NEUTRAL))
        known[kind, layout] = ways_of(kind, route)
    return min(way.time_s(row.size_bytes) for way in known[kind, layout])
