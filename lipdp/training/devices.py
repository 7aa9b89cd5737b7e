"""Ways of training on several devices: what is known to sum each row once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras

from lipdp.errors import UnsafeSetting

#: Strategies of TensorFlow that run a step once.
_SINGLE = ("_DefaultDistributionStrategy", "OneDeviceStrategy")
_MIRRORED = "MirroredStrategy"


@dataclass(frozen=True)
class Devices:
    """How the rows of a batch are spread.

    Attributes:
        replicas: Devices that each run the step on a part of the rows, which it sees alone.
        parts: Equal parts that the rows are cut into, one a device.
        in_host_memory: Whether no accelerator holds the weights.
        processes: Processes that each run ``fit``, with as many of the parts each.
        process: The number of this one, from 0.
    """

    replicas: int = 1
    parts: int = 1
    in_host_memory: bool = False
    processes: int = 1
    process: int = 0


def devices_of(model: keras.Model) -> Devices:
    """The devices that ``fit`` is going to use.

    Under ``keras.distribution.DataParallel`` a step sees the whole batch, so there is one replica,
    of however many processes.

    Guarantees:
        * Every way of distribution that is not known to sum each row once is refused, before
          anything is recorded or trained.

    Raises:
        UnsafeSetting: If the way of distribution is not known, or something in the model or its
            optimizer does not work with it.
    """
    # Not the strategy that the model was made with alone: fit takes that of its scope as well.
    strategy = getattr(model, "distribute_strategy", None)
    if strategy is not None and type(strategy).__name__ not in _SINGLE:
        return _mirrored(model, strategy)
    distribution = keras.distribution.distribution()
    if distribution is not None:
        return _data_parallel(distribution)
    return Devices(in_host_memory=all(map(is_in_host_memory, model.trainable_variables)))


def is_in_host_memory(variable: Any) -> bool:
    """Whether a variable lies where the processor computes."""
    return "cpu" in str(getattr(variable.value, "device", "")).lower()


def _data_parallel(distribution: Any) -> Devices:
    if type(distribution) is not keras.distribution.DataParallel:
        raise _unknown(distribution)
    parts = int(distribution.device_mesh.shape[0])
    if not getattr(distribution, "_is_multi_process", True):
        return Devices(parts=parts)
    processes = getattr(distribution, "num_processes", None)
    if processes is None:
        raise UnsafeSetting(
            "This version of Keras does not say which of several processes this one is",
            received=keras.version(),
            fix="Use Keras 3.15 or newer, or one process",
        )
    if getattr(distribution, "auto_shard_dataset", True):
        raise UnsafeSetting(
            "Keras would share out batches of which each process reads its own part already",
            received="auto_shard_dataset=True",
            fix="Use DataParallel(auto_shard_dataset=False)",
        )
    if parts % processes or parts != distribution.num_model_replicas:
        raise UnsafeSetting(
            "The devices cannot be shared evenly among the processes",
            received=f"a mesh of shape {distribution.device_mesh.shape}, {processes} processes",
            fix="Make DataParallel of all devices, as many of each process",
        )
    return Devices(parts=parts, processes=processes, process=distribution.data_shard_id)


def _mirrored(model: keras.Model, strategy: Any) -> Devices:
    if type(strategy).__name__ != _MIRRORED:
        raise _unknown(strategy)
    _check_scope(model, strategy)
    count = int(strategy.num_replicas_in_sync)
    if count > 1:
        _check_replicated(model)
    return Devices(replicas=count, parts=count)


def _check_scope(model: keras.Model, strategy: Any) -> None:
    """A variable that is not mirrored would be updated by every replica in turn."""
    for variable in (*model.variables, *model.optimizer.variables):
        if getattr(variable.value, "distribute_strategy", None) is not strategy:
            raise UnsafeSetting(
                "Model and optimizer must be made inside the scope of the MirroredStrategy",
                received=variable.path,
                fix="Make the model and its optimizer, and compile, inside strategy.scope()",
            )


def _check_replicated(model: keras.Model) -> None:
    """Refuses what each replica would do to its own share of the noisy sum, or cannot do."""
    inner = model.optimizer.inner_optimizer
    reasons = {
        "clipnorm": "Each replica would clip its share of the mean, at a multiple of clipnorm",
        "clipvalue": "Each replica would clip its share of the mean, at a multiple of clipvalue",
        "global_clipnorm": "Each replica would clip its share, at a multiple of global_clipnorm",
        "ema_overwrite_frequency": "Replicas cannot overwrite weights by averages while training",
    }
    for name, reason in reasons.items():
        if getattr(inner, name, None) is not None:
            raise UnsafeSetting(
                reason,
                received=getattr(inner, name),
                fix=f"Leave {name} out of the optimizer, or train on one device",
            )
    if model.jit_compile:
        raise UnsafeSetting(
            "One compiled step cannot span the variables of several replicas",
            received=model.jit_compile,
            fix="Compile with jit_compile=False",
        )


def _unknown(found: Any) -> UnsafeSetting:
    return UnsafeSetting(
        "This way of training on several devices is not known to sum each row once",
        received=type(found).__name__,
        fix="Use one device, MirroredStrategy (TensorFlow), or DataParallel (JAX)",
    )
