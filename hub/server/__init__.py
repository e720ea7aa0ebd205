"""The hub's outside: Socket.IO and HTTP, tokens, and how a process is started."""
