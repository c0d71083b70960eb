"""What the axes, the corpora, the encoders and the tasks of a grid expand to."""
