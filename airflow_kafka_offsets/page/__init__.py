"""The page of a pipeline: what it shows, and what a person does from it."""
