"""Every layer of the package comes back from a file, in a new process, as it was."""

import json
import subprocess
import sys

import keras
import numpy as np
import pytest

from lipdp.testing.parts import LAYERS

PARTS = [part for part in LAYERS if part.ids is None and isinstance(part.shape, tuple)]

LOADER = """
import json, sys
import numpy as np
import lipdp

found = {}
for name in json.load(open(sys.argv[1] + "/names.json")):
    model = lipdp.load_model(f"{sys.argv[1]}/{name}.keras")
    x = np.load(f"{sys.argv[1]}/{name}.npy")
    found[name] = [
        model.predict(x, verbose=0).tolist(),
        lipdp.bounds.lipschitz_constant(model),
        [v.constraint is not None for v in model.trainable_variables],
    ]
json.dump(found, open(sys.argv[1] + "/found.json", "w"))
"""


def moved(model):
    """Weights that no initializer makes, inside their sets."""
    rng = np.random.default_rng(1)
    for variable in model.trainable_variables:
        drawn = rng.normal(size=variable.shape).astype("float32")
        variable.assign(variable.constraint(drawn) if variable.constraint else drawn)
    return model


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Every part as a model of one layer, and what a new process finds in its file."""
    folder, models = tmp_path_factory.mktemp("saved"), {}
    for i, part in enumerate(PARTS):
        inputs = keras.Input(part.shape)
        model = moved(keras.Model(inputs, part.make(dtype="float32")(inputs)))
        x = np.random.default_rng(i).normal(size=(3, *part.shape)).astype("float32")
        model.save(folder / f"{i}.keras")
        np.save(folder / f"{i}.npy", x)
        models[str(i)] = model, x
    (folder / "names.json").write_text(json.dumps(list(models)))
    done = subprocess.run(
        [sys.executable, "-c", LOADER, str(folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return models, json.loads((folder / "found.json").read_text())


@pytest.mark.parametrize("index", range(len(PARTS)), ids=lambda i: PARTS[i].name)
def test_layer(saved, index):
    from lipdp.bounds import lipschitz_constant

    models, found = saved
    (model, x), (predicted, constant, constrained) = models[str(index)], found[str(index)]
    np.testing.assert_allclose(predicted, model.predict(x, verbose=0), rtol=1e-6, atol=1e-6)
    assert constant == pytest.approx(lipschitz_constant(model), rel=1e-6)
    assert constrained == [v.constraint is not None for v in model.trainable_variables]
