"""The instrument: plans cells, measures them in turns, keeps records, writes reports."""
