"""What the user asked for: parameters as they are written, and the valid request that they make."""
