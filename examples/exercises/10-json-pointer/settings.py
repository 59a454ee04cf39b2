"""Settings by pointer, with a default."""

from pointer import resolve


def setting(document, pointer, default):
    try:
        return resolve(document, pointer)
    except LookupError:
        return default
