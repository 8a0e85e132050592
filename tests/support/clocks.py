"""A clock that a test moves."""


class Clock:
    """A clock that stands still until it is moved; a callable, or a replacement for `time`.

    Args:
        now: the first time, in the unit of the test; a time of day in ms by default.
    """

    def __init__(self, now: float = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, by: float) -> None:
        self.now += by
