import unittest

from lru import Cache


class CacheTest(unittest.TestCase):
    def test_keeps_what_fits(self):
        cache = Cache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        self.assertEqual([cache.get("a"), cache.get("b"), len(cache)], [1, 2, 2])

    def test_drops_the_oldest(self):
        cache = Cache(2)
        for key in "abc":
            cache.put(key, key)
        self.assertEqual([cache.get(key) for key in "abc"], [None, "b", "c"])

    def test_reading_is_use(self):
        cache = Cache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        cache.put("c", 3)
        self.assertEqual([cache.get("a"), cache.get("b"), cache.get("c")], [1, None, 3])

    def test_reading_what_is_not_there_is_none(self):
        cache = Cache(1)
        cache.put("a", 1)
        self.assertEqual(cache.get("b", "default"), "default")
        self.assertEqual(len(cache), 1)

    def test_overwriting_drops_nothing_and_is_use(self):
        cache = Cache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.put("a", 10)
        self.assertEqual(len(cache), 2)
        cache.put("c", 3)
        self.assertEqual([cache.get("a"), cache.get("b"), cache.get("c")], [10, None, 3])

    def test_none_is_a_value(self):
        cache = Cache(2)
        cache.put("a", None)
        cache.put("b", 2)
        self.assertIsNone(cache.get("a", "default"))
        cache.put("c", 3)
        self.assertEqual([cache.get("a", "gone"), cache.get("b", "gone")], [None, "gone"])

    def test_needs_room(self):
        with self.assertRaises(ValueError):
            Cache(0)
