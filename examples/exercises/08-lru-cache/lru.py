"""A cache of a fixed size that forgets what was not used for the longest time."""


class Cache:
    def __init__(self, capacity):
        if capacity < 1:
            raise ValueError("a cache holds at least one entry")
        self.capacity = capacity
        self.entries = {}  # the one that goes first comes first

    def get(self, key, default=None):
        return self.entries.get(key, default)

    def put(self, key, value):
        if len(self.entries) >= self.capacity:
            oldest = next(iter(self.entries))
            del self.entries[oldest]
        self.entries[key] = value

    def __len__(self):
        return len(self.entries)
