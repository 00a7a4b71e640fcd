// The code that the scripted models write, and what each framework must show of it.
import assert from "node:assert/strict";

export const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

// Two calls of one turn of the model, then one a turn.
export const turns = [
  ["import time; time.sleep(0.2); x = 6 * 7; print('set')", "x"],
  [`import base64\nclass Picture:\n    def _repr_png_(self): return base64.b64decode('${pixel}')\nPicture()`],
  ["1/0"],
  ["print('a' * 50000)"],
];

export function checkTexts(texts) {
  assert.equal(texts.length, 5);
  assert.match(texts[0], /set/);
  assert.match(texts[1], /42/);
  assert.match(texts[3], /ZeroDivisionError/);
  assert.ok(texts[4].length <= 20_000, `${texts[4].length} characters`);
  assert.match(texts[4], /characters left out/);
}
