"""Encoders that are made here: masked language models and static vectors."""
