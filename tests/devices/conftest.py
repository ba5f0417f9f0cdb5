"""These tests need eight devices: `tests/test_devices.py` runs them in a process that has them."""

import os

collect_ignore_glob = [] if os.environ.get("DIDAX_NUM_CPU_DEVICES") == "8" else ["test_*.py"]
