import pytest

from lipdp.bounds.precision import working_unit
from lipdp.errors import UnsafeSetting


def test_tensorflow_multiplies_in_the_dtype_it_is_given():
    assert working_unit("float64") == 2.0**-53
    assert working_unit("float32") == 2.0**-24


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "unknown"])
def test_other_dtypes_are_refused(dtype):
    with pytest.raises(UnsafeSetting, match=dtype):
        working_unit(dtype)
