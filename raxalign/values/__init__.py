"""Plan and ledger -> values: rows, comparisons with their chance, and remarks."""
