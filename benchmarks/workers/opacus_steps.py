"""Steps of PyTorch models: plain, and private by Opacus with hooks or ghost clipping.

Run by benchmarks.race: python -m benchmarks.workers.opacus_steps CELL, the cell as JSON with
``net`` (mlp or cnn), ``kind`` (plain, hooks or ghost), ``batch`` and ``steps``.

Batches are drawn at random by a ``DataLoader`` that takes a batch from the tensors at once, not row
by row, for all kinds alike: otherwise collating would be most of a step. They have one size; Opacus
itself would draw each row independently, with sizes that differ but the same mean.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from opacus import PrivacyEngine
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

from benchmarks.workers.turns import serve

CLASSES = 10
SHAPES = {"mlp": (784,), "cnn": (1, 28, 28)}


def make_net(net: str) -> nn.Module:
    """ReLU and biases."""
    if net == "mlp":
        widths = (784, 256, 256)
        pairs = [(nn.Linear(a, b), nn.ReLU()) for a, b in pairwise(widths)]
        return nn.Sequential(*(layer for pair in pairs for layer in pair), nn.Linear(256, CLASSES))
    blocks = [
        (nn.Conv2d(a, b, 3, padding="same"), nn.ReLU(), nn.MaxPool2d(2))
        for a, b in ((1, 32), (32, 64))
    ]
    layers = [layer for block in blocks for layer in block]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(7 * 7 * 64, CLASSES))


def make_loader(cell: dict[str, Any]) -> DataLoader:
    """As many batches as a turn has steps, of rows on the host."""
    rng = np.random.default_rng(0)
    rows = cell["batch"] * cell["steps"]
    x = torch.from_numpy(rng.standard_normal((rows, *SHAPES[cell["net"]]), dtype="float32"))
    y = torch.from_numpy(rng.integers(0, CLASSES, rows))
    data = TensorDataset(x, y)
    batches = BatchSampler(RandomSampler(data), cell["batch"], drop_last=True)
    return DataLoader(data, batch_size=None, sampler=batches)


def make_turn(cell: dict[str, Any]) -> Callable[[], None]:
    """The function that trains for an epoch."""
    model, loader, criterion = make_net(cell["net"]), make_loader(cell), nn.CrossEntropyLoss()
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if cell["kind"] != "plain":
        model, optimizer, *changed = PrivacyEngine().make_private(
            module=model,
            optimizer=optimizer,
            criterion=criterion,
            data_loader=loader,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=False,
            grad_sample_mode=cell["kind"],
        )
        criterion = changed[0] if cell["kind"] == "ghost" else criterion

    def turn() -> None:
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            optimizer.step()

    return turn


if __name__ == "__main__":
    serve(make_turn)
