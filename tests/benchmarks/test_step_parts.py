import json

import keras
import numpy as np
import pytest
from click.testing import CliRunner

import lipdp
from benchmarks import step_parts
from benchmarks.workers.parts_left_out import REPLACED
from lipdp import layers as ll
from lipdp.training.batches import PrivateBatches
from lipdp.training.noise import PlainHostNoise

NOISE = ("drawing noise", "bringing noise", "adding noise")


def test_every_part_is_left_out_alone_or_with_others():
    found = step_parts.contenders(256, 7, "jax", "/some/python")
    assert {one.python for one in found.values()} == {"/some/python"}
    assert all(one.variables == {"KERAS_BACKEND": "jax"} for one in found.values())
    private = dict(found["private"].cell)
    for name, parts in step_parts.WITHOUT.items():
        assert found[name].cell == {**private, "without": parts}
    assert set(step_parts.WITHOUT["without all of these"]) == set(REPLACED)


@pytest.fixture
def trained(monkeypatch):
    """Trains for two steps without some parts; counts batches and draws of noise."""

    def train(*parts, seed=0):
        counts = {"batches": 0, "draws": 0}
        place, normals = PrivateBatches._place, PlainHostNoise._normals

        def placed(self, drawn):
            counts["batches"] += 1
            return place(self, drawn)

        def drawn(self):
            counts["draws"] += 1
            return normals(self)

        with monkeypatch.context() as patch:
            patch.setattr(PrivateBatches, "_place", placed)
            patch.setattr(PlainHostNoise, "_normals", drawn)
            for part in parts:
                patch.setattr(*REPLACED[part])
            keras.utils.set_random_seed(0)
            model = lipdp.Sequential([ll.BoundedInput((4,), 1.0), ll.SpectralDense(2)])
            model.compile(
                "sgd",
                lipdp.losses.MulticlassHinge(margin=1.0),
                privacy=lipdp.PrivacyBudget(
                    noise_multiplier=1.0, delta=1e-5, sampling="full-batch", seed=seed
                ),
            )
            rows = np.full((64, 4), 9.0, "float32"), np.arange(64) % 2
            model.fit(*rows, batch_size=64, epochs=4, verbose=0)
            outputs = model.layers[0](rows[0][:1])
        return {**counts, "kernel": np.asarray(model.get_weights()[0]), "outputs": outputs}

    return train


@pytest.mark.slow
def test_what_is_left_out_is_not_done(trained):
    usual = trained()
    assert usual["draws"] >= 4 and usual["batches"] >= 4
    assert not np.array_equal(usual["kernel"], trained(seed=1)["kernel"])
    assert np.linalg.norm(usual["outputs"]) == pytest.approx(1.0)
    assert trained("drawing noise")["draws"] == 1
    quiet = [trained(*NOISE, seed=seed)["kernel"] for seed in (0, 1)]
    np.testing.assert_allclose(*quiet, rtol=1e-4)
    assert trained("new batches")["batches"] == 1
    assert np.linalg.norm(trained("ball of inputs")["outputs"]) == pytest.approx(18.0)
    assert np.linalg.norm(usual["kernel"], 2) <= 1.0
    assert np.linalg.norm(trained("projection")["kernel"], 2) > 1.0


@pytest.mark.slow
def test_they_take_turns(tmp_path, monkeypatch):
    # The least and the most; the others differ in one word each.
    ends = {name: step_parts.WITHOUT[name] for name in ("without noise", "without all of these")}
    monkeypatch.setattr(step_parts, "WITHOUT", ends)
    told = ["--quick", "--results", str(tmp_path)]
    answer = CliRunner().invoke(step_parts.main, told, catch_exceptions=False)
    assert answer.exit_code == 0
    found = json.loads((tmp_path / "step_parts_tensorflow.json").read_text())["cells"]["64"]
    assert set(found) == {"plain", "private", *ends}
    assert all(one["wall_ratio"] > 0 for one in found.values())
