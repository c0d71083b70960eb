"""The sentences of `own_mteb_tasks`, for tests to read without mteb, whose import takes seconds."""

GERMAN = ["ein Hund", "eine Katze", "das Haus", "ein Hund Haus", "Katze das"]
ENGLISH = ["a dog", "a cat", "the house", "a dog house", "cat the"]
