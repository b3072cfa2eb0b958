"""A model of the user's own, as layers that send and receive (AGL, sections 2.1 and 3.5)."""
