"""ATIF, the interchange format of agents' trajectories. Transcripts only."""
