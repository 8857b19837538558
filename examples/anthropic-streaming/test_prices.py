import unittest

from prices import discounted


class TestPrices(unittest.TestCase):
    def test_ten_percent_of_five_dollars_are_fifty_cents(self):
        self.assertEqual(discounted(500, 10), 450)
