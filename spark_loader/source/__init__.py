"""`format("zkbroker")`: Spark's batches, streams and writes over topics."""
