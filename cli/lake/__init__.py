"""`locus publish` and `locus lake …`: stores of many machines in one place."""
