import unittest

from pointer import resolve
from settings import setting

DOCUMENT = {
    "": 0,
    "name": "belay",
    "a/b": 1,
    "m~n": 2,
    "~1": 3,
    "list": ["zero", {"deep": True}],
    "nothing": None,
    "01": "a key, not an index",
}


class PointerTest(unittest.TestCase):
    def test_finds(self):
        for pointer, wanted in {
            "/name": "belay",
            "/": 0,
            "/a~1b": 1,
            "/m~0n": 2,
            "/~01": 3,
            "/list/0": "zero",
            "/list/1/deep": True,
            "/nothing": None,
            "/01": "a key, not an index",
        }.items():
            with self.subTest(pointer=pointer):
                self.assertEqual(resolve(DOCUMENT, pointer), wanted)

    def test_the_empty_pointer_is_the_whole(self):
        self.assertIs(resolve(DOCUMENT, ""), DOCUMENT)

    def test_leads_nowhere(self):
        for pointer in ["/missing", "/list/2", "/list/-1", "/list/-", "/list/01", "/list/x", "/list/",
                        "/name/0", "/nothing/x", "/list/1/deep/x", "/list/+1", "/list/\u0661"]:
            with self.subTest(pointer=pointer), self.assertRaises(LookupError):
                resolve(DOCUMENT, pointer)

    def test_is_no_pointer(self):
        for pointer in ["name", "#/name", "/a~b", "/a~", "/a~2b"]:
            with self.subTest(pointer=pointer), self.assertRaises(ValueError):
                resolve(DOCUMENT, pointer)

    def test_settings_have_defaults(self):
        self.assertEqual(setting(DOCUMENT, "/list/1/deep", False), True)
        self.assertEqual(setting(DOCUMENT, "/list/deep", False), False)
        self.assertEqual(setting(DOCUMENT, "/name/first", "x"), "x")
