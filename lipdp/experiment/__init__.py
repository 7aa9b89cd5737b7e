"""The composition root: configuration to result."""

from lipdp.experiment.bounds import bounds_table
from lipdp.experiment.outcome import Listener, TrainOutcome
from lipdp.experiment.predict import predict
from lipdp.experiment.train import train

__all__ = ["Listener", "TrainOutcome", "bounds_table", "predict", "train"]
