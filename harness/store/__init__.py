"""Store of records: their schema, validation, files and statistics."""
