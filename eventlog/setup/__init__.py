"""Setting Locus up: our hooks in the settings of agents, and how a hook is started (docs/install.md)."""
