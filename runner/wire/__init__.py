"""Frames and JSON-RPC, without any input or output: lines out of bytes, messages out of lines, numbers within bounds,
the frame log.

Imports `text`.
"""

#: Modules that other rooms import; all others are this room's own.
__all__ = ["cost", "frames", "jsonrpc", "log", "numbers", "values"]
