"""Two versions compared: two results folders by ratios inside their groups, or two checkouts measured in turns."""
