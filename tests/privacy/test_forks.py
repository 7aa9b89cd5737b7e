"""A copy of a ledger is a fork: what was shared counts once, what each side adds is summed."""

import copy
import multiprocessing
import os
import pickle

import pytest

from lipdp.privacy import PrivacyLedger

COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda ledger: pickle.loads(pickle.dumps(ledger)),
    "old pickle": lambda ledger: pickle.loads(pickle.dumps(ledger, protocol=0)),
    "inside something": lambda ledger: copy.deepcopy({"a": [ledger]})["a"][0],
    "text": lambda ledger: PrivacyLedger.from_json(ledger.to_json()),
}


def _ledger(steps=10):
    ledger = PrivacyLedger()
    _record(ledger, steps)
    return ledger


def _record(ledger, steps):
    ledger.record(0.1, 1.0, steps, overflow_probability=1e-9)


def _merged(*ledgers):
    whole = PrivacyLedger()
    for one in ledgers:
        whole.merge(one)
    return whole


@pytest.mark.parametrize("way", COPIES)
class TestCopies:
    def test_ten_on_each_side_of_ten_are_thirty(self, way):
        ledger = _ledger()
        twin = COPIES[way](ledger)
        assert (ledger.steps, twin.steps) == (10, 10)
        _record(ledger, 10)
        _record(twin, 10)
        assert (ledger.steps, twin.steps) == (20, 20)
        for whole in (_merged(ledger, twin), _merged(twin, ledger), _merged(twin, ledger, twin)):
            assert whole.steps == 30
            assert whole.overflow_delta == pytest.approx(30e-9)
        ledger.merge(twin)
        assert ledger.steps == 30

    def test_what_only_one_side_adds(self, way):
        ledger = _ledger()
        twin = COPIES[way](ledger)
        _record(twin, 5)
        assert ledger.steps == 10 and _merged(ledger, twin).steps == 15

    def test_copies_of_copies(self, way):
        ledger = _ledger()
        twins = [COPIES[way](ledger) for _ in range(2)]
        twins.append(COPIES[way](twins[0]))
        for one in (ledger, *twins):
            _record(one, 1)
        assert _merged(ledger, *twins).steps == 10 + 4

    def test_nothing_else_is_lost_or_shared(self, way):
        ledger = _ledger()
        ledger.calibrate(1.5)
        ledger.remarks.add("not_covered", "one thing")
        twin = COPIES[way](ledger)
        assert twin.to_json() == ledger.to_json()
        ledger.remarks.add("not_covered", "another thing")
        assert twin.remarks.of("not_covered") == ("one thing",)
        twin.mark_unknown()
        assert not ledger.unknown_history


class TestProcesses:
    """A process that was forked goes on with the object itself: no copy was made."""

    def test_a_fork_records_in_a_session_of_its_own(self):
        ledger = _ledger()
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                _record(ledger, 10)
                os.write(writing, ledger.to_json().encode())
            finally:
                os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as opened:
            text = opened.read()
        os.waitpid(child, 0)
        _record(ledger, 10)
        assert ledger.steps == 20
        assert _merged(ledger, PrivacyLedger.from_json(text)).steps == 30

    def test_workers_of_a_pool_differ(self):
        ledger = _ledger()

        def work(queue):
            _record(ledger, 10)
            queue.put((ledger.session, ledger.to_json()))

        context = multiprocessing.get_context("fork")
        queue = context.SimpleQueue()
        workers = [context.Process(target=work, args=(queue,)) for _ in range(2)]
        for one in workers:
            one.start()
        said = [queue.get() for _ in workers]
        for one in workers:
            one.join()
        assert len({ledger.session, *(session for session, _ in said)}) == 3
        assert _merged(ledger, *(PrivacyLedger.from_json(text) for _, text in said)).steps == 30

    def test_an_agreed_name_stays_in_the_process_that_agreed(self):
        ledger = PrivacyLedger()
        ledger.begin_session("agreed")
        _record(ledger, 1)
        _record(ledger, 1)
        assert ledger.session == "agreed"
        assert _merged(ledger, ledger).steps == 2
