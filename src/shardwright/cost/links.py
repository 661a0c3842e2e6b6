"""What each kind of link really gives a collective library: every fitted figure of the model.

A level's name picks its row, first word that fits. Bandwidth and the time of one message come with
the topology (``cluster/latency.py`` for the latter); here stands what a library makes of them. The
meaning of the columns is in ``LinkProfile``, how they were found in ``docs/cost-model.md``.

**Source**: fitted to published runs of nccl-tests (``bench/fidelity/collectives.py`` reports the
errors), starting from the constants of NVIDIA/nccl, ``src/graph/tuning.cc``. Efficiencies of
networks: NVIDIA GTC 2024, session S62129 (24 of 25, 192 of 200, 380 of 400 GB/s). EFA: the
long all-reduces of two such runs. ICI: the 4.5e10 bytes/s that jax-ml/scaling-book,
``sharding.md``, reckons with on v5e, of the 5e10 that Google publishes. Figures marked "assumed"
have no public source.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import final

MICRO = 1e-6
GIGA = 1e9


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class LinkProfile:
    """One kind of link as a collective library drives it.

    Attributes:
        efficiency: of the published bandwidth, reached by a long ring.
        launch_s: until the devices of a host have started a collective and met, on hosts whose
            innermost link this is.
        fill_s: what filling the pipeline costs a long message; a message shorter than what the link
            carries in this time sends at half speed.
        hop_fill_s: the same for each hop of a ring, on links where it grows with the ring.
        reduce_efficiency: of the published bandwidth, where switches add up; 0 for the same.
        eager_bytes_per_s: per peer, of messages short enough to be sent without a handshake.
        handshake_s: what longer ones pay for it.
        bridged_efficiency: of the published bandwidth, in groups of more than two where only pairs
            share a bridge; 0 where it makes no difference.
        host_bytes_per_s: all that the bridges of one host carry together; 0 for no limit.
        is_ring_library: whether NCCL or its kin drives it: rings, trees and in-network sums, picked
            by size. Otherwise a compiler schedules level by level.
    """

    efficiency: float = 1.0
    launch_s: float = 0.0
    fill_s: float = 0.0
    hop_fill_s: float = 0.0
    reduce_efficiency: float = 0.0
    eager_bytes_per_s: float = 0.0
    handshake_s: float = 0.0
    bridged_efficiency: float = 0.0
    host_bytes_per_s: float = 0.0
    is_ring_library: bool = False

    @property
    def is_network(self) -> bool:
        """Whether it joins hosts, so that a ring waits anew at each hop."""
        return self.hop_fill_s > 0


def _nvlink(
    efficiency: float, launch_us: float, fill_us: float, reduce: float = 0.0
) -> LinkProfile:
    return LinkProfile(
        efficiency=efficiency,
        launch_s=launch_us * MICRO,
        fill_s=fill_us * MICRO,
        reduce_efficiency=reduce,
        eager_bytes_per_s=EAGER_BYTES_PER_S,
        handshake_s=HANDSHAKE_S,
        is_ring_library=True,
    )


def _pcie(
    efficiency: float, launch_us: float, fill_us: float, bridged: float, host_gbs: float = 0.0
) -> LinkProfile:
    return LinkProfile(
        efficiency=efficiency,
        launch_s=launch_us * MICRO,
        fill_s=fill_us * MICRO,
        bridged_efficiency=bridged,
        host_bytes_per_s=host_gbs * GIGA,
        is_ring_library=True,
    )


def _network(efficiency: float) -> LinkProfile:
    return LinkProfile(
        efficiency=efficiency,
        launch_s=LAUNCH_S,
        hop_fill_s=HOP_FILL_S,
        is_ring_library=True,
    )


EAGER_BYTES_PER_S = 8 * GIGA
HANDSHAKE_S = 3.5 * MICRO
LAUNCH_S = 6.6 * MICRO
"""Of one device per host. Source: NVIDIA/nccl, ``baseLatencies``, ring, LL."""
HOP_FILL_S = 6.9 * MICRO
"""Simple over LL on a network. Source: NVIDIA/nccl, ``hwLatencies``: 9.6 - 2.7 us."""
IN_NETWORK_S = 20 * MICRO
"""More than a launch: setting up a sum in the switches. Anything from 14 to 40 us fits as well."""
COPY_SHARE = 0.25
"""Of the memory bandwidth, at which a device copies its own part of the result into place."""

PROFILES = (
    ("NVLink2", _nvlink(0.86, 3.4, 50)),
    ("NVLink3", _nvlink(0.75, 9.0, 65)),
    ("NVLink4", _nvlink(0.81, 4.5, 36, reduce=0.65)),
    ("NVLink", _nvlink(0.75, 8.5, 34, reduce=0.51)),
    ("xGMI", _nvlink(0.72, 8.0, 40)),  # launch and fill assumed: as NVLink
    ("PCIe4", _pcie(0.69, 4.5, 20, bridged=0.39, host_gbs=18)),
    ("PCIe", _pcie(0.60, 4.8, 25, bridged=0.39)),
    ("EFA", _network(0.85)),
    ("InfiniBand", _network(0.95)),
    ("RoCE", _network(0.95)),
    ("NDR", _network(0.95)),
    ("CX-8", _network(0.95)),
    ("Ethernet", _network(0.8)),  # assumed: as TCP
    ("VPC", _network(0.8)),  # assumed: as TCP
    ("TCP", _network(0.8)),
    ("ICI", LinkProfile(efficiency=0.9)),
)

NEUTRAL = LinkProfile()
"""Of links that no library is known for: what the topology states, and nothing else."""


@functools.cache
def link_profile(level_name: str) -> LinkProfile:
    """What a library makes of links of that name; ``NEUTRAL`` when the kind is unknown."""
    return dict(PROFILES).get(kind_of_link(level_name), NEUTRAL)


def kind_of_link(level_name: str) -> str:
    """The word of the table that names this kind of link; empty when the kind is unknown."""
    return next((word for word, _ in PROFILES if word in level_name), "")
