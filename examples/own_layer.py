"""Shows how to add a layer of your own: state its bounds, and let the harness try to break them.

Prints the best ratios that the harness found (at most 1), and the bounds of a model with the layer.
"""

import keras

import lipdp
from lipdp.layers import BoundedInput, NonExpansiveLayer, SpectralDense


@keras.saving.register_keras_serializable(package="example")
class Centering(NonExpansiveLayer):
    """Subtracts each sample's mean: an orthogonal projection, so 1-Lipschitz with f(0) = 0."""

    def call(self, inputs):
        return inputs - keras.ops.mean(inputs, axis=-1, keepdims=True)


for quantity, ratio in lipdp.testing.check_layer(Centering(), (6,), radius=2.0).ratios.items():
    print(f"{quantity}: the search reached {ratio:.4f} of the bound")

model = lipdp.Sequential([BoundedInput((6,), radius=1.0), Centering(), SpectralDense(3)])
print(lipdp.bounds.gradient_bounds(model, lipdp.losses.MulticlassHinge(margin=0.5)))
