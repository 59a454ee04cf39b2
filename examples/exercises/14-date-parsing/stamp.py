"""Time stamps like 2024-02-29T12:30:00Z or 2024-02-29T07:30:00-05:00, as seconds since 1970."""

import re

PATTERN = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:Z|([+-])(\d\d):(\d\d))")
DAYS_BEFORE = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334]
DAYS_IN = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_since_1970(year, month, day):
    years = year - 1
    leap_days = years // 4 - years // 100 + years // 400 - 477
    days = (year - 1970) * 365 + leap_days + DAYS_BEFORE[month - 1] + day - 1
    return days + 1 if is_leap(year) else days


def parse(text):
    """ValueError: it is not a time stamp, or no such day or time exists."""
    match = PATTERN.match(text)
    if not match:
        raise ValueError(f"{text!r} is not a time stamp")
    year, month, day, hour, minute, second = (int(part) for part in match.groups()[:6])
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24 and minute < 60 and second < 60):
        raise ValueError(f"{text!r} does not exist")
    seconds = days_since_1970(year, month, day) * 86400 + hour * 3600 + minute * 60 + second
    if match[7]:
        offset = int(match[8]) * 3600 + int(match[9]) * 60
        seconds += offset if match[7] == "+" else -offset
    return seconds
