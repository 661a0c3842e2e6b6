"""Seconds that one message takes on each kind of link, and where each figure comes from.

The hardware table states no latencies. These are nominal, hold for small messages between
neighbours, and stand only until a cluster is measured.

**Source**: for GPUs a hop of a small (LL protocol) message: on NVLink and PCIe fitted to published
runs of nccl-tests (``docs/cost-model.md``), on InfiniBand the 5.0 us of NVIDIA/nccl,
``src/graph/tuning.cc``, ``hwLatencies``, tree over a network. For EFA the latencies that
aws/aws-ofi-nccl states to NCCL, ``src/platform-aws.cpp`` (75 us; 35 us from p5en on). For TPU
"How to Scale Your Model" (jax-ml/scaling-book), ``sharding.md``, worked problems (1 us per hop).
Links marked "assumed" in the table below have no public figure.
"""

from __future__ import annotations

LATENCY_S_BY_WORD = (
    ("NVLink", 1.0e-6),
    ("xGMI", 1.0e-6),  # assumed: as NVLink
    ("NeuronLink", 1.0e-6),  # assumed: as NVLink
    ("ICI", 1.0e-6),
    ("die to die", 1.0e-6),  # assumed: as ICI
    ("PCIe", 1.3e-6),
    ("InfiniBand", 5.0e-6),
    ("RoCE", 5.0e-6),
    ("NDR", 5.0e-6),
    ("CX-8", 5.0e-6),
    ("EFA v3", 3.5e-5),
    ("EFA v4", 3.5e-5),
    ("EFA", 7.5e-5),
    ("VPC", 2.0e-5),  # assumed: through the kernel's TCP
    ("ENA", 2.0e-5),  # assumed: through the kernel's TCP
    ("TCP", 2.0e-5),  # assumed: through the kernel's TCP
    ("DCN", 2.0e-5),  # assumed: through the kernel's TCP
)
"""The first word found in a link's name decides, so ``ENA/EFA`` is EFA."""

DEFAULT_LATENCY_S = 2.0e-5


def latency_s(link_name: str) -> float:
    """Seconds of one small message on a link of that name; 20 us when the kind is unknown."""
    for word, time_s in LATENCY_S_BY_WORD:
        if word in link_name:
            return time_s
    return DEFAULT_LATENCY_S
