"""What holds for all tests."""

from hypothesis import settings

# A test says what is right, never how fast: on a busy machine a deadline fails by chance.
settings.register_profile("raxalign", deadline=None)
settings.load_profile("raxalign")
