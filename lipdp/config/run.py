"""What a run can be told: the sections of a configuration file."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lipdp.config.section import Document, Section
from lipdp.config.sweep import SweepSection

# Strict: neither a boolean nor a text in quotes is a number.
Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]
Fraction = Annotated[Number, Field(gt=0, lt=1)]
Whole = Annotated[int, Field(strict=True, ge=0)]
Count = Annotated[int, Field(strict=True, ge=1)]

#: Sections that name a registered thing.
COMPONENTS = ("features", "model", "loss", "optimizer")


class Component(BaseModel):
    """A registered thing by name; further keys are its options, checked against its signature."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str

    @property
    def options(self) -> dict[str, Any]:
        """All keys but the name."""
        return dict(self.model_extra or {})


class DataSection(Section):
    """Which rows are trained on: a registered data set, or a file or folder with its schema.

    ``dir`` is a folder that holds registered sets; ``labels`` an .npy file beside that of ``path``.
    ``test_fraction`` counts where the set does not say itself which rows test.

    With ``group``, a column that names the user of each row, the unit of privacy is a user, of whom
    at most ``max_examples_per_user`` rows train; batches and epochs then count users. With
    ``validation_fraction``, this part of the training rows is held out instead of the test rows,
    which stay unread: to choose settings by.
    """

    name: str | None = None
    path: str | None = None
    dir: str | None = None
    schema_path: str | None = None
    labels: str | None = None
    target: str | None = None
    test_fraction: Fraction = 0.2
    split_seed: Whole = 0
    limit_rows: Count | None = None
    validation_fraction: Fraction | None = None
    group: str | None = None
    max_examples_per_user: Count | None = None

    @model_validator(mode="after")
    def _users(self) -> DataSection:
        if (self.group is None) != (self.max_examples_per_user is None):
            raise ValueError("give data.group and data.max_examples_per_user together")
        return self

    @model_validator(mode="after")
    def _one_source(self) -> DataSection:
        if (self.name is None) == (self.path is None):
            raise ValueError(
                "give either data.name (a registered set) or data.path (a file), not both; "
                "the override data.name= (nothing after it) removes the name"
            )
        return self


class TrainingSection(Section):
    """How long, how fast, in which precision, and by which method.

    The method is "clipless"; "dp-sgd", clipping by tensorflow-privacy without constraints, for
    comparison; or "none", the clipless training without noise, whatever the budget says.
    ``micro_batch_size`` bounds the rows that are in memory at a time; where it is not given,
    private clipless training keeps a layer's output within 32 MiB (JAX: 8) in host memory.
    ``tensorboard`` is a folder for TensorBoard files of epsilon and held-out metrics, outside the
    folder of the run; "dp-sgd" writes none and refuses it.
    """

    batch_size: Count = 2048
    micro_batch_size: Count | None = None
    epochs: Count = 16
    learning_rate_decay: Literal["constant", "cosine", "linear"] = "constant"
    dtype: Literal["float32", "float64"] = "float64"
    initial_seed: Whole = 0
    method: Literal["clipless", "dp-sgd", "none"] = "clipless"
    tensorboard: str | None = None


class PrivacySection(Section):
    """The budget; see ``lipdp.PrivacyBudget``."""

    epsilon: Positive | None = None
    delta: Fraction | None = None
    noise_multiplier: NotNegative | None = None
    accountant: str = "pld"
    allocation: str = "optimal"
    adjacency: str = "add-remove"
    sampling: str = "poisson"
    noise_schedule: list[tuple[Whole, Positive]] = []
    secure_noise: bool = False
    seed: Whole | None = None

    @model_validator(mode="after")
    def _has_budget(self) -> PrivacySection:
        if self.epsilon is None and self.noise_multiplier is None:
            raise ValueError("give privacy.epsilon or privacy.noise_multiplier")
        return self


class PreprocessSection(Section):
    """Private statistics of the training rows that become the first layers of the model.

    ``share`` is the part of epsilon that they may cost; ``noise_multiplier`` sets their noise
    instead. Mapped rows are divided by ``radius`` and clipped to the unit ball; by default it is
    their typical norm, from the noisy statistics. ``"private-whiten-maps"`` is for images, or
    features that are maps: it whitens over positions and over channels.
    """

    kind: Literal["none", "private-standardize", "private-whiten", "private-whiten-maps"] = "none"
    share: Fraction = 0.1
    noise_multiplier: NotNegative | None = None
    radius: Positive | None = None


class DpSgdSection(Section):
    """What the method "dp-sgd" alone has: a norm to clip to, and what may fit it better.

    Without ``clip_norm`` it is 1, or the proved bound of the clipless training if that is smaller,
    so that its noise is not larger for no reason. Without ``learning_rate`` it is the optimizer's.
    ``activation = "relu"`` puts ReLU in the place of sorting activations, which networks without
    constraints do not need.
    """

    clip_norm: Positive | None = None
    learning_rate: Positive | None = None
    activation: Literal["same", "relu"] = "same"


class CertificatesSection(Section):
    """Radii (L2, in units of the encoded row) at which the test rows are certified."""

    radii: Annotated[list[NotNegative], Field(min_length=1)] = [0.025, 0.05, 0.1]


class RunConfig(Document):
    """One run, whole; ``sweep`` is for sweeps alone, and in no record of a run.

    The model is trained on ``features``, fixed functions of each row: ``"none"`` (the row itself),
    ``"pooling"``, ``"scattering"``, or ``"file"``, a frozen Keras model.
    """

    data: DataSection
    features: Component = Component(name="none")
    model: Component
    loss: Component
    optimizer: Component
    training: TrainingSection = TrainingSection()
    privacy: PrivacySection
    preprocess: PreprocessSection = PreprocessSection()
    certificates: CertificatesSection = CertificatesSection()
    dp_sgd: DpSgdSection = DpSgdSection()
    sweep: SweepSection | None = Field(default=None, exclude=True)
