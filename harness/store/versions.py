"""The two numbers that every record has: how it was measured, and which keys it has. A measured process reads them."""

SCHEMA_VERSION = 2  # the keys of a record and their types; raised together with an upgrader in upgraders.py
PROTOCOL = 3  # how numbers are made; records of different protocols are never compared
