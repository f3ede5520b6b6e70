"""Hostile tests need the real engine; a machine without one fails them."""

from tests.engine.conftest import engine, lab

__all__ = ["engine", "lab"]
