"""The parent of measured processes, standard library only: groups in turns, deadlines, how cells end."""
