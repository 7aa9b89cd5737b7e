"""Shows the whole way in one page: train privately through Keras' own fit, then certify.

Prints Keras' progress, the privacy statement (the guarantee in words, every assumption named), and
the share of held-out rows that stay right under any change shorter than 0.2.
"""

import keras
import numpy as np

import lipdp

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 20))
y = (x[:, 0] + x[:, 1] > 0).astype("int64")

model = lipdp.Sequential(
    [
        lipdp.layers.BoundedInput((20,), radius=5.0),
        lipdp.layers.SpectralDense(64),
        lipdp.layers.MaxMin(),
        lipdp.layers.SpectralDense(2),
    ]
)
model.compile(
    optimizer=keras.optimizers.SGD(0.5, momentum=0.9),
    loss=lipdp.losses.TemperedCrossentropy(inverse_temperature=16.0),
    metrics=["accuracy"],
    privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
)
model.fit(x[:2500], y[:2500], batch_size=500, epochs=5, validation_data=(x[2500:], y[2500:]))
print(model.privacy_statement())

certificates = lipdp.certify(model, x[2500:], y[2500:])
accuracy = lipdp.certificates.certified_accuracy(certificates.radii, 0.2)
print(f"certified accuracy at L2 radius 0.2: {accuracy:.3f}")
