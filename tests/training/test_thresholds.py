"""The noise of a variable behind several adaptive clips."""

import numpy as np
import pytest

from lipdp.layers import AdaptiveCotangentClip
from lipdp.training.noise_plan import Mechanism, Thresholds


def test_noise_follows_the_threshold_that_is_farthest_above_its_minimum():
    """Whichever clip comes first; a variable that depends on none keeps its noise."""
    clips = tuple(AdaptiveCotangentClip(one, minimum=1.0) for one in (2.0, 5.0, 3.0))
    for clip in clips:
        clip.build((None, 4))
    chosen = ((0, 1, 2), (1, 0), (2, 1, 0), (0, 2), (2,), ())
    scales = Thresholds(clips).scales(Mechanism((1.0,) * len(chosen), 10, clips=chosen))
    assert [float(np.asarray(one)) for one in scales] == pytest.approx([5, 5, 5, 3, 3, 1])
