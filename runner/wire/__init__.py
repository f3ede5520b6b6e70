"""Frames and JSON-RPC, without any input or output: lines out of bytes, messages out of lines, numbers within bounds,
the frame log."""
