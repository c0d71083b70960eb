"""Tasks on vectors as they are: words and sentences, neighbours, ranks, probes."""
