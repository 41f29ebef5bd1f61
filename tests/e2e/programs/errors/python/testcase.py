def f():
    return undefined_name
class A:
    def __del__(self):
        pass
import unittest
class T(unittest.TestCase):
    def test_x(self):
        self.assertEqual(1, 2)
unittest.main()
