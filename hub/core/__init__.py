"""What a context is and what requests do to it. Pure: no I/O, no clock, no threads."""
