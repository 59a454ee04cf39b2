import unittest

from wrap import wrap


class WrapTest(unittest.TestCase):
    def test_lines_are_filled(self):
        self.assertEqual(wrap("give rope while all is well", 10), "give rope\nwhile all\nis well")

    def test_a_line_may_be_full_to_the_last_character(self):
        self.assertEqual(wrap("aaa bbb ccc", 7), "aaa bbb\nccc")
        self.assertEqual(wrap("aaa bbb ccc", 6), "aaa\nbbb\nccc")

    def test_lines_are_joined(self):
        self.assertEqual(wrap("a\n b \t c\n", 20), "a b c")

    def test_long_words_are_broken(self):
        self.assertEqual(wrap("an incomprehensible word", 6), "an\nincomp\nrehens\nible\nword")

    def test_paragraphs_stay_apart(self):
        self.assertEqual(wrap("\n\none\n\n \n\ntwo three\n\n", 5), "one\n\ntwo\nthree")

    def test_quotations_stay(self):
        self.assertEqual(wrap("you said\n> that this  line is long\n> very\nand it is", 8),
                         "you said\n> that this  line is long\n> very\nand it\nis")

    def test_characters_count_not_bytes(self):
        self.assertEqual(wrap("grün weiß", 9), "grün weiß")

    def test_nothing(self):
        self.assertEqual(wrap("", 5), "")
        self.assertEqual(wrap(" \n\n ", 5), "")

    def test_width(self):
        with self.assertRaises(ValueError):
            wrap("a", 0)
        self.assertEqual(wrap("abc", 1), "a\nb\nc")
