"""The tests; a package, so that they share graphs and factories."""
