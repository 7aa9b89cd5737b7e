from benchmarks import clock


def test_a_clock_that_has_run_out_has_nothing_left():
    assert clock.Clock(10.0, start=0.0).left < clock.Clock(20.0, start=0.0).left
    assert clock.Clock(0.0).left <= 0.0
    assert clock.Clock().left > 1e9


def test_actions_alternate_and_warm_up_turns_do_not_count():
    order = []
    found = clock.alternated(
        {"a": lambda: order.append("a"), "b": lambda: order.append("b")}, turns=2, warm_up=1
    )
    assert order == ["a", "b"] * 3
    assert set(found) == {"a", "b"}
    assert all(seconds >= 0.0 for seconds in found.values())


def test_there_is_room_for_what_passes_the_end_by_half(monkeypatch):
    monkeypatch.setattr(clock.time, "monotonic", lambda: 60.0)
    within = clock.Clock(100.0, start=0.0)
    assert within.has_room(79.0) and not within.has_room(81.0)
    assert not clock.Clock(60.0, start=0.0).has_room(0.0)
