"""A clock that a test moves."""


class Clock:
    """Stands still until it is moved; called for the time, or used in the place of `time`.

    Args:
        now: where it begins, in the unit that the test needs; a time of day in ms by default.
    """

    def __init__(self, now: float = 1_700_000_000_000) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def monotonic(self) -> float:
        return self.now

    def advance(self, by: float) -> None:
        self.now += by
