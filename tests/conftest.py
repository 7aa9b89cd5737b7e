"""Settings for every test: quiet TensorFlow, no network, fixed Hypothesis profile."""

from __future__ import annotations

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("MPLBACKEND", "Agg")

from hypothesis import settings

settings.register_profile("lipdp", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("lipdp")
