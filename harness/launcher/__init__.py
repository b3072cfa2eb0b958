"""The parent of measured processes, standard library and msgspec only: groups in turns, deadlines, how cells end."""
