"""Text in lines of a certain width."""


def wrap(text, width):
    """`text` with lines of at most `width` characters.

    Lines of a paragraph are joined and broken again between words; a word that is longer than a line is broken
    where the line ends. One empty line stays between paragraphs, none at the start or the end. A line that
    begins with ">" is a quotation: it stays as it is, and ends the paragraph before it. ValueError: width < 1.
    """
    raise NotImplementedError
