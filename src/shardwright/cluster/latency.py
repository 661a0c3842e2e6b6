"""Seconds that one message takes on each kind of link, and where each figure comes from.

The hardware table states no latencies. These are nominal, hold for small messages between
neighbours, and stand only until a cluster is measured.

**Source**: for GPUs the per-step constants of the ring algorithm with the LL128 protocol in
NVIDIA/nccl, ``src/graph/tuning.cc``, ``hwLatencies`` (NVLink 1.9, PCI 2.5, network 4.0 us). For EFA
the two-node all-reduce of small buffers in aws-samples/aws-efa-eks, ``README.md`` (175 us over the
30 steps of a ring of 16). For TPU "How to Scale Your Model" (jax-ml/scaling-book), ``sharding.md``,
worked problems (1 us per hop). Links marked "assumed" in the table below have no public figure.
"""

from __future__ import annotations

LATENCY_S_BY_WORD = (
    ("NVLink", 1.9e-6),
    ("xGMI", 1.9e-6),  # assumed: as NVLink
    ("NeuronLink", 1.9e-6),  # assumed: as NVLink
    ("ICI", 1.0e-6),
    ("die to die", 1.0e-6),  # assumed: as ICI
    ("PCIe", 2.5e-6),
    ("InfiniBand", 4.0e-6),
    ("RoCE", 4.0e-6),
    ("NDR", 4.0e-6),
    ("CX-8", 4.0e-6),
    ("VPC", 2.0e-5),  # assumed: through the kernel's TCP
    ("ENA", 2.0e-5),  # assumed: through the kernel's TCP
    ("TCP", 2.0e-5),  # assumed: through the kernel's TCP
    ("DCN", 2.0e-5),  # assumed: through the kernel's TCP
    ("EFA", 5.8e-6),
)
"""The first word found in a link's name decides, so ``ENA/EFA`` is the slower of the two."""

DEFAULT_LATENCY_S = 2.0e-5


def latency_s(link_name: str) -> float:
    """Seconds of one small message on a link of that name; 20 us when the kind is unknown."""
    for word, time_s in LATENCY_S_BY_WORD:
        if word in link_name:
            return time_s
    return DEFAULT_LATENCY_S
