"""What the packages of agents share: the values of a hook call, the lines and drafts of a transcript."""
