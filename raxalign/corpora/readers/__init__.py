"""Readers of files and of the hub: lines, dictionaries, downloads, and a file read to its end
before anything starts.
"""
