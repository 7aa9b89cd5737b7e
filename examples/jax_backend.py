"""Shows the same code on JAX: the backend is chosen before Keras is imported, and nothing else.

Needs ``pip install "lipdp[jax]"``. Prints the backend, epsilon, and the certified accuracy.
"""

import os

os.environ["KERAS_BACKEND"] = "jax"  # or "torch", or "tensorflow"

import keras
import numpy as np

import lipdp

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 20)).astype("float32")
y = (x[:, 0] + x[:, 1] > 0).astype("int64")
model = lipdp.Sequential(
    [
        lipdp.layers.BoundedInput((20,), radius=8.0),
        lipdp.layers.SpectralDense(32),
        lipdp.layers.MaxMin(),
        lipdp.layers.SpectralDense(1),
    ]
)
model.compile(
    keras.optimizers.SGD(0.3, momentum=0.9),
    lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=8.0),
    privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
)
model.fit(x[:2500], y[:2500], batch_size=250, epochs=4, verbose=0)

certificates = lipdp.certify(model, x[2500:], y[2500:])
accuracy = lipdp.certificates.certified_accuracy(certificates.radii, 0.1)
print(f"on {keras.backend.backend()}: epsilon {model.ledger.epsilon(1e-5):.2f}, {accuracy:.3f}")
