"""What is built to be installed, and how it is: run by the stage `30-package`, which builds it."""
