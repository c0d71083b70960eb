"""Identity and storage: the only hash, artifacts by key, and the ledger of results."""
