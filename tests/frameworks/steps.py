"""The code that the scripted models write, and what each framework must show of it."""

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PICTURE = "import base64\nclass Picture:\n    def _repr_png_(self): return base64.b64decode('%s')\nPicture()" % PIXEL
LONG = "print('a' * 50000)"

# Two calls of one turn of the model, then one a turn.
TURNS = [["import time; time.sleep(0.2); x = 6 * 7; print('set')", "x"], [PICTURE], ["1/0"], [LONG]]


def check_texts(test, texts):
    """Check what the model saw of TURNS."""
    test.assertEqual(len(texts), 5)
    test.assertIn("set", texts[0])
    test.assertIn("42", texts[1])
    test.assertIn("ZeroDivisionError", texts[3])
    test.assertLessEqual(len(texts[4]), 20_000)
    test.assertIn("characters left out", texts[4])
