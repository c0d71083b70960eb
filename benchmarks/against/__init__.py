"""The same experiment in raxalign and in what engineers use in its place, killed once each."""
