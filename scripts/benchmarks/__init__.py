"""What ``scripts/bench`` runs: the hub beside its peers, as ratios of what was measured in the same call."""
