"""The command line: runs a hub, and looks after the sessions of one that runs."""
