"""The composition root: configuration to result."""

from lipdp.run.bounds import bounds_table
from lipdp.run.evaluate import predict
from lipdp.run.outcome import Listener, TrainOutcome
from lipdp.run.train import resume, train
from lipdp.run.unfinished import is_unfinished

__all__ = [
    "Listener",
    "TrainOutcome",
    "bounds_table",
    "is_unfinished",
    "predict",
    "resume",
    "train",
]
