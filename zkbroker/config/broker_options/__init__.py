"""The options of a broker by what they are for; `BrokerConfig` is all of them together.

Invariant: an option stands in one file, and is a field of `BrokerConfig` under the same name.
Sizes are in bytes, times in milliseconds, where the name says nothing else.
"""
