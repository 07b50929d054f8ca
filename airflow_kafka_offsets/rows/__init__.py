"""What a DAG says about rows: how records are decoded, which become rows, and where rows and bad records go."""
