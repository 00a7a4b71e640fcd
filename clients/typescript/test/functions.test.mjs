// Tests of functions that a program gives to the code of a session.
import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { clientTest, connectWhenReady, runTurn, Session, sessionTest, TurnstoneError, until } from "./daemon.mjs";

sessionTest("code calls functions of the program", async (session) => {
  await session.setFunctions({
    search: {
      description: "Search the documents.",
      parameters: { type: "object", properties: { query: { type: "string" }, limit: { type: "integer" } }, required: ["query"] },
      call: async ({ query, limit = 10 }, { turn, session: name }) => {
        await pause(1);
        return { z: Array(limit).fill(query), turn, name };
      },
    },
    plain: (args) => Object.keys(args).length,
    inGroup: { group: "docs", call: () => "from the group" },
  });
  const found = await session.run("from turnstone import search, plain; search('x', limit=2)");
  assert.deepEqual([found.error, found.value], [undefined, `{'z': ['x', 'x'], 'turn': 1, 'name': '${session.name}'}`]);
  assert.match((await session.run("help(search)")).text, /Search the documents/);
  assert.match((await session.run("search(1)")).error.message, /query is an integer, not string/);
  assert.equal((await session.run("plain(a=1, b=2)")).value, "2");
  assert.equal((await session.run("from turnstone.tools import docs; docs.inGroup()")).value, "'from the group'");
  await session.setFunctions({});
  assert.match((await session.run("search('x')")).error.message, /unknown function search/);
});

sessionTest("every value keeps its type", async (session) => {
  const got = [];
  await session.setFunctions({ keep: ({ value }) => (got.push(value), value) });
  const code = `
import turnstone, math, datetime
cases = [None, True, 0, -1, 2**53, 2**63 - 1, -2**63, 2**64 - 1, 2.5, -0.0, 1e300, "", "é\\n\\"\\x00", b"", bytes(range(256)),
    [], [[1, [2.5]]], {}, {"a": {"b": None}}, {"$bytes": "x"}, {"$object": {"$int": "1"}}, {"$a": 1, "b": 2}, {"__proto__": {"x": 1}},
    datetime.datetime(2026, 1, 31, 12, 0, 0, 5000, tzinfo=datetime.timezone.utc), float("inf"), float("-inf")]
for case in cases:
    back = turnstone.keep(value=case)
    assert type(back) is type(case) and repr(back) == repr(case), (case, back)
assert math.isnan(turnstone.keep(value=math.nan))
"done"`;
  const result = await session.run(code);
  assert.deepEqual([result.error, result.value], [undefined, "'done'"]);
  assert.equal(got[7], 2n ** 64n - 1n);
  assert.deepEqual(got[14], new Uint8Array(Array.from({ length: 256 }, (_, at) => at)));
  assert.deepEqual(got[23], new Date("2026-01-31T12:00:00.005Z"));
});

sessionTest("an error is raised in the code under its name", async (session) => {
  class NotFound extends Error {
    name = "NotFound";
  }
  const cycle = {};
  cycle.self = cycle;
  await session.setFunctions({
    fails: ({ kind }) => {
      throw { type: new TypeError("bad"), own: new NotFound("gone"), plain: new Error("plain"), text: "just text" }[kind];
    },
    rejects: async () => Promise.reject(new RangeError("later")),
    odd: () => ({ a: [new Map()] }),
    cycle: () => cycle,
    half: () => "\ud800",
    huge: () => 2n ** 64n,
    wrong: () => new Date(NaN),
  });
  await session.run("import turnstone\ndef name(f, **a):\n  try: f(**a)\n  except Exception as e: return type(e).__name__ + ': ' + str(e)");
  for (const [code, want] of Object.entries({
    "name(turnstone.fails, kind='type')": "TypeError: bad",
    "name(turnstone.fails, kind='own')": "NotFound: gone",
    "name(turnstone.fails, kind='plain')": "CallError: plain",
    "name(turnstone.fails, kind='text')": "CallError: just text",
    "name(turnstone.rejects)": "RangeError: later",
    "name(turnstone.odd)": "a[0]: a Map cannot be sent",
    "name(turnstone.cycle)": "contains itself",
    "name(turnstone.half)": "half of a surrogate pair",
    "name(turnstone.huge)": "64 bits",
    "name(turnstone.wrong)": "the date is invalid",
  })) {
    const result = await session.run(code);
    assert.ok(result.value?.includes(want), `${code}: ${result.value} ${result.error?.message}`);
  }
  await assert.rejects(session.setFunctions({ x: 5 }), TypeError);
  await assert.rejects(session.setFunctions({ "a b": () => 1 }), (error) => error instanceof TurnstoneError && error.kind === "invalid_params");
});

sessionTest("an interrupt aborts the call, and a function that never answers stops nothing", async (session) => {
  let called, aborted;
  const wasCalled = new Promise((resolve) => (called = resolve));
  const wasAborted = new Promise((resolve) => (aborted = resolve));
  await session.setFunctions({
    hang: (_, { signal }) => {
      called();
      signal.addEventListener("abort", aborted);
      return new Promise(() => {});
    },
  });
  const turn = await session.start("import turnstone; turnstone.hang()");
  await wasCalled;
  await session.interrupt(turn);
  assert.equal((await session.wait(turn)).outcome, "interrupted");
  await wasAborted;
  assert.equal((await session.run("1 + 1")).value, "2");
});

sessionTest("many threads call at once, and large values arrive whole", async (session) => {
  await session.setFunctions({ same: async ({ value }) => (await pause(value % 3), value), keep: ({ value }) => value, size: ({ data }) => data.length });
  const many = await session.run(`
import turnstone, threading
wrong = []
def loop(n):
    for i in range(20):
        if turnstone.same(value=n * 100 + i) != n * 100 + i: wrong.append((n, i))
threads = [threading.Thread(target=loop, args=(n,)) for n in range(32)]
for t in threads: t.start()
for t in threads: t.join()
wrong`);
  assert.deepEqual([many.error, many.value], [undefined, "[]"]);
  for (const [code, want] of [["turnstone.size(data=bytes(32 * 2**20 - 64))", String(32 * 2 ** 20 - 64)], ["x = 'é\"' * 5_000_000; turnstone.keep(value=x) == x", "True"], ["x = bytes(range(256)) * 120_000; turnstone.keep(value=x) == x", "True"]]) {
    const result = await session.run(code);
    assert.deepEqual([result.error, result.value], [undefined, want], code);
  }
});

sessionTest("a function cannot run code in the session that waits for it", async (session) => {
  await session.setFunctions({ within: async () => (await session.run("1")).value });
  assert.match((await session.run("import turnstone; turnstone.within()")).error.message, /waits for the function within/);
  assert.equal((await session.run("2")).value, "2");
});

clientTest("calls of a client that is gone fail and name it; a lost connection gives the functions again", async (giver, server) => {
  const session = await giver.create({ name: "main", language: "python" });
  await session.setFunctions({ same: ({ value }) => value });
  const other = await connectWhenReady(server);
  try {
    await assert.rejects(other.session("main").setFunctions({ same: () => 1 }), { kind: "exists" });
    const { connection } = giver;
    connection.transport.destroy();
    await until(async () => connection.lost !== "");
    await until(async () => (await other.call("function/list", { session: "main" })).functions.every((one) => !one.gone));
    assert.equal((await other.session("main").run("import turnstone; turnstone.same(value=5)")).value, "5");
    await giver.close();
    await until(async () => (await other.call("function/list", { session: "main" })).functions.every((one) => one.gone));
    const reply = await runTurn(other.session("main"), "turnstone.same(value=5)");
    const end = reply.events.find((event) => event.type === "turn_ended");
    assert.equal(end.name, "turnstone.ConnectionError");
    assert.match(end.message, /same: ada \(client-\d+, process \d+\), which gave this function, has disconnected/);
  } finally {
    await other.close();
  }
});
