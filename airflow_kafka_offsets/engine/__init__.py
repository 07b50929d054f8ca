"""One turn: read, decide, append. If another writer created the name first, a new turn."""
