"""Hypothesis: what a busy machine makes slow is no fault of the code, so time is not judged; examples still are."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("acpbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("acpbench")
