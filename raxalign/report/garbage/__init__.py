"""Garbage collection: what a storage and this machine hold that no grid needs."""
