"""Folders of images, one folder a class, also inside a .zip file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import numpy as np

from lipdp.datasets.base import Samples
from lipdp.datasets.image_stack import ImageReader, ImageStack
from lipdp.errors import InvalidData

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
