"""One way to do a collective: its time as a function of its size."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One algorithm on one group.

    Attributes:
        algorithm: such as ``ring``.
        wait_s: whatever the size: the launch, and the messages that follow each other.
        carry_s_per_byte: of the slowest link, at full speed.
        copy_s_per_byte: of moving a device's own part into place.
        fill_s: what a long message loses to filling the pipeline.
        chunk_wait_s: time through a pipeline whose chunks are chosen to suit the size.
        eager_s_per_byte: extra, of a short message that is sent without a handshake.
        handshake_s: what a long message pays instead.
    """

    algorithm: str
    wait_s: float
    carry_s_per_byte: float
    copy_s_per_byte: float = 0.0
    fill_s: float = 0.0
    chunk_wait_s: float = 0.0
    eager_s_per_byte: float = 0.0
    handshake_s: float = 0.0

    def time_s(self, size_bytes: float) -> float:
        """Seconds for that many bytes; every term grows with them."""
        carried_s = size_bytes * self.carry_s_per_byte
        time_s = self.wait_s + carried_s + size_bytes * self.copy_s_per_byte
        if self.fill_s:
            time_s += self.fill_s * carried_s / (self.fill_s + carried_s)
        if self.chunk_wait_s:
            time_s += 2 * math.sqrt(self.chunk_wait_s * carried_s)
        if self.handshake_s:
            time_s += min(self.handshake_s, size_bytes * self.eager_s_per_byte)
        return time_s
