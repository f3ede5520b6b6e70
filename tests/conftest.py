"""What holds for every test, whoever started them.

Hypothesis: what a busy machine makes slow is no fault of the code, so time is not judged; examples still are.
Signals: nohup and a script's background jobs start us with some ignored, and our children would inherit it.
"""

from __future__ import annotations

import signal

from hypothesis import HealthCheck, settings

settings.register_profile("acpbench", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("acpbench")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGTERM):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)
