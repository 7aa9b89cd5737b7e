"""Transposed convolutions with a near-orthogonal kernel, shared by all ranks."""

from __future__ import annotations

from typing import Any

from keras import ops

from lipdp.layers._conv_geometry import ConvGeometry
from lipdp.layers._convolution import KernelLayer
from lipdp.layers._pooling import check_rank
from lipdp.layers._shapes import sample_shape
from lipdp.layers._windows import Windows
from lipdp.numerics import count
from lipdp.projections import BjorckProjection
from lipdp.setting import Setting


class SpectralTransposedConvolution(KernelLayer):
    """The transpose of ``conv(., P) / sqrt(kappa)``, which maps the output back to the input.

    Args:
        filters: Channels of the output.
        kernel_size: Taps, an integer or one for each axis.
        strides: Output positions for each input position, likewise.
        padding: Of the convolution that is transposed: "same" (the output is ``strides`` times as
            long) or "valid" (and longer by what the windows reach beyond).
    """

    filters = Setting[int]()
    paddings = ("same", "valid")

    def __init__(
        self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "same", **kwargs: Any
    ) -> None:
        super().__init__(kernel_size, strides, padding, BjorckProjection(), **kwargs)
        self.filters = count("filters", filters)

    def build(self, input_shape: Any) -> None:
        """Lays out the windows over the output and creates the kernel, inside its set."""
        shape = sample_shape(input_shape)
        check_rank(shape, self.rank + 1)
        sizes = self._output_sizes(shape)
        axes = zip(sizes, self.kernel_size, self.strides, strict=True)
        windows = tuple(Windows(n, k, s, padding=self.padding) for n, k, s in axes)
        self._geometry = ConvGeometry(windows)
        self._add_kernel((*self.kernel_size, self.filters, shape[-1]))

    def call(self, inputs: Any) -> Any:
        """``inputs`` of shape (n, ..., C) to (n, ..., filters)."""
        return ops.conv_transpose(
            inputs,
            self.scaled_kernel(),
            strides=self.strides,
            padding=self.padding,
            data_format="channels_last",
        )

    def compute_output_shape(self, input_shape: Any) -> tuple[int | None, ...]:
        """Strides times as many positions, and more for "valid"."""
        return (input_shape[0], *self._output_sizes(sample_shape(input_shape)), self.filters)

    def _output_sizes(self, shape: tuple[int, ...]) -> list[int]:
        axes = zip(shape, self.kernel_size, self.strides, strict=False)
        longer = self.padding == "valid"
        return [n * s + (max(k - s, 0) if longer else 0) for n, k, s in axes]

    def get_config(self) -> dict[str, Any]:
        """Constructor arguments."""
        return {**super().get_config(), "filters": self.filters}
