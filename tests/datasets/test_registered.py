"""Every registered set: facts, files in each place, and the order of places."""

import tomllib

import numpy as np
import pytest

from lipdp.datasets import DATASETS, ArrayDataset, TableDataset
from lipdp.datasets.locate import keras_cache, locate, search_places
from lipdp.errors import InvalidData, UnknownName

ADBENCH = {
    "adbench-aloi": ("1_ALOI", 27),
    "adbench-campaign": ("5_campaign", 62),
    "adbench-celeba": ("8_celeba", 39),
    "adbench-donors": ("11_donors", 10),
    "adbench-magic": ("22_magic.gamma", 10),
    "adbench-shuttle": ("32_shuttle", 9),
    "adbench-skin": ("33_skin", 3),
    "adbench-yeast": ("47_yeast", 8),
}


@pytest.fixture(autouse=True)
def no_cache(monkeypatch, tmp_path_factory):
    """A cache of Keras of its own, and no environment."""
    monkeypatch.setenv("KERAS_HOME", str(tmp_path_factory.mktemp("keras")))
    monkeypatch.delenv("LIPDP_DATA", raising=False)
    return keras_cache()


def test_names():
    assert set(DATASETS.names()) == {"adult", "mnist", "fashion-mnist", "cifar10", *ADBENCH}
    assert DATASETS["fashion_mnist"] is DATASETS["fashion-mnist"]
    assert DATASETS["adbench_magic"].name == "adbench-magic"
    with pytest.raises(UnknownName, match="mnist"):
        DATASETS["emnist"]


@pytest.mark.parametrize("name", DATASETS.names())
def test_every_set_says_what_it_is(name):
    dataset = DATASETS[name]
    for fact in (dataset.title, dataset.licence, dataset.source, dataset.place):
        assert len(fact) > 2
    assert len(tomllib.loads(dataset.schema())["classes"]) >= 2
    if isinstance(dataset, TableDataset):
        assert dataset.place == "in the package"
    else:
        assert isinstance(dataset, ArrayDataset)
        assert all(d.url.startswith("https://") for d in dataset.downloads)


@pytest.mark.parametrize("name", ADBENCH)
def test_adbench_by_its_files(name, tmp_path):
    file, features = ADBENCH[name]
    assert tomllib.loads(DATASETS[name].schema())["features"] == features
    (tmp_path / "adbench").mkdir()
    np.savez(tmp_path / "adbench" / f"{file}.npz", X=np.zeros((4, features)), y=[0, 1, 0, 1])
    for place in (tmp_path, tmp_path / "adbench"):
        found = DATASETS[name].read(locate(DATASETS[name], str(place)))
        assert found.x.shape == (4, features) and len(found.y) == 4
    assert DATASETS[name].downloads[0].url.endswith(f"/{file}.npz")


def test_fashion_mnist_in_each_place(made, tmp_path, no_cache):
    dataset = DATASETS["fashion-mnist"]
    for place in ("fashion-mnist", "plain"):
        made.write_fashion(tmp_path / place)
    for place in (tmp_path, tmp_path / "plain"):
        found = dataset.read(locate(dataset, str(place)))
        assert found.x.shape == (100, 28, 28) and found.y_test.shape == (30,)
    # Where the Debian package puts them.
    assert "/usr/share/datasets" in map(str, search_places(dataset, None))
    (tmp_path / "plain" / "t10k-labels-idx1-ubyte.gz").unlink()
    assert dataset.find(tmp_path / "plain") is None


def test_the_order_of_places(made, tmp_path, no_cache, monkeypatch):
    dataset = DATASETS["mnist"]
    assert locate(dataset, None) is None
    rows = {"given": 10, "variable": 20}
    for name, count in rows.items():
        (tmp_path / name).mkdir()
        made.write_mnist(tmp_path / name, count)
    no_cache.mkdir()
    made.write_mnist(no_cache, 30)
    assert len(dataset.read(locate(dataset, None)).x) == 30
    monkeypatch.setenv("LIPDP_DATA", str(tmp_path / "variable"))
    assert len(dataset.read(locate(dataset, None)).x) == 20
    assert len(dataset.read(locate(dataset, str(tmp_path / "given"))).x) == 10
    (tmp_path / "given" / "mnist.npz").unlink()
    assert len(dataset.read(locate(dataset, str(tmp_path / "given"))).x) == 20


def test_a_folder_that_is_none(tmp_path, monkeypatch):
    with pytest.raises(InvalidData, match=r"data\.dir must be a folder"):
        locate(DATASETS["mnist"], str(tmp_path / "none"))
    monkeypatch.setenv("LIPDP_DATA", str(tmp_path / "none"))
    with pytest.raises(InvalidData, match="LIPDP_DATA must be a folder"):
        locate(DATASETS["mnist"], None)
