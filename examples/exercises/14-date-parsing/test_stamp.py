import unittest
from datetime import datetime, timedelta, timezone

from stamp import parse


class StampTest(unittest.TestCase):
    def test_like_datetime(self):
        day = datetime(1968, 1, 1, 23, 59, 58, tzinfo=timezone.utc)
        while day.year < 2105:
            self.assertEqual(parse(day.strftime("%Y-%m-%dT%H:%M:%SZ")), int(day.timestamp()), day)
            day += timedelta(days=17)

    def test_around_leap_days(self):
        for year in (1972, 2000, 2023, 2024, 2100):
            for month, day in ((1, 1), (2, 28), (3, 1), (12, 31)):
                wanted = datetime(year, month, day, tzinfo=timezone.utc)
                self.assertEqual(parse(wanted.strftime("%Y-%m-%dT00:00:00Z")), int(wanted.timestamp()), wanted)

    def test_offsets(self):
        noon = parse("2024-02-29T12:00:00Z")
        self.assertEqual(parse("2024-02-29T07:00:00-05:00"), noon)
        self.assertEqual(parse("2024-02-29T17:30:00+05:30"), noon)
        self.assertEqual(parse("2024-03-01T01:00:00+13:00"), noon)

    def test_what_does_not_exist(self):
        for text in ["2023-02-29T00:00:00Z", "2100-02-29T00:00:00Z", "2024-02-30T00:00:00Z", "2024-04-31T00:00:00Z",
                     "2024-13-01T00:00:00Z", "2024-00-01T00:00:00Z", "2024-01-00T00:00:00Z", "2024-01-01T24:00:00Z",
                     "2024-01-01T00:60:00Z", "2024-01-01T00:00:00", "2024-01-01T00:00:00Z and more", "yesterday"]:
            with self.subTest(text=text), self.assertRaises(ValueError):
                parse(text)
