"""Shows one private training in two processes, as on two machines; each reads half of each batch.

Needs ``pip install "lipdp[jax]"``. Prints epsilon, once.
"""

import os
import socket
import subprocess
import sys

os.environ["KERAS_BACKEND"] = "jax"
os.environ["JAX_PLATFORMS"] = "cpu"  # leave these two out where there are GPUs
os.environ["JAX_CPU_COLLECTIVES_IMPLEMENTATION"] = "gloo"

import keras
import numpy as np

import lipdp


def train(address, number):
    keras.distribution.initialize(address, num_processes=2, process_id=number)
    # lipdp shares out the batches itself. Before the model: its weights lie on all devices.
    devices = keras.distribution.DataParallel(auto_shard_dataset=False)
    keras.distribution.set_distribution(devices)

    # The same program, on the same rows, in every process: what differs is refused.
    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 20)).astype("float32")
    y = (x[:, 0] + x[:, 1] > 0).astype("int64")
    model = lipdp.Sequential(
        [lipdp.layers.BoundedInput((20,), radius=8.0), lipdp.layers.SpectralDense(1)]
    )
    model.compile(
        keras.optimizers.SGD(0.3, momentum=0.9),
        lipdp.losses.TemperedBinaryCrossentropy(inverse_temperature=8.0),
        metrics=["accuracy"],
        privacy=lipdp.PrivacyBudget(epsilon=8.0, delta=1e-5),
    )
    model.fit(
        x[:2500],
        y[:2500],
        batch_size=250,
        epochs=4,
        verbose=0,
        validation_data=(x[2500:], y[2500:]),
    )
    if number == 0:  # files too are for one process: model.save("model.keras")
        accuracy = model.history.history["val_accuracy"][-1]
        print(f"two processes: epsilon {model.ledger.epsilon(1e-5):.2f}, accuracy {accuracy:.3f}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(sys.argv[1], int(sys.argv[2]))
    else:  # starts itself twice; on a cluster its scheduler does
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        both = [subprocess.Popen([sys.executable, __file__, address, n]) for n in ("0", "1")]
        sys.exit(max(one.wait() for one in both))
