"""Maintenance: what commands do for the store on the side, and copies of it in another directory."""
