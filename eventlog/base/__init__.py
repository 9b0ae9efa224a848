"""The ground: events, names, paths, files, locks, settings. It imports no other room."""
