"""Shows what a certified radius means: no attack inside it changes a prediction.

Each row is moved straight towards a row of the other class, where the prediction must flip in the
end. Prints certified accuracies, that no row flips inside its radius, and how far the first flips
are from it.
"""

import keras
import numpy as np

import lipdp
from lipdp.certificates import certified_accuracy

rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 20))
y = (x[:, 0] + x[:, 1] > 0).astype("int64")
layers = lipdp.layers
model = lipdp.Sequential(
    [
        layers.BoundedInput((20,), radius=8.0),
        layers.SpectralDense(32),
        layers.MaxMin(),
        layers.SpectralDense(1),
    ]
)
model.compile(
    keras.optimizers.SGD(0.3, momentum=0.9),
    lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=8.0),
    privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
)
model.fit(x[:2500], y[:2500], batch_size=250, epochs=6, verbose=0)

x, y = x[2500:], y[2500:]
found = lipdp.certify(model, x)  # of the predicted class; certify(model, x, y) of the true one
right = lipdp.certify(model, x, y)
for radius in (0.0, 0.1, 0.5):
    print(f"certified accuracy at radius {radius}: {certified_accuracy(right.radii, radius):.3f}")

# For each row, the nearest one that is predicted otherwise.
distances = np.linalg.norm(x[:, None] - x[None], axis=-1)
distances[found.predictions[:, None] == found.predictions[None]] = np.inf
target = x[distances.argmin(axis=1)]
direction = (target - x) / np.linalg.norm(target - x, axis=1, keepdims=True)


def flipped(lengths):
    moved = x + lengths[:, None] * direction
    return (model.predict(moved, verbose=0)[:, 0] > 0) != (found.predictions == 1)


print("flips inside the radius:", int(flipped(0.999 * found.radii).sum()), "of", len(x))
inside, outside = found.radii, distances.min(axis=1)
for _ in range(20):  # bisection: where does each row flip?
    middle = (inside + outside) / 2
    flips = flipped(middle)
    inside, outside = np.where(flips, inside, middle), np.where(flips, middle, outside)
print(f"first flips at {np.min(outside / found.radii):.2f} times the radius or more")
