"""What authors of agents touch: AgentContext and all that belongs to it, and the connection to a hub."""
