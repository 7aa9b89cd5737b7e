"""Workers, with a stand-in for training."""

from lipdp.errors import UnboundedGradient
from lipdp.privacy import PrivacyLedger, composed
from lipdp.sweep.claims import claim, counted_trials
from lipdp.sweep.costs import cost_of_choosing
from lipdp.sweep.records import chosen, trial_records
from lipdp.sweep.study import drawn_number, join_study, open_study
from lipdp.sweep.worker import run_name, work

RATE = "optimizer.learning_rate"


def test_trials_are_run_once_and_the_best_is_chosen(make_settings, begin, training):
    settings, train = make_settings(pruning=False), training()
    study, place = begin(settings, trials=3)
    work(study, settings, place, train)
    work(study, settings, place, train)
    assert train.folders == ["000", "001", "002"]
    trials = trial_records(study, place.folder)
    assert {t.state for t in trials} == {"finished"}
    best = chosen(trials)
    assert best.value == max(t.parameters[RATE] for t in trials) == best.parameters[RATE]
    # No trial of the space trains on the rows it is compared on.
    assert {c.data.validation_fraction for c in train.configs} == {0.2}


def test_each_trial_has_a_folder_of_curves(make_settings, begin, training):
    settings, train = make_settings(overrides=["training.tensorboard=boards"]), training()
    study, place = begin(settings, trials=2)
    work(study, settings, place, train)
    boards = [config.training.tensorboard for config in train.configs]
    assert boards == ["boards/000", "boards/001"]
    # A run that ended, though its worker died before it said so, is not trained again.
    assert {t.state for t in trial_records(study, place.folder)} == {"finished"}


def test_a_larger_number_adds_trials(make_settings, begin, training):
    settings, train = make_settings(), training()
    for total in (1, 3, 2):
        study, place = begin(settings, trials=total)
        work(study, settings, place, train)
    assert len(counted_trials(study)) == len(train.folders) == 3


def test_a_failed_trial_has_its_reason_and_the_sweep_goes_on(make_settings, begin, training):
    settings, train = make_settings(), training(error=UnboundedGradient("No finite bound"))
    study, place = begin(settings, trials=2)
    work(study, settings, place, train)
    assert len(train.folders) == 2
    trials = trial_records(study, place.folder)
    assert [t.state for t in trials] == ["failed"] * 2 and "No finite bound" in trials[0].reason
    assert chosen(trials) is None
    assert cost_of_choosing(settings, trials, complete=True) is None


def test_pruned_trials_stop_early_and_are_counted(make_settings, begin, training):
    # Later trials are worse, so that Hyperband stops some of them.
    space = {RATE: [0.9 - i / 50 for i in range(40)]}
    settings, train = make_settings(space), training()
    train.reaches = lambda config, epoch: 1.0 / len(train.folders)
    study, place = begin(settings, trials=9)
    work(study, settings, place, train)
    trials = trial_records(study, place.folder)
    pruned = [t for t in trials if t.state == "pruned"]
    assert pruned and all(0 < t.steps < 1000 for t in pruned)
    assert all((place.folder / t.run / "result.json").is_file() for t in pruned)
    cost = cost_of_choosing(settings, trials, complete=True)
    whole = PrivacyLedger()
    whole.record(0.01, 1.0, sum(t.steps for t in trials))
    assert cost.counted_trials == 9
    assert cost.together == composed([whole], 1e-5).epsilon


def test_no_trial_is_stopped_by_another_measure_than_the_one_asked_for(
    make_settings, begin, training
):
    """Accuracies of epochs, which differ as above, say nothing of the AUROC."""
    space = {RATE: [0.9 - i / 50 for i in range(40)]}
    settings, train = make_settings(space, metric="auroc"), training()
    train.reaches = lambda config, epoch: 1.0 / len(train.folders)
    study, place = begin(settings, trials=9)
    work(study, settings, place, train)
    assert {t.state for t in trial_records(study, place.folder)} == {"finished"}


def test_an_interrupted_trial_goes_on_first(make_settings, begin, training):
    settings = make_settings()
    study, place = begin(settings, trials=2)
    # Its process dies: the lock goes, the storage still says that it runs.
    dead = claim(study, 2, place.folder, run_name)
    dead.trial.suggest_float(RATE, 0.1, 0.9)
    parameters = dict(dead.trial.params)
    (other,) = [t for t in trial_records(study, place.folder) if t.state == "running"]
    assert other.run == "000"
    dead.release()
    train = training()
    work(study, settings, place, train)
    assert train.folders == ["000", "001"]
    assert train.configs[0].optimizer.options["learning_rate"] == parameters[RATE]
    assert [t.state for t in trial_records(study, place.folder)] == ["finished"] * 2


def test_a_trial_that_is_being_run_is_left_alone(make_settings, begin, training):
    settings, train = make_settings(), training()
    study, place = begin(settings, trials=2)
    mine = claim(study, 2, place.folder, run_name)
    work(study, settings, place, train)
    assert train.folders == ["001"]
    mine.release()


def test_a_run_that_ended_unheard_is_not_run_again(make_settings, begin, training):
    settings, train = make_settings(), training()
    study, place = begin(settings, trials=1)
    dead = claim(study, 1, place.folder, run_name)
    rate = dead.trial.suggest_float(RATE, 0.1, 0.9)
    config = settings.config.model_copy(
        update={
            "optimizer": settings.config.optimizer.model_copy(update={"learning_rate": rate}),
            "data": settings.config.data.model_copy(update={"validation_fraction": 0.2}),
        }
    )
    dead.folder.mkdir(parents=True)
    train.result(config, dead.folder, 10, 0.75).save(dead.folder / "result.json")
    dead.release()
    work(study, settings, place, train)
    (trial,) = trial_records(study, place.folder)
    assert (trial.state, trial.value, trial.steps, train.folders) == ("finished", 0.75, 1000, [])


def test_a_trial_that_kills_its_worker_is_given_up(make_settings, begin, training):
    settings, train = make_settings(), training()
    study, place = begin(settings, trials=1)
    for _ in range(3):
        claim(study, 1, place.folder, run_name).release()
    work(study, settings, place, train)
    (trial,) = trial_records(study, place.folder)
    assert trial.state == "failed" and "3 times" in trial.reason and train.folders == []


def test_a_random_number_of_trials_is_drawn_once_and_named_in_secret(
    make_settings, begin, training
):
    settings, train = make_settings(mean=3.0), training()
    study, place = begin(settings)
    number = drawn_number(study)
    assert drawn_number(open_study(place, settings)) == number >= 1
    study, _ = join_study(place)
    assert type(study.sampler).__name__ == "RandomSampler"
    assert type(study.pruner).__name__ == "NopPruner"
    work(study, settings, place, train)
    assert all(len(name) == 12 for name in train.folders)
