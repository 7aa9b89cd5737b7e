"""What a run says about held-out rows of which nothing can be proved."""

from types import SimpleNamespace

import keras
import numpy as np
import pandas as pd
import pytest

import lipdp
import lipdp.layers as ll
from lipdp.certificates import UncertifiedWarning
from lipdp.run.evaluate import certificates_of, certified_at, predict
from lipdp.training import save_for_release
from tests.small_table import write_table

ROWS = SimpleNamespace(y_test=np.arange(6) % 2, encoding=SimpleNamespace(unit="rows"))


def model_of(*layers):
    return lipdp.Sequential([*layers, keras.layers.Dense(1)])


@pytest.mark.filterwarnings("error")
def test_nothing_is_listed_where_nothing_is_proved():
    model = model_of(keras.Input((2,)), ll.BoundedEmbedding(4, 3), keras.layers.Flatten())
    found = certificates_of(model, np.ones((6, 2), "float32"), ROWS.y_test)
    assert certified_at(model, found, ROWS, [0.1]) == []
    assert "6 of 6 rows" in found.reason and "BoundedEmbedding" in found.reason


@pytest.mark.filterwarnings("error")
def test_the_auroc_needs_an_error_of_all_rows():
    """Each row has a ball of its own; pairs of rows are compared in none."""
    x = np.random.default_rng(0).normal(size=(6, 2)).astype("float32")
    known = {}
    for name, front in (("free", keras.Input((2,))), ("bounded", ll.BoundedInput((2,), 9.0))):
        model = model_of(front)
        found = certificates_of(model, x, ROWS.y_test)
        (known[name],) = certified_at(model, found, ROWS, [0.0])
    assert known["free"].auroc is None and known["bounded"].auroc is not None
    assert known["free"].accuracy > 0.0


def test_a_prediction_without_a_proof_has_no_radius(tmp_path):
    write_table(tmp_path, 20)
    from lipdp.preprocessing import load_encoding

    size = load_encoding(tmp_path / "t.toml").num_features
    (tmp_path / "schema.toml").write_text((tmp_path / "t.toml").read_text())
    model = model_of(ll.BoundedInput((size,), 1.0))
    save_for_release(model, tmp_path / "model.keras")
    known = predict(tmp_path, tmp_path / "t.csv")
    assert known["certified_radius"].notna().all()
    model.layers[-1].kernel.assign(np.full((size, 1), 1e30))
    save_for_release(model, tmp_path / "model.keras")
    with pytest.warns(UncertifiedWarning, match="overflow"):
        missing = predict(tmp_path, tmp_path / "t.csv")
    assert missing["certified_radius"].isna().all() and len(missing) == len(known)
    assert isinstance(missing, pd.DataFrame)
