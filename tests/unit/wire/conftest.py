"""Settings of the property tests."""

from __future__ import annotations

from hypothesis import settings

# A shared machine may stall a test for longer than hypothesis' default deadline.
settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
