"""The viewer: a store in a browser, and one session or its figures as one page (docs/view.md)."""
