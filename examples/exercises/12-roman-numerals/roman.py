"""Roman numerals from 1 to 3999."""

SIGNS = [(1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")]


def write(number):
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} is not from 1 to 3999")
    text = ""
    for value, sign in SIGNS:
        count, number = divmod(number, value)
        text += sign * count
    return text
