"""One turn = look, decide, append. If the name was taken, a new turn."""
