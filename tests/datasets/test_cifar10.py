import io
import pickle

import numpy as np
import pytest

from lipdp.datasets.cifar10 import CIFAR10, read_pickle
from lipdp.errors import InvalidData


def load(place):
    return CIFAR10.read(CIFAR10.find(place))


def test_every_form_of_keras_gives_the_same(made, tmp_path):
    made.write_cifar_folder(tmp_path / "new/cifar-10-batches-py-target/cifar-10-batches-py")
    made.write_cifar_folder(tmp_path / "old/cifar-10-batches-py")
    for name in ("a/cifar-10-python.tar.gz", "b/cifar-10-batches-py-target_archive"):
        (tmp_path / name).parent.mkdir()
        made.write_cifar_archive(tmp_path / name)
    places = [tmp_path / n for n in ("new", "old", "old/cifar-10-batches-py", "a", "b")]
    first, *others = [load(place) for place in places]
    assert first.x.shape == (100, 32, 32, 3) and first.x_test.shape == (20, 32, 32, 3)
    assert first.y.tolist() == [i % 10 for i in range(20)] * 5
    for other in others:
        np.testing.assert_array_equal(other.x, first.x)
        np.testing.assert_array_equal(other.y_test, first.y_test)
    # A stored row is all of red, then green, then blue.
    stored = made.pixels(20, 3072, seed=5)
    np.testing.assert_array_equal(first.x_test[3, :, :, 1].ravel(), stored[3, 1024:2048])


def test_a_folder_of_images_and_its_zip(made, tmp_path):
    made.write_images(tmp_path / "own", made.CIFAR_CLASSES)
    made.zip_folder(tmp_path / "own", tmp_path / "cifar10-jpeg.zip")
    folder, zipped = load(tmp_path / "own"), load(tmp_path)
    assert folder.x.shape == zipped.x.shape == (30, 32, 32, 3)
    np.testing.assert_array_equal(folder.x[:], zipped.x[:])
    assert folder.y[:4].tolist() == ["airplane"] * 3 + ["automobile"]
    np.testing.assert_array_equal(folder.x[np.array([4])][0], made.pixels(3, 32, 32, 3, seed=1)[1])


def test_it_is_nowhere(tmp_path):
    assert CIFAR10.find(tmp_path) is None


class Bomb:
    def __reduce__(self):
        return eval, ("1 / 0",)


def test_a_pickle_cannot_run_code(made):
    for bad in (Bomb(), {b"data": Bomb()}, np.array([Bomb()], dtype=object), len, io.BytesIO):
        with pytest.raises(pickle.UnpicklingError, match="which is no array"):
            read_pickle(pickle.dumps(bad))
    kept = {b"data": np.arange(6).reshape(2, 3), b"labels": [1, 2], b"x": (None, 1.5)}
    for content in (made.as_python2(kept), pickle.dumps(kept, 3)):
        found = read_pickle(content)
        np.testing.assert_array_equal(found[b"data"], kept[b"data"])
        assert found[b"x"] == kept[b"x"]


def test_damaged_batches(made, tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    made.write_cifar_folder(folder)
    good = (folder / "data_batch_2").read_bytes()
    wrong = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1]}
    floats = {b"data": np.zeros((1, 3072)), b"labels": [1]}
    lists = {b"data": np.zeros((2, 3072), np.uint8), b"labels": [1, [2]]}
    names = {b"data": np.zeros((1, 3072), np.uint8), b"labels": [b"cat"]}
    cases = [good[:-500], good[:10], b"", b"\x80\x02garbage", pickle.dumps(Bomb())]
    cases += [pickle.dumps(value) for value in ([1], {b"data": 1}, wrong, floats, lists, names)]
    for content in cases:
        (folder / "data_batch_2").write_bytes(content)
        with pytest.raises(InvalidData, match=r"damaged.*data_batch_2"):
            load(tmp_path)
    (folder / "data_batch_2").unlink()
    with pytest.raises(InvalidData, match="damaged"):
        load(tmp_path)


def test_an_archive_of_which_a_pixel_changed(made, tmp_path):
    path = tmp_path / "cifar-10-python.tar.gz"
    made.write_cifar_archive(path)
    content = bytearray(path.read_bytes())
    # The checksum at the end: it is compared only when everything was read.
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(InvalidData, match="damaged"):
        load(tmp_path)


@pytest.mark.parametrize("part", [0.0, 0.3, 0.9, 0.999])
def test_an_archive_cut_off(made, tmp_path, part):
    path = tmp_path / "cifar-10-python.tar.gz"
    made.write_cifar_archive(path)
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InvalidData, match="damaged"):
        load(tmp_path)
