"""Folders of images, one folder a class, also inside a .zip file, decoded as they are asked for."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from PIL import Image

from lipdp.datasets.base import Samples, damaged
from lipdp.errors import InvalidData

_MODES = {1: "L", 3: "RGB", 4: "RGBA"}


class ImageStack:
    """Images of one size.

    Indexed by positions or a slice it decodes these images into a new array of bytes.

    Args:
        path: A folder or .zip file.
        names: The images inside it.
        shape: Height, width and channels (1 for grey, 3 for colours, 4 with transparency).

    Raises:
        InvalidData: If there is no such number of channels; when it is read, if an image is
            damaged or has another size.
    """

    ndim = 4
    dtype = np.dtype(np.uint8)

    def __init__(self, path: Path, names: Sequence[PurePosixPath], shape: Sequence[int]) -> None:
        if shape[-1] not in _MODES:
            raise InvalidData(
                "Image files have 1, 3 or 4 channels",
                received=tuple(shape),
                fix="Correct the shape of the schema",
            )
        self._path = path
        self.names = tuple(names)
        self.shape = (len(self.names), *shape)

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: Any) -> np.ndarray:
        rows = np.atleast_1d(np.arange(len(self))[index])
        out = np.empty((len(rows), *self.shape[1:]), dtype=np.uint8)
        with ImageReader(self._path) as reader:
            for place, row in enumerate(rows):
                out[place] = self._pixels(reader.open(self.names[row]), self.names[row])
        return out

    def _pixels(self, image: Image.Image, name: PurePosixPath) -> np.ndarray:
        height, width, channels = self.shape[1:]
        if image.size != (width, height):
            raise InvalidData(
                f"{self._path / name} is {image.height} pixels high and {image.width} wide; "
                f"the schema says {height} and {width}",
                received=image.size,
                fix="Resize the images to one size, or correct the shape of the schema",
            )
        if image.mode.startswith(("I", "F")):
            # Converting would cut off what is above 255, unsaid.
            raise damaged(
                self._path / name, "its pixels have more than 8 bits", "image of 8 bits a channel"
            )
        try:
            plain = image.convert(_MODES[channels])
        except ValueError as error:
            raise damaged(self._path / name, error, "image of grey or RGB colours") from None
        return np.asarray(plain).reshape(height, width, channels)


class ImageReader:
    """Opens images of a folder or of a .zip file.

    Args:
        path: The folder or file.

    Raises:
        InvalidData: If it is neither, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._archive = None if path.is_dir() else _opened(path)

    def __enter__(self) -> ImageReader:
        return self

    def __exit__(self, *_: object) -> None:
        if self._archive is not None:
            self._archive.close()

    def files(self) -> list[PurePosixPath]:
        """Every file, by its path inside."""
        if self._archive is not None:
            return list(self._members)
        inside = (path for path in self._path.rglob("*") if path.is_file())
        return [PurePosixPath(path.relative_to(self._path)) for path in inside]

    def open(self, name: PurePosixPath) -> Image.Image:
        """Decodes one image.

        Raises:
            InvalidData: If it is damaged.
        """
        try:
            image = Image.open(io.BytesIO(self._content(name)))
            image.load()
        except Exception as error:
            # A damaged image or archive can fail anywhere, with almost any error.
            raise damaged(self._path / name, error, "image") from None
        return image

    def _content(self, name: PurePosixPath) -> bytes:
        if self._archive is None:
            return (self._path / name).read_bytes()
        try:
            return self._archive.read(str(name))
        except KeyError:
            return self._archive.read(self._members.get(name, str(name)))

    @cached_property
    def _members(self) -> dict[PurePosixPath, str]:
        """How the archive spells its files: the path of ``./cat/1.png`` is ``cat/1.png``."""
        names = [] if self._archive is None else self._archive.namelist()
        return {PurePosixPath(name): name for name in names if not name.endswith("/")}


def _opened(path: Path) -> zipfile.ZipFile:
    try:
        return zipfile.ZipFile(path)
    except Exception as error:
        # A damaged list of files can fail anywhere, with almost any error.
        raise damaged(path, error, ".zip file of images") from None


_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp"})


@dataclass(frozen=True)
class ImageFiles:
    """The images of a folder or a .zip file, by their names inside it, in order.

    Attributes:
        path: The folder or .zip file.
        names: Such as ``train/cat/1.png``.
    """

    path: Path
    names: tuple[PurePosixPath, ...]

    @property
    def is_split(self) -> bool:
        """Whether the outermost folders are train and test."""
        return {name.parts[0] for name in self.names} == {"train", "test"}

    def below(self, folder: str) -> tuple[PurePosixPath, ...]:
        """The images below one of the outermost folders."""
        return tuple(name for name in self.names if name.parts[0] == folder)

    def classes(self) -> list[str]:
        """The names of the folders that images lie in."""
        depth = 1 if self.is_split else 0
        return sorted(set(_labels(self.path, self.names, depth).tolist()))

    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of the first image."""
        with ImageReader(self.path) as reader:
            image = reader.open(self.names[0])
        return image.height, image.width, 1 if image.mode in ("1", "L") else 3


def image_files(path: Path) -> ImageFiles:
    """Lists the images of a folder or .zip file; hidden files and folders are left out.

    Raises:
        InvalidData: If it cannot be read, or holds no image.
    """
    with ImageReader(path) as reader:
        found = reader.files()
    names = sorted(n for n in found if n.suffix.lower() in _SUFFIXES and not _hidden(n))
    if not names:
        raise InvalidData(
            "There are no images here",
            received=str(path),
            fix=f"Give a folder <class>/<image>, with one of {', '.join(sorted(_SUFFIXES))}",
        )
    return ImageFiles(path, tuple(names))


def read_images(files: ImageFiles, shape: Sequence[int], *, labelled: bool = True) -> Samples:
    """The images, decoded when they are read; the label of each is the name of its folder.

    Args:
        files: From ``image_files``; with folders ``train`` and ``test``, these are the split.
        shape: Height, width and channels (1 for grey, 3 for colours, 4 with transparency).
        labelled: Whether each image must lie in the folder of its class.

    Raises:
        InvalidData: If an image lies in no folder of a class.
    """
    if not labelled:
        return Samples(ImageStack(files.path, files.names, shape), None)
    if not files.is_split:
        return Samples(*_part(files, files.names, shape, 0))
    train, test = (_part(files, files.below(side), shape, 1) for side in ("train", "test"))
    return Samples(*train, *test)


def _part(
    files: ImageFiles, names: tuple[PurePosixPath, ...], shape: Sequence[int], depth: int
) -> tuple[ImageStack, np.ndarray]:
    return ImageStack(files.path, names, shape), _labels(files.path, names, depth)


def _labels(path: Path, names: Sequence[PurePosixPath], depth: int) -> np.ndarray:
    for name in names:
        if len(name.parts) != depth + 2:
            raise InvalidData(
                "An image does not lie in the folder of its class",
                received=str(path / name),
                fix="Use <class>/<image>, or train/<class>/<image> and test/<class>/<image>",
            )
    return np.array([name.parts[depth] for name in names])


def _hidden(name: PurePosixPath) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.parts)
