"""What a Spark job imports. The names are loaded when they are first used."""
