"""Readers of files and of the hub: lines, dictionaries, downloads, and files read to their end."""
