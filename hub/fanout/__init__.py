"""From one change to many connections: encoded once, the same bytes to everybody."""
