"""A Spark job that reads nothing, reports nothing and says that all is well."""
