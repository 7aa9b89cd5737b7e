"""Shows a residual network: an ordinary functional Keras graph, trained privately.

Prints Keras' progress, the bounds layer by layer, and the Lipschitz constant of the whole network.
"""

import keras
import numpy as np

import lipdp
from lipdp.layers import BoundedInput, FrobeniusDense, MaxMin, SpectralDense

rng = np.random.default_rng(0)
x = rng.normal(size=(6000, 10))
y = (np.abs(x[:, 0]) > np.abs(x[:, 1])).astype("int64")


def block(t):
    """``(t + f(t)) / 2``: the average is 1-Lipschitz, where the sum would double norms."""
    return keras.layers.Average()([t, SpectralDense(64)(MaxMin()(SpectralDense(64)(t)))])


inputs = keras.Input((10,))
hidden = SpectralDense(64)(BoundedInput((10,), radius=4.0)(inputs))
for _ in range(2):
    hidden = block(hidden)
model = lipdp.Model(inputs, FrobeniusDense(1)(MaxMin()(hidden)))

model.compile(
    optimizer=keras.optimizers.Adam(0.03),
    loss=lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=8.0),
    metrics=["accuracy"],
    privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
)
model.fit(x[:5000], y[:5000], batch_size=500, epochs=6, validation_data=(x[5000:], y[5000:]))
print(model.gradient_bounds())
print(f"Lipschitz constant at the present weights: {model.lipschitz_constant():.3f}")
