"""The download path of Keras: its cache, its hashes, and an error that helps."""

import dataclasses
import hashlib
import io

import keras
import numpy as np
import pytest

from lipdp.datasets import DATASETS
from lipdp.datasets.locate import keras_cache, locate
from lipdp.errors import InvalidData
from lipdp.run.data import download


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    monkeypatch.delenv("LIPDP_DATA", raising=False)
    (tmp_path / "keras").mkdir()
    return keras_cache()


@pytest.fixture
def offline(tmp_path):
    """MNIST from a file of this computer, with its hash."""
    stream = io.BytesIO()
    x, y = np.zeros((6, 28, 28), np.uint8), np.arange(6)
    np.savez(stream, x_train=x, y_train=y, x_test=x, y_test=y)
    (tmp_path / "source.npz").write_bytes(stream.getvalue())
    sha = hashlib.sha256(stream.getvalue()).hexdigest()

    def make(sha256=sha):
        url = (tmp_path / "source.npz").as_uri()
        mnist = DATASETS["mnist"]
        file = dataclasses.replace(mnist.downloads[0], url=url, sha256=sha256)
        return dataclasses.replace(mnist, downloads=(file,))

    return make


def test_it_is_fetched_once_into_the_cache_of_keras(offline, cache, tmp_path, capsys):
    dataset = offline()
    download(dataset)
    assert locate(dataset, None) == (cache / "mnist.npz",)
    assert len(dataset.read(locate(dataset, None)).x) == 6
    (tmp_path / "source.npz").unlink()
    download(dataset)
    assert capsys.readouterr().out == ""


def test_another_file_than_the_official_one_is_refused(offline):
    with pytest.raises(InvalidData, match="hash"):
        download(offline(sha256="0" * 64))


def test_without_a_network_the_error_says_what_to_do(offline, tmp_path, cache):
    dataset = offline()
    (tmp_path / "source.npz").unlink()
    with pytest.raises(InvalidData, match="could not be downloaded") as caught:
        download(dataset)
    for words in ("--data-dir", "LIPDP_DATA", "source.npz", "'mnist'"):
        assert words in str(caught.value)
    assert locate(dataset, None) is None


@pytest.mark.parametrize("name", ["mnist", "fashion-mnist", "cifar10"])
def test_files_and_hashes_are_those_of_keras(name, monkeypatch, cache):
    """Keras' own loaders ask for the same files with the same hashes."""
    asked = {}

    class Asked(Exception):
        pass

    def ours(fname, origin, **options):
        asked["ours"] = (fname, origin, options.get("file_hash"), bool(options.get("extract")))
        raise Asked

    def theirs(fname=None, origin=None, file_hash=None, extract=False, **options):
        asked.setdefault("keras", set()).add((fname, origin, file_hash, extract))
        return "nowhere"

    monkeypatch.setattr(keras.utils, "get_file", ours)
    module = getattr(keras.datasets, name.replace("-", "_"))
    monkeypatch.setitem(module.load_data.__globals__, "get_file", theirs)
    with pytest.raises(InvalidData):
        download(DATASETS[name])
    with pytest.raises(OSError):
        module.load_data()
    assert asked["ours"] in asked["keras"]
    files = {(d.name, d.url, d.sha256, d.extract) for d in DATASETS[name].downloads}
    assert files == asked["keras"]
