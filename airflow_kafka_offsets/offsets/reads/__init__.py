"""What Spark drivers were told to read, and whether their reports show that they did."""
