"""The tests. `tests/<room>/test_<module>.py` mirrors the code; `simfs` is the simulated machine."""
