"""What the hub is compared with; each is a small server that relays events to rooms."""
