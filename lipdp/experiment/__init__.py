"""The composition root: configuration to result."""

from lipdp.experiment.bounds import bounds_table
from lipdp.experiment.outcome import Listener, TrainOutcome
from lipdp.experiment.predict import predict
from lipdp.experiment.train import resume, train
from lipdp.experiment.unfinished import is_unfinished

__all__ = [
    "Listener",
    "TrainOutcome",
    "bounds_table",
    "is_unfinished",
    "predict",
    "resume",
    "train",
]
