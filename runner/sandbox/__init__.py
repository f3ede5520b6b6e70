"""Containers of ours through the engine: images, volumes, streams, the guest's channel and its client, the reaper.

Imports `config`, `guest`, `text`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = [
    "channel",
    "clock",
    "container",
    "engine",
    "fixture",
    "floor",
    "guest_client",
    "guest_spec",
    "host",
    "images",
    "labels",
    "pins",
    "reaper",
    "recipe",
    "reused",
    "stream",
    "throwaway",
    "volumes",
]
