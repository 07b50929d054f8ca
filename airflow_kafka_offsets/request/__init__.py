"""What a user asked for: the one table of parameters, and how it is read. Nothing is asked of a cluster here."""
