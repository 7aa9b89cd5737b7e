"""Shows how to fine-tune privately: a plain Keras backbone, frozen, under a Lipschitz head.

The backbone may be any Keras model that saw public data alone. The head trains on private rows in
two stages, and the ledger counts both. Prints the bounds, then epsilon and accuracy of each stage.
"""

import keras
import numpy as np

import lipdp

rng = np.random.default_rng(0)


def draw(rows):
    x = rng.normal(size=(rows, 20))
    return x, (x[:, 0] * x[:, 1] > 0).astype("int64")


# Public rows, plain Keras: no bounds, no noise.
public = draw(10000)
backbone = keras.Sequential(
    [keras.Input((20,)), keras.layers.Dense(64, "relu"), keras.layers.Dense(32, "relu")]
)
plain = keras.Sequential([backbone, keras.layers.Dense(1)])
plain.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
plain.fit(*public, batch_size=256, epochs=8, verbose=0)

# Private rows: the backbone is frozen, its features are clipped, and the head has a bound.
backbone.trainable = False
model = lipdp.Sequential(
    [
        lipdp.layers.BoundedInput((20,), radius=8.0),
        backbone,
        lipdp.layers.ActivationClip(radius=5.0),
        lipdp.layers.FrobeniusDense(1),
    ]
)
model.declare_public_history()  # the privacy statement repeats it
x, y = draw(3000)
held_out = draw(1000)
for stage, epsilon, epochs in ((1, 2.0, 2), (2, 4.0, 6)):
    model.compile(
        keras.optimizers.SGD(0.5),
        lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=4.0),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(epsilon=epsilon, delta=1e-5),
    )
    model.fit(x, y, batch_size=300, epochs=epochs, verbose=0)
    if stage == 1:
        print(model.gradient_bounds())
    accuracy = model.evaluate(*held_out, verbose=0, return_dict=True)["accuracy"]
    spent = model.ledger.epsilon(1e-5)
    print(f"stage {stage}: {model.ledger.steps} steps, epsilon {spent:.2f}, {accuracy:.3f} right")
