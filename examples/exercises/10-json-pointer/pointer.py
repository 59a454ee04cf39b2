"""JSON Pointer: a text that names one value inside a document."""


def unescape(part):
    return part.replace("~0", "~").replace("~1", "/")


def resolve(document, pointer):
    """The value that `pointer` names. LookupError: there is none. ValueError: it is not a pointer."""
    value = document
    for part in pointer.split("/")[1:]:
        if isinstance(value, list):
            value = value[int(part)]
        else:
            value = value[part]
    return value
