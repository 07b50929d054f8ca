"""What a batch reads, as values: rules, ranges, positions, windows. It does no I/O and knows no framework."""
