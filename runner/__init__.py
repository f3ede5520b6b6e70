"""acpbench: a sandboxed, multi-surface benchmark runner for coding agents."""

__version__ = "0.1.0"
