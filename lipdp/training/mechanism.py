"""What is done to the summed gradient of one step, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A grid that sum and noise of one variable lie on; see ``lipdp.privacy.secure_noise``.

    Attributes:
        width: Distance of grid points, a power of two.
        limit: Bound that each entry of the sum is clamped to.
    """

    width: float
    limit: float


@dataclass(frozen=True)
class Mechanism:
    """The Gaussian mechanism on the trainable variables, in order.

    Attributes:
        stddevs: Standard deviation of the noise on each variable's summed gradient, with the
            adaptive thresholds at their minimum.
        divisor: The expected number of rows in a batch, a public constant.
        micro_batches: Parts that a batch is processed in.
        replicas: Devices that each compute a part of the sum.
        from_host: Whether the noise is drawn outside the compiled step.
        grids: One for each variable with noise if noise is drawn on grids, else empty.
        clips: For each variable the adaptive clips (by number) whose thresholds scale its noise.
    """

    stddevs: tuple[float, ...]
    divisor: int
    micro_batches: int = 1
    replicas: int = 1
    from_host: bool = False
    grids: tuple[Grid | None, ...] = ()
    clips: tuple[tuple[int, ...], ...] = ()

    @property
    def loss_divisor(self) -> float:
        """What the logged loss of a part is divided by, so that the mean over parts is right."""
        return self.divisor / self.micro_batches
