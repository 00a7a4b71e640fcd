// Tests of run(), in sessions with a private supervisor.
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { clientTest, CodeError, Result, Session, sessionTest, TurnstoneError, until, which } from "./daemon.mjs";

const png = "class P:\n  def __init__(self, n): self.n = n\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + b'a' * self.n\n";

sessionTest("run() returns text, value, error and duration", async (session) => {
  let r = await session.run("import sys\nprint('out')\nprint('err', file=sys.stderr)\n6 * 7");
  assert.ok(r instanceof Result && r.ok);
  assert.deepEqual([r.turn, r.outcome, r.text, r.stderr, r.value, r.error, r.timedOut, r.leftOut], [1, "ok", "out\nerr\n", "err\n", "42", undefined, false, 0]);
  r = await session.run("def f(): 1/0\nf()");
  assert.ok(r.error instanceof CodeError && !r.ok);
  assert.deepEqual([r.outcome, r.error.name, r.error.message, r.error.ended], ["error", "ZeroDivisionError", "division by zero", false]);
  assert.match(r.error.traceback, /in f/);
  assert.throws(() => r.check(), (error) => error === r.error && /^ZeroDivisionError: division by zero\nTraceback/.test(error.stack));
  assert.equal(JSON.parse(JSON.stringify(r)).error.message, "division by zero");
  r = await session.run("import time; time.sleep(0.2)");
  assert.ok(r.durationMs >= 200 && r.durationMs < 5000 && r.value === undefined);
  assert.equal(r.check(), r);
});

sessionTest("json() parses text and values, and refuses text that is not whole", async (session) => {
  assert.deepEqual((await session.run("import json; print(json.dumps({'a': 1}))")).json(), { a: 1 });
  assert.deepEqual((await session.run("[1, 2]")).json(), [1, 2]);
  assert.deepEqual((await session.run(`json.dumps({"a": "it's \\n \\\\ é \\x01 'q' \\"d\\""})`)).json(), { a: `it's \n \\ é \x01 'q' "d"` });
  assert.throws(() => new Result(1).json(), SyntaxError);
  const r = await session.run("print('[' + '1,' * 1000 + '1]')", { maxBytes: 101 });
  assert.deepEqual([r.text.length, r.leftOut], [101, 1903]);
  assert.throws(() => r.json(), /1903 bytes/);
});

sessionTest("large output is whole", async (session) => {
  const r = await session.run("import json; print(json.dumps(list(range(100000))))");
  assert.equal(Buffer.byteLength(r.text), 688_891);
  assert.equal(r.json().length, 100_000);
  const lines = await session.run("for i in range(100000): print(i)");
  assert.deepEqual(lines.text.trim().split("\n").map(Number), [...Array(100000).keys()]);
  const image = await session.run(png + "P(12_000_000)");
  assert.deepEqual([image.images.length, image.images[0].length, image.leftOutDisplays], [1, 12_000_008, 0]);
  assert.ok(Buffer.from(image.images[0]).every((byte, at) => at < 8 || byte === 97));
  const many = await session.run("for n in range(90): display(P(n * 1000))");
  assert.deepEqual(many.images.map((each) => each.length), [...Array(90).keys()].map((n) => n * 1000 + 8));
});

sessionTest("what is beyond maxBytes is counted", async (session) => {
  for (const size of [0, 1, 65_535, 65_536, 65_537, 99_999, 100_000, 100_001, 5_000_000]) {
    const r = await session.run(`import sys; _ = sys.stdout.write('x' * ${size})`, { maxBytes: 100_000 });
    assert.deepEqual([r.text.length, r.leftOut], [Math.min(size, 100_000), Math.max(0, size - 100_000)], String(size));
  }
  let r = await session.run("import sys; _ = sys.stdout.write('ä' * 10)", { maxBytes: 5 });
  assert.deepEqual([r.text, r.leftOut], ["ää", 16]); // no half a character
  r = await session.run("'x' * 1000", { maxBytes: 100 });
  assert.deepEqual([r.value.length, r.leftOut], [100, 902 + 1]);
  r = await session.run(png + "display(P(100)); display(P(5000)); display(P(200))", { maxBytes: 1000 });
  assert.deepEqual([r.images.map((each) => each.length), r.leftOutDisplays], [[108, 208], 1]);
  assert.match(r.render(), /1 displays left out/);
});

sessionTest("characters may be split, and bytes that are no text are replaced", async (session) => {
  const r = await session.run("import sys, time\nfor b in 'aä€😀'.encode(): sys.stdout.buffer.write(bytes([b])); sys.stdout.flush(); time.sleep(0.01)");
  assert.equal(r.text, "aä€😀");
  assert.equal((await session.run("sys.stdout.buffer.write(b'x\\xff'); sys.stdout.flush()")).text, "x\ufffd");
});

sessionTest("displays have their types, and an update replaces one", async (session) => {
  const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
  const r = await session.run(png + "class H:\n  def _repr_html_(self): return '<b>1</b>'\ndisplay(P(1))\nH()");
  assert.deepEqual(r.displays.map((each) => [each.imageType, each.isValue]), [["image/png", false], [undefined, true]]);
  assert.equal(r.displays[1].data["text/html"], "<b>1</b>");
  assert.equal(await r.displays[0].save(join(directory, "a.PNG")), "image/png");
  assert.equal(readFileSync(join(directory, "a.PNG")).length, 9);
  await assert.rejects(r.displays[0].save("a.svg"), /image\/png/);
  rmSync(directory, { recursive: true });
});

sessionTest("output comes while the code runs", async (session) => {
  const seen = [];
  const r = await session.run(png + "import sys, time\nfor i in range(3): print(i); time.sleep(0.1)\nprint('e', file=sys.stderr)\ndisplay(P(1))", {
    onText: (text) => seen.push(["text", text, performance.now()]),
    onStderr: (text) => seen.push(["stderr", text, performance.now()]),
    onDisplay: (display) => seen.push(["display", display.image.length, performance.now()]),
  });
  assert.equal(seen.filter(([kind]) => kind === "text").map(([, text]) => text).join(""), r.text);
  assert.equal(seen.filter(([kind]) => kind === "stderr").map(([, text]) => text).join(""), "e\n");
  assert.deepEqual(seen.at(-1).slice(0, 2), ["display", 9]);
  assert.ok(seen.at(-1)[2] - seen[0][2] > 150);
});

sessionTest("the calls on one session run in their order", async (session) => {
  await session.run("order = []");
  const results = await Promise.all([...Array(20).keys()].map((n) => session.run(`order.append(${n}); ${n}`)));
  assert.deepEqual(results.map((r) => Number(r.value)), [...Array(20).keys()]);
  assert.deepEqual((await session.run("order")).json(), [...Array(20).keys()]);
});

sessionTest("a timeout interrupts, and then the session is free", async (session) => {
  for (let i = 0; i < 5; i++) {
    const r = await session.run("import time\nprint('a')\nwhile True: time.sleep(0.01)", { timeoutMs: 150 });
    assert.deepEqual([r.outcome, r.text, r.timedOut, r.error.name], ["interrupted", "a\n", true, "KeyboardInterrupt"]);
    assert.equal((await session.run("1")).value, "1");
  }
  assert.equal((await session.run("1", { timeoutMs: 60_000 })).timedOut, false);
});

sessionTest("code that swallows an interrupt is interrupted harder, and then given up or reset", async (session) => {
  let r = await session.run("import time\nwhile True:\n  try: time.sleep(60)\n  except KeyboardInterrupt: pass", { timeoutMs: 100, graceMs: 1500 });
  assert.deepEqual([r.timedOut, r.outcome], [true, "interrupted"]);
  const deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx = 1\nwhile True:\n  try: time.sleep(60)\n  except BaseException: pass";
  await assert.rejects(session.run(deaf, { timeoutMs: 100, graceMs: 100 }), { kind: "still_running" });
  await assert.rejects(session.run("1"), { kind: "busy" });
  await session.reset();
  assert.equal((await session.run("2")).value, "2");
  r = await session.run(deaf, { timeoutMs: 100, graceMs: 100, resetStuck: true });
  assert.deepEqual([r.outcome, r.timedOut, r.error.name, r.error.ended], ["ended", true, "WorkerEnded", true]);
  assert.equal((await session.run("'x' in globals()")).value, "False");
});

sessionTest("an abort settles when the session is free", async (session) => {
  await session.run("import time");
  const reason = new Error("mine");
  await assert.rejects(session.run("1", { signal: AbortSignal.abort(reason) }), reason);
  const stop = new AbortController();
  const running = session.run("while True: time.sleep(0.01)", { signal: stop.signal, onText: () => {} });
  const queued = session.run("print('never')", { signal: stop.signal });
  await until(async () => (await session.info()).state === "running");
  stop.abort(reason);
  await Promise.all([assert.rejects(running, reason), assert.rejects(queued, reason)]);
  assert.equal((await session.info()).state, "idle");
  assert.equal((await session.info()).turn, 2);
});

sessionTest("an abort at any moment leaves a session that takes the next code", async (session) => {
  await session.run("import time; ran = 0");
  let done = 0;
  for (let i = 0; i < 300; i++) {
    const stop = new AbortController();
    const running = session.run(`ran += 1; print(${i}); time.sleep(0.002)`, { signal: stop.signal }).then((r) => {
      done++;
      if (r.text !== `${i}\n`) throw new Error(`${i}: ${r.text}`);
    }, (error) => assert.ok(error === stop.signal.reason, String(error)));
    const at = Math.random() * 8;
    if (at < 1) stop.abort();
    else if (at < 2) setImmediate(() => stop.abort());
    else setTimeout(() => stop.abort(), at - 2);
    await running;
    if (i % 10 === 0) assert.deepEqual([(await session.run(`print('n', ${i})`)).text, (await session.info()).state], [`n ${i}\n`, "idle"]);
  }
  assert.ok(done > 0 && Number((await session.run("ran")).value) >= done);
});

sessionTest("a function that throws ends the turn, and its error is thrown", async (session) => {
  const mine = new Error("mine");
  for (const options of [{ onText: () => { throw mine; } }, { onText: async () => { throw mine; } }, { answer: async () => { throw mine; } }, { onStderr: () => { throw mine; } }]) {
    await assert.rejects(session.run("import sys, time\nprint(1)\nprint(2, file=sys.stderr)\ninput()\ntime.sleep(60)", options), mine);
    assert.equal((await session.run("1")).value, "1");
  }
  await assert.rejects(session.run("input()", { answer: () => 5 }), /number/);
});

sessionTest("a function that blocks holds the output back, and neither a timeout nor an abort", async (session) => {
  let calls = 0;
  const slow = await session.run("for i in range(20): print(i)", { onText: async () => { calls++; await pause(5); } });
  assert.ok(calls > 0);
  assert.equal(slow.text.split("\n").length, 21);
  const never = new Promise(() => {});
  const r = await session.run("import time\nprint(1)\nwhile True: time.sleep(0.01)", { onText: () => never, timeoutMs: 200 });
  assert.deepEqual([r.timedOut, r.text], [true, "1\n"]);
  const stop = new AbortController();
  await assert.rejects(session.run("print(1)\nwhile True: time.sleep(0.01)", { onText: () => (setTimeout(() => stop.abort(), 50), never), signal: stop.signal }), { name: "AbortError" });
  const asked = await session.run("input()", { answer: () => never, timeoutMs: 200 });
  assert.deepEqual([asked.timedOut, asked.error.name], [true, "KeyboardInterrupt"]);
  assert.equal((await session.run("1")).value, "1");
});

sessionTest("a function cannot run code in the same session", async (session) => {
  await assert.rejects(session.run("print(1)", { onText: () => session.run("2") }), { kind: "busy" });
  let later;
  await session.run("print(1)", { onText: () => void (later = pause(50).then(() => session.run("3"))) });
  assert.equal((await later).value, "3");
});

sessionTest("answers go to the code, and an end of file without a function", async (session) => {
  const asked = [];
  const r = await session.run("[input('a? '), input('b? '), __import__('getpass').getpass('c? ')]", { answer: (request) => (asked.push([request.prompt, request.secret]), `<${asked.length}>`) });
  assert.equal(r.value, "['<1>', '<2>', '<3>']");
  assert.deepEqual(asked, [["a? ", undefined], ["b? ", undefined], ["c? ", true]]);
  assert.equal((await session.run("input()")).error.name, "EOFError");
  assert.equal((await session.run("input()", { answer: async () => null })).error.name, "EOFError");
  const endless = await session.run("while True:\n  try: input()\n  except EOFError: pass", { graceMs: 2000 });
  assert.equal(endless.outcome, "interrupted");
  assert.match(endless.notices.at(-1), /1000 times/);
});

sessionTest("the end of the worker is data, and the next run works", async (session) => {
  let r = await session.run("x = 1; print('a'); import os; os._exit(3)");
  assert.deepEqual([r.outcome, r.text, r.error.name, r.error.message, r.error.ended], ["ended", "a\n", "WorkerEnded", "exit status 3", true]);
  assert.match(r.render(), /variables are lost/);
  r = await session.run("'x' in globals()");
  assert.deepEqual([r.value, r.notices], ["False", []]);
  process.kill((await session.info()).pid, "SIGKILL"); // between two runs
  await until(async () => (await session.info()).state === "ended" || (await session.info()).generation > 2);
  r = await session.run("2");
  assert.equal(r.value, "2");
  assert.equal(r.notices.length, 1);
  assert.match(r.notices[0], /variables are lost.*SIGKILL/);
});

sessionTest("a reset or close from elsewhere ends a run", async (session) => {
  let running = session.run("import time; time.sleep(60)");
  await until(async () => (await session.info()).state === "running");
  await session.reset();
  assert.equal((await running).error.ended, true);
  assert.equal((await session.run("1")).value, "1");
  running = session.run("import time; time.sleep(60)");
  await until(async () => (await session.info()).state === "running");
  await session.client.session(session.name).close();
  const r = await running.catch((error) => error);
  assert.ok(r instanceof TurnstoneError ? r.kind === "no_session" : r.error.ended, String(r));
  await assert.rejects(session.run("1"), { kind: "no_session" });
});

clientTest("a session whose interpreter does not start reports it", async (client) => {
  const session = await client.create({ language: "python", runtime: "/bin/false" });
  for (let i = 0; i < 3; i++) {
    const r = await session.run("1");
    assert.deepEqual([r.outcome, r.error.name, r.error.message, r.error.ended], ["ended", "WorkerEnded", "it did not start: exit status 1", true]);
    assert.ok(r.notices.length <= 1, "the same is said twice");
  }
});

clientTest("another client's turn is refused, and its output is in no result", async (client) => {
  const session = await client.create({ language: "python" });
  const other = client.session(session.name);
  const turn = await other.start("import time\nprint('theirs')\nwhile True: time.sleep(0.01)");
  await assert.rejects(session.run("print('mine')"), { kind: "busy" });
  await other.interrupt(turn);
  await other.wait(turn);
  assert.equal((await session.run("print('mine')")).text, "mine\n");
  await other.run("print('theirs')");
  assert.equal((await session.run("print('mine')")).text, "mine\n");
  const attached = client.session(session.name); // begins at the end
  assert.equal((await attached.run("print('new')")).text, "new\n");
  await other.wait(await other.start("for i in range(300000): print(i, 'x' * 40)")); // more than waits for a reader
  assert.equal((await session.run("print('mine')")).text, "mine\n");
});

sessionTest("an incomplete character stays in its text", async (session) => {
  const r = await session.run("import os; os.write(1, b'x\\xc3')");
  assert.deepEqual([r.text, r.value], ["x\ufffd", "2"]);
  await assert.rejects(session.run("1", { timeoutMs: -1 }), RangeError);
});

test("what a worker says that does not start is in the result", { timeout: 60_000 }, async () => {
  const session = await Session.open({ env: { PYTHONHOME: "/nope" } });
  try {
    assert.match((await session.run("1")).error.traceback, /encodings/);
  } finally {
    await session.close();
  }
});

clientTest("with queue a run waits for other clients, in the order of arrival", async (client, server) => {
  const session = await client.create({ language: "python" });
  const gate = join(tmpdir(), `gate-${process.pid}-${session.name}`);
  await session.run("import os, time; order = []");
  const first = session.run(`while not os.path.exists(${JSON.stringify(gate)}): time.sleep(0.01)`);
  await until(async () => (await session.info()).state === "running");
  const queued = (n) => until(async () => (await session.info()).queued_inputs === n);
  const stop = new AbortController();
  const aborted = client.session(session.name).run("order.append('never')", { queue: true, signal: stop.signal });
  await queued(1);
  const waiting = [];
  for (let n = 0; n < 5; n++) {
    waiting.push(client.session(session.name).run(`order.append(${n})`, { queue: true, timeoutMs: 1000 }));
    await queued(n + 2);
  }
  stop.abort(new Error("mine"));
  await assert.rejects(aborted, { message: "mine" });
  await queued(5);
  await pause(1100); // the time in the queue does not count
  writeFileSync(gate, "");
  assert.ok((await Promise.all([first, ...waiting])).every((r) => r.ok));
  rmSync(gate);
  assert.deepEqual((await session.run("order")).json(), [0, 1, 2, 3, 4]);
});

test("of several values in R, the last is the value, and the others are text", { skip: !which("R") && "R is not installed", timeout: 60_000 }, async () => {
  const session = await Session.open({ language: "r" });
  try {
    let r = await session.run("x <- 5; x; 'a'; x");
    assert.deepEqual([r.text, r.value], ['[1] 5\n[1] "a"\n', "[1] 5"]);
    r = await session.run("x");
    assert.deepEqual([r.text, r.value], ["", "[1] 5"]);
  } finally {
    await session.close();
  }
});

sessionTest("thousands of runs need no more memory", async (session) => {
  globalThis.gc ??= (await import("node:v8")).setFlagsFromString("--expose-gc") ?? (await import("node:vm")).runInNewContext("gc");
  const measure = () => (globalThis.gc(), globalThis.gc(), process.memoryUsage().heapUsed);
  const grown = []; // a leak of 200 bytes for each run would show in each round; what the engine warms up does not
  for (let round = 0, before = measure(); round < 6; round++) {
    for (let i = 0; i < 1000; i++) assert.equal((await session.run("print(1); 1 + 1", { onText: () => {}, timeoutMs: 10_000, signal: new AbortController().signal })).value, "2");
    const now = measure();
    grown.push(now - before);
    before = now;
  }
  assert.ok(Math.min(...grown.slice(1)) < 200_000, `${grown} bytes more`);
  assert.ok(session.client.connection.calls.size === 0 && session.client.connection.streams.size === 1);
});

sessionTest("render() is bounded, and says what it leaves out", async (session) => {
  const r = await session.run("print('x' * 100_000); 7");
  const text = r.render();
  assert.ok(text.length <= 20_000 && text.includes("characters left out") && text.endsWith("7\n"));
  for (const max of [0, 1, 10, 30, 60, 100, 1000]) assert.ok(r.render(max).length <= max);
  assert.equal((await session.run("print('a'); 1")).render(), "a\n1\n");
  assert.match((await session.run("1/0")).render(), /ZeroDivisionError: division by zero\n$/);
  assert.match((await session.run("while True: pass", { timeoutMs: 100 })).render(), /\[interrupted: the time was over\]/);
});
