"""Which classifier an encoder gets: a fine-tuned one on a transformer, one over frozen word vectors
on a static encoder.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from raxalign.encoders.models.static import StaticEncoder
from raxalign.tasks.classification.model import SentenceClassifier
from raxalign.tasks.classification.word_model import WordClassifier

if TYPE_CHECKING:
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.tasks.classification.params import ClassificationParams
    from raxalign.train.loop import TrainSettings

Classifier = SentenceClassifier | WordClassifier


def new_classifier(
    aligned: AlignedEncoder,
    params: ClassificationParams,
    sizes: tuple[int, int],
    *,
    dropout: float,
    seed: int,
) -> Classifier:
    """Makes an untrained classifier.

    Args:
        aligned: the encoder that it reads.
        params: the options of the task.
        sizes: the number of texts per example, and of labels.
        dropout: the probability of dropout before the output layer.
        seed: the seed of its first weights.

    Returns:
        the classifier, on the encoder's device.
    """
    n_texts, n_labels = sizes
    if isinstance(aligned.encoder, StaticEncoder):
        shape = (n_texts, params.static_head.hidden, n_labels)
        return WordClassifier(aligned, shape, dropout=dropout, seed=seed)
    return SentenceClassifier(
        aligned, n_labels, dropout=dropout, max_length=params.max_length, seed=seed
    )


def settings_for(
    model: Classifier, params: ClassificationParams, settings: TrainSettings
) -> TrainSettings:
    """Returns the settings of a training, over frozen word vectors with the rate of their head."""
    if isinstance(model, WordClassifier):
        return replace(settings, learning_rate=params.static_head.learning_rate)
    return settings
