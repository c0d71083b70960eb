"""Text once it is read: words, bitext and its dataset, held-out sentences, overlap."""
