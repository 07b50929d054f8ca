"""Pure: what a batch reads, and what that means for a position. Nothing here asks a cluster or a store."""
