import pickle

from lipdp.errors import BoundViolation, InvalidValue, LipdpError


def test_a_message_says_what_was_received_and_the_way_out():
    error = InvalidValue("epsilon must be positive", received=-1.0, fix="Pass epsilon=8")
    assert str(error) == "epsilon must be positive. Received: -1.0. Pass epsilon=8."
    assert isinstance(error, ValueError) and isinstance(error, LipdpError)


def test_long_values_are_shortened():
    assert len(str(InvalidValue("x", received="a" * 10_000))) < 400


def test_violations_are_assertion_errors():
    assert issubclass(BoundViolation, AssertionError)


def test_errors_can_be_pickled():
    assert str(pickle.loads(pickle.dumps(InvalidValue("what", received=1)))).startswith("what")
