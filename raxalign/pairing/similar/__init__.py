"""What word aligners share that compare vectors of an encoder."""
