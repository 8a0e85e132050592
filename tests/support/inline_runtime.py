"""A runtime for tests of one event loop: tasks are kept, and run when the test says so."""

import threading


class InlineRuntime:
    name = "inline"

    def __init__(self, clock_ms=lambda: 0, now_ms=lambda: 0):
        self.tasks = []
        self.clock_ms, self.now_ms = clock_ms, now_ms

    def spawn(self, function, *args, name):
        self.tasks.append((name, lambda: function(*args)))

    def run(self, prefix):
        """Run the tasks whose name begins so, once."""
        due = [task for name, task in self.tasks if name.startswith(prefix)]
        self.tasks = [entry for entry in self.tasks if not entry[0].startswith(prefix)]
        for task in due:
            task()

    def event(self):
        return threading.Event()

    def sleep(self, seconds):
        pass
