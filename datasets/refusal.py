"""The error of an order that a graph cannot have."""


class OrderRefused(ValueError):
    """The graph cannot have this order with these options; another graph could. The message says what is allowed."""
