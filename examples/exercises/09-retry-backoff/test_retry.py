import unittest

from retry import Permanent, retry


class Work:
    """Plays a list of outcomes: errors are raised, the rest is returned."""

    def __init__(self, *outcomes):
        self.outcomes = list(outcomes)
        self.pauses = []

    def __call__(self):
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def run(self, **options):
        return retry(self, sleep=self.pauses.append, **options)


class RetryTest(unittest.TestCase):
    def test_success_needs_no_pause(self):
        work = Work("done")
        self.assertEqual(work.run(), "done")
        self.assertEqual(work.pauses, [])

    def test_what_works_at_last_is_returned(self):
        work = Work(OSError(1), OSError(2), "done")
        self.assertEqual(work.run(), "done")
        self.assertEqual(work.pauses, [0.5, 1.0])

    def test_the_last_error_is_raised_without_a_pause_behind_it(self):
        last = OSError("third")
        work = Work(OSError("first"), OSError("second"), last)
        with self.assertRaises(OSError) as raised:
            work.run(attempts=3)
        self.assertIs(raised.exception, last)
        self.assertEqual(work.pauses, [0.5, 1.0])

    def test_pauses_have_a_limit(self):
        work = Work(*[OSError()] * 7, "done")
        self.assertEqual(work.run(attempts=8), "done")
        self.assertEqual(work.pauses, [0.5, 1.0, 2.0, 4.0, 4.0, 4.0, 4.0])

    def test_the_first_pause_has_it_too(self):
        work = Work(OSError(), "done")
        work.run(first_pause=9.0)
        self.assertEqual(work.pauses, [4.0])

    def test_permanent_is_raised_at_once(self):
        work = Work(OSError(), Permanent("no such key"), "never")
        with self.assertRaises(Permanent):
            work.run()
        self.assertEqual(work.pauses, [0.5])
        self.assertEqual(work.outcomes, ["never"])

    def test_an_interrupt_is_no_failure(self):
        work = Work(KeyboardInterrupt(), "never")
        with self.assertRaises(KeyboardInterrupt):
            work.run()
        self.assertEqual(work.pauses, [])
