"""Pages over all records: the front page, comparison, aggregation, full-batch epochs."""
