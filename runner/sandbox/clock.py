"""The guest's CLOCK_MONOTONIC against ours: the same clock on one kernel, shifted where the engine runs in a VM."""

from __future__ import annotations

import time

from runner.sandbox.guest_client import GuestClient
from runner.sandbox.labels import boot_id

#: Round trips of which the quickest decides; the first ones pay for the start of the channel.
_TRIPS = 7


def clock_offset_ns(guest: GuestClient, within_s: float) -> int:
    """What to subtract from the guest's stamps: 0 on one kernel, which the kernel's own boot id tells.

    Elsewhere the midpoint of the quickest of several round trips, known to half that trip (D. L. Mills, RFC 5905,
    section 8: offset and round-trip delay).

    :raises InfraError: the guest does not answer.
    """
    _, their_boot = guest.clock(within_s)
    if their_boot == boot_id() is not None:
        return 0
    best_trip, best_offset = None, 0
    for _ in range(_TRIPS):
        before = time.monotonic_ns()
        there = guest.clock(within_s)[0]
        after = time.monotonic_ns()
        if best_trip is None or after - before < best_trip:
            best_trip, best_offset = after - before, there - (before + after) // 2
    return best_offset
