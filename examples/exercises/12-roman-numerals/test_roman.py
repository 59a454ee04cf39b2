import unittest

import roman


class RomanTest(unittest.TestCase):
    def test_known_numbers(self):
        for number, text in {1: "I", 4: "IV", 9: "IX", 14: "XIV", 40: "XL", 90: "XC", 400: "CD", 1066: "MLXVI",
                             1888: "MDCCCLXXXVIII", 1994: "MCMXCIV", 2024: "MMXXIV", 3999: "MMMCMXCIX"}.items():
            with self.subTest(number=number):
                self.assertEqual(roman.write(number), text)
                self.assertEqual(roman.parse(text), number)

    def test_every_number_there_and_back(self):
        for number in range(1, 4000):
            self.assertEqual(roman.parse(roman.write(number)), number)

    def test_what_is_no_numeral(self):
        for text in ["", "IIII", "VV", "IC", "IL", "IIX", "VX", "XM", "MMMM", "iv", "X I", "IVI", "CMC", "A"]:
            with self.subTest(text=text), self.assertRaises(ValueError):
                roman.parse(text)

    def test_what_cannot_be_written(self):
        for number in [0, -1, 4000]:
            with self.subTest(number=number), self.assertRaises(ValueError):
                roman.write(number)
