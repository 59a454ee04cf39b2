import unittest

from order import PlanError, order


class OrderTest(unittest.TestCase):
    def test_needs_come_first(self):
        self.assertEqual(order({"link": ["compile"], "compile": ["fetch"], "fetch": []}),
                         ["fetch", "compile", "link"])

    def test_the_plan_decides_where_needs_do_not(self):
        self.assertEqual(order({"z": [], "a": [], "m": []}), ["z", "a", "m"])
        self.assertEqual(order({"end": ["y", "x"], "x": [], "y": []}), ["y", "x", "end"])

    def test_what_is_needed_twice_comes_once(self):
        plan = {"top": ["left", "right"], "left": ["base"], "right": ["base"], "base": []}
        self.assertEqual(order(plan), ["base", "left", "right", "top"])

    def test_a_cycle_is_named(self):
        with self.assertRaisesRegex(PlanError, "b -> c -> d -> b"):
            order({"a": ["b"], "b": ["c"], "c": ["d"], "d": ["b"]})
        with self.assertRaisesRegex(PlanError, "self -> self"):
            order({"self": ["self"]})

    def test_a_missing_step_is_named(self):
        with self.assertRaisesRegex(PlanError, "'test' needs 'build', which is not in the plan"):
            order({"test": ["build"]})

    def test_long_chains(self):
        plan = {str(i): [str(i + 1)] for i in range(5000)}
        plan["5000"] = []
        self.assertEqual(order(plan), [str(i) for i in range(5000, -1, -1)])
