"""Natural language inference across languages (Conneau et al. 2018)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, final

from raxalign.sample import Sample, of_labels
from raxalign.tasks.base import Outcome, TaskInputs
from raxalign.tasks.classification.params import ClassificationParams
from raxalign.tasks.transfer.pairs import PairTask, split_faults
from raxalign.tasks.transfer.selection import kept
from raxalign.tasks.transfer.task import DataFiles, HubSet

if TYPE_CHECKING:
    import pyarrow as pa

    from raxalign.corpora.readers.inspection import FileRead
    from raxalign.encoders.models.aligned import AlignedEncoder
    from raxalign.train.runtime import Runtime


@final
class Xnli(PairTask):
    """Transfer of a premise-hypothesis classifier, scored on dev and test of every language, the
    pivot too: trained on the pivot (`zero-shot`), or on the translations of its training data into
    all languages together (`translate-train`, one model; Pan et al. 2021).

    The classifier is one linear layer on the last layer's [CLS], after dropout, without a pooler;
    training follows Cao et al. (2020, A.1): 3 epochs, batches of 32, Adam(.9, .98, 1e-9), warm-up
    over the first tenth of the steps, then a constant rate. A method's transforms apply to what the
    classifier reads: its readouts as they were fitted before this training (`readout: keep`), or
    fitted again on the encoder that it left (`refit`), which the first ones no longer fit. [CLS] is
    not a word: what is fitted again is fitted on words, as the method's `pooling` has it. Metrics
    are `accuracy` a language, and under the languages `avg` (all of them) and `avg_zero_shot` (all
    but the pivot) the means. With `code_switching: sentence` (`translate-train` only; Pan et al.,
    3.3) each training pair (p_xx, h_xx) of another language is used as (p_xx, h_pivot) and
    (p_pivot, h_xx), both in one batch; each sentence has the transforms of its own language ([CLS]
    the premise's).
    """

    VERSION = 1
    main_metric = "accuracy"
    predicts = frozenset({"id", "label", "predicted", "premise"})
    guessing = 1 / 3  # entailment, neutral, contradiction

    class Params(ClassificationParams):
        """`data` is `hub`, `phrasebook` or files, whose paths may hold {lang} and {pivot}.
        `selection` chooses the epoch: by the pivot's development set, by the mean of all, by each
        language's own (no zero-shot result then), or the last one. `max_length` is in pieces.
        `batch_size` and `max_train` (a language) count training pairs as they stand in the files;
        the two mixes of a pair count as one. `warmup` below 1 is a share of all steps, from 1 on a
        number of steps.

        Files are XNLI's and MultiNLI's .tsv and .jsonl as they are published, or any with a header
        that names premise, hypothesis and label (sentence1, sentence2, gold_label) in any order, or
        three columns without a header. A `language` column picks the rows of a language, columns
        like ``sentence1_my`` its texts. Rows without a label (``-``) are left out and counted. Rows
        of one promptID, or else of one premise, are resampled together.
        """

        dataset: str = "facebook/xnli"

    params: Params

    def canonical(self) -> dict[str, object]:
        """Without what names data (its own identity enters the key) and what other data would
        need.
        """
        idle = {"dataset", "revision"} | (
            set() if self.params.data == "phrasebook" else {"phrasebook"}
        )
        idle |= {"code_switching"} if self.params.setting == "zero-shot" else set()
        return {name: value for name, value in self.params.identity().items() if name not in idle}

    def training(self) -> Mapping[str, object]:
        """All options but what is done with the epochs afterwards."""
        return {
            **{n: v for n, v in self.canonical().items() if n not in ("selection", "readout")},
            "kept": kept(self.params.selection),
        }

    # - the pivot's is as all are
    def hub_sets(self, lang: str, pivot: str) -> Mapping[str, HubSet]:  # noqa: ARG002
        """The data set, which has a configuration a language."""
        return {"hub": HubSet(self.params.dataset, lang, self.params.revision)}

    def check(self, languages: tuple[str, ...], pivot: str) -> list[str]:
        """Those of all transfer, and selection or evaluation by files that are not given."""
        data = self.params.data
        splits = (
            split_faults(data.dev, data.test, self.params.selection, "data.dev")
            if isinstance(data, DataFiles)
            else []
        )
        return [*super().check(languages, pivot), *splits]

    def read_files(self, languages: tuple[str, ...], pivot: str) -> Iterator[FileRead]:
        """Reads all splits, with their labels; evaluated rows that are trained on, and translations
        that are not parallel, are faults.
        """
        from raxalign.tasks.classification.inspection import read_files

        if isinstance(self.params.data, DataFiles):
            yield from read_files(
                self.params,
                self.languages(languages, pivot),
                self.training_languages(languages, pivot),
                pivot,
            )

    def train(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,
        folder: Path,
    ) -> Mapping[str, object]:
        """Fine-tune on the training data of `languages`, one model, or one a direction where the
        pivot's transforms differ by language.
        """
        from raxalign.tasks.classification.training import train

        return train(self.params, aligned, languages, inputs, runtime, folder)

    @classmethod
    def sample(cls, rows: pa.Table, metric: str) -> Sample | None:
        """The accuracy, with a unit per premise."""
        return of_labels(rows) if metric == "accuracy" else None

    def evaluate(
        self,
        aligned: AlignedEncoder,
        languages: tuple[str, ...],
        inputs: TaskInputs,
        runtime: Runtime,  # noqa: ARG002
        trained: Path | None,
    ) -> Outcome:
        """Accuracies of every language on the splits that are given, at the epoch that `selection`
        chooses.
        """
        from raxalign.tasks.classification.evaluation import evaluate

        assert trained is not None, "the plan makes the training first"
        return evaluate(self.params, aligned, languages, inputs, trained)
