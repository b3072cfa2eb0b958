"""Where records live: their schema, their paths, how they are written whole."""
