from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes slow examples, not wrong ones.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
