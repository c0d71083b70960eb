"""The trial as a method."""

import raxalign as rx
from benchmarks.against import work


class SlowMethod(rx.Method):
    """Run a trial of the experiment, and leave the encoder as it is."""

    VERSION = 1
    reference = "of our own"

    class Params(rx.Params):
        """`number` tells the trials of a language apart."""

        number: int = 0

    def needs(self):
        """Return that the corpus is read."""
        return rx.Needs(bitext=True)

    def align(self, encoder, inputs, runtime):
        """Run the trial on the corpus of its language."""
        from raxalign.corpora.text.dataset import read_table

        (lang,) = inputs.languages
        text = read_table(inputs.bitext[lang])["src_text"].to_pylist()
        score = work.trial(lang, self.params.number, text)
        return rx.AlignedEncoder(encoder, (), notes={"score": score})
