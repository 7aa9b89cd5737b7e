"""What is compared with what."""

from __future__ import annotations

import math

import pytest

from lipdp.reports.sections import sections


def no_privacy(fields):
    fields["method"] = "none"
    fields["spent"]["epsilon"] = "inf"
    fields["spent"]["ledger"] = ""


def noiseless(fields):
    fields["config"]["privacy"] |= {"epsilon": None, "noise_multiplier": 0.0}
    fields["spent"]["epsilon"] = "inf"


def seeded(fields):
    fields["config"]["privacy"]["seed"] = 7


def test_seeds_of_one_setting_and_budget_are_one_cell(make_run):
    runs = [make_run(seed=s, accuracy=0.8 + s / 100) for s in range(3)]
    (section,) = sections(runs)
    (cell,) = section.cells
    assert cell.runs == tuple(runs)
    assert cell.accuracy.mean == pytest.approx(0.81)
    assert (cell.accuracy.count, cell.epsilon, cell.setting) == (3, 1.0, 1)
    assert section.settings == {1: {}}


def test_settings_differ_in_the_keys_that_are_named(make_run):
    def wider(fields):
        fields["config"]["model"]["units"] = [128]
        fields["config"]["training"]["extra"] = 3

    (section,) = sections([make_run(), make_run(edit=wider), make_run(epsilon=8.0)])
    assert [(c.epsilon, c.setting) for c in section.cells] == [(1.0, 1), (1.0, 2), (8.0, 1)]
    assert section.settings == {
        1: {"model.units": "[64, 32]", "training.extra": ""},
        2: {"model.units": "[128]", "training.extra": "3"},
    }


def test_a_method_is_a_cell_of_its_own_in_the_same_setting(make_run):
    def other(fields):
        fields["config"]["training"]["method"] = "dp-sgd"

    (section,) = sections([make_run(), make_run(method="dp-sgd", edit=other)])
    assert [(c.method, c.setting) for c in section.cells] == [("clipless", 1), ("dp-sgd", 1)]


@pytest.mark.parametrize("edit", [no_privacy, noiseless])
def test_runs_without_privacy_are_references_at_no_epsilon(make_run, edit):
    (section,) = sections([make_run(), *(make_run(seed=s, edit=edit) for s in range(2))])
    assert len(section.cells) == 1
    (reference,) = section.references
    assert reference.is_reference
    assert math.isinf(reference.epsilon)
    assert reference.accuracy.count == 2
    assert reference.setting == 1


def test_a_plain_run_with_a_finite_epsilon_by_mistake_is_still_a_reference(make_run):
    (section,) = sections([make_run(method="none")])
    assert (section.cells, section.delta) == ((), None)
    assert len(section.references) == 1


def test_seeded_runs_stand_apart_and_say_why(make_run):
    (section,) = sections([make_run(), make_run(edit=seeded)])
    assert [bool(cell.not_private) for cell in section.cells] == [False, True]


def edited(key, value):
    def edit(fields):
        fields["config"]["data"][key] = value

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        edited("name", "other"),
        edited("target", "age"),
        edited("group", "user"),
        lambda f: f.update(training_rows=100),
        lambda f: f["spent"].update(delta=1e-6),
        lambda f: f["spent"].update(adjacency="replace-one"),
    ],
)
def test_what_cannot_be_compared_is_apart(make_run, edit):
    assert len(sections([make_run(), make_run(edit=edit)])) == 2


def test_another_share_of_test_rows_is_the_same_data(make_run):
    def share(fields):
        fields["config"]["data"]["test_fraction"] = 0.5
        fields["training_rows"], fields["test"]["rows"] = 6400, 6400

    assert len(sections([make_run(), make_run(edit=share)])) == 1


def test_references_join_every_section_of_their_data(make_run):
    strict = make_run(edit=lambda f: f["spent"].update(delta=1e-6))
    found = sections([make_run(), strict, make_run(edit=no_privacy)])
    assert [len(section.references) for section in found] == [1, 1]


def test_a_given_noise_is_placed_at_what_it_cost(make_run):
    def noise(fields):
        fields["config"]["privacy"] |= {"epsilon": None, "noise_multiplier": 1.31}
        fields["spent"]["epsilon"] = 1.987

    (section,) = sections([make_run(seed=s, edit=noise) for s in range(2)])
    assert [(c.epsilon, len(c.runs)) for c in section.cells] == [(1.987, 2)]


def test_a_run_that_spent_more_than_its_budget_is_placed_at_what_it_spent(make_run):
    (section,) = sections([make_run(edit=lambda f: f["spent"].update(epsilon=1.5))])
    assert section.cells[0].epsilon == 1.5


def test_a_run_that_was_stopped_is_no_seed_of_the_others(make_run):
    stopped = make_run(seed=1, interrupted=True, edit=lambda f: f["spent"].update(epsilon=0.4))
    (section,) = sections([make_run(), stopped])
    assert [(c.epsilon, c.interrupted) for c in section.cells] == [(0.4, True), (1.0, False)]


def test_what_early_versions_do_not_state_makes_no_setting(make_run):
    def stated(fields):
        fields["config"] |= {"features": {"name": "none"}, "sweep": {"space": {}}}
        fields["config"]["training"] |= {"method": "clipless", "tensorboard": "logs"}
        fields["config"]["data"]["dir"] = "elsewhere"

    (section,) = sections([make_run(), make_run(seed=1, edit=stated)])
    assert len(section.cells) == 1


def test_a_bare_result_of_an_early_version_is_grouped_too(make_run):
    (section,) = sections([make_run(edit=lambda f: f.update(config={}))])
    assert (section.data, section.cells[0].epsilon) == ("data", pytest.approx(0.999))


def test_certificates_of_different_units_are_never_averaged(make_run):
    def unit(fields):
        for certified in fields["certified"]:
            certified["unit"] = "pixels"

    (section,) = sections([make_run(), make_run(seed=1, edit=unit)])
    (cell,) = section.cells
    assert len(section.units) == 2
    assert cell.certified("pixels", 0.05).count == 1
    assert cell.certified("pixels", 0.3) is None


def test_missing_auroc_is_left_out_of_the_mean(make_run):
    def none(fields):
        fields["test"]["auroc"] = None

    (section,) = sections([make_run(), make_run(seed=1, edit=none)])
    assert section.cells[0].auroc.count == 1
    (section,) = sections([make_run(edit=none)])
    assert section.cells[0].auroc is None
