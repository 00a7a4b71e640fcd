// Tests of the client against a real daemon.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { EventEmitter, once } from "node:events";
import { chmodSync, existsSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { test } from "node:test";

import { clientTest, connect, connectWhenReady, defaultSocket, runTurn, text, TurnstoneError } from "./daemon.mjs";

clientTest("a session keeps its variables", async (client) => {
  const session = await client.create({ name: "main", language: "python" });
  await runTurn(session, "x = 41");
  const reply = await runTurn(session, "print(x + 1)");
  assert.deepEqual([reply.outcome, text(reply.events)], ["ok", "42\n"]);
  assert.deepEqual((await client.list()).map((s) => s.name), ["main"]);
  assert.equal((await (await client.open("main")).info()).turn, 2);
});

clientTest("an existing session must be as asked for", async (client) => {
  await client.create({ name: "main", language: "python", limits: { turn_ms: 60_000 } });
  assert.equal((await client.open("main")).language, "python");
  await client.open("main", { language: "python", limits: { turn_ms: 60_000 } });
  for (const other of [{ language: "r" }, { sandbox: "read-only" }, { limits: { turn_ms: 1000 } }]) {
    await assert.rejects(client.open("main", other), { kind: "differs" });
  }
  await assert.rejects(client.open("new", { network: "none" }), /need a sandbox/);
});

clientTest("code that asks gets its answer", async (client) => {
  const session = await client.create();
  let reply = await runTurn(session, "print('hi ' + input('Who? '))");
  assert.deepEqual([reply.state, reply.input_request.prompt], ["waiting", "Who? "]);
  await assert.rejects(session.run("1"), (error) => error instanceof TurnstoneError && error.kind === "waiting" && error.data.input_request.id === reply.input_request.id);
  reply = await session.answer(reply.input_request, "Ada\n");
  assert.match(text(reply.events), /hi Ada/);
});

clientTest("keys reach a program at the terminal", async (client) => {
  const session = await client.create({ name: "main", language: "python" });
  await runTurn(session, "import os");
  await assert.rejects(session.type("x<Enter>"), { kind: "stale" });
  await assert.rejects(session.screen(), { kind: "stale" });
  let reply = await runTurn(session, "os.system('echo name?; read a; echo got $a; read a; echo ${#a} bytes; read a; echo and $a')");
  assert.deepEqual([reply.state, reply.input_request.terminal], ["waiting", true]);
  assert.equal((await session.screen()).lines[0], "name?");
  await assert.rejects(session.type("<Nope>"), { kind: "invalid_params" });
  const turn = await session.type("yes<Enter>");
  assert.equal(turn, reply.turn);
  await session.wait(turn);
  await session.type("hunter2<Enter>", { secret: true });
  await session.wait(turn);
  await session.type(Buffer.from("1 2\r"));
  reply = await session.wait(turn);
  assert.deepEqual([reply.outcome, text(reply.events)], ["ok", "name?\ngot yes\n7 bytes\nand 1 2\n0\n"]);
  const typed = reply.events.filter((e) => e.type === "input_line" && e.keys).map((e) => [e.text, e.secret, e.author]);
  assert.deepEqual(typed.slice(0, 2), [["yes<Enter>", undefined, "ada"], [undefined, true, "ada"]]);
});

clientTest("an aborted call interrupts its turn", async (client) => {
  const session = await client.create();
  await runTurn(session, "import time");
  await assert.rejects(session.run("while True: time.sleep(0.01)", { signal: AbortSignal.timeout(1000) }), { name: "TimeoutError" });
  assert.equal((await session.wait(2)).outcome, "interrupted");
});

clientTest("after an aborted call the next input is taken", async (client) => {
  const session = await client.create({ language: "python" });
  await runTurn(session, "import time");
  for (let i = 0; i < 5; i++) {
    await assert.rejects(session.run("time.sleep(60)", { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
    assert.equal((await session.run("1")).outcome, "ok");
  }
  const asking = await runTurn(session, "input('? '); time.sleep(60)");
  await assert.rejects(session.answer(asking.input_request, "x\n", { signal: AbortSignal.timeout(200) }), { name: "TimeoutError" });
  assert.equal((await runTurn(session, "1")).outcome, "ok");
});

clientTest("after an aborted reset the next input is taken", async (client) => {
  const session = await client.create({ language: "python" });
  await runTurn(session, "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN)");
  for (let i = 0; i < 3; i++) {
    await session.start("while True: time.sleep(60)");
    await assert.rejects(session.reset({ signal: AbortSignal.timeout(1) }), { name: "TimeoutError" });
    assert.equal((await runTurn(session, "import time; 1")).outcome, "ok");
  }
});

clientTest("a reader of events ends with its client, or by its signal", async (client, daemon) => {
  const session = await client.create({ language: "python" });
  await runTurn(session, "1");
  const read = async (options) => {
    for await (const event of session.events(0, options)) if (event.type === "turn_ended") reading.emit("all");
  };
  const reading = new EventEmitter();
  const stop = new AbortController();
  let all = once(reading, "all");
  const aborted = read({ signal: stop.signal });
  await all;
  stop.abort(new Error("mine"));
  await assert.rejects(aborted, { message: "mine" });
  await assert.rejects(read({ signal: AbortSignal.abort(new Error("before")) }), { message: "before" });
  all = once(reading, "all");
  const closed = read();
  await all;
  const ended = assert.rejects(closed, { kind: "unreachable" });
  await client.close();
  await ended;
});

clientTest("params that cannot be sent are an error, and leave no call that is rejected later", async (client) => {
  const circle = {};
  circle.circle = circle;
  for (const params of [{ a: 1n }, circle]) await assert.rejects(client.call("session/list", params), TypeError);
  await client.close();
  await pause(0); // an unhandled rejection fails the test
});

clientTest("code that is not a string is refused, not taken for an empty input", async (client) => {
  const session = await client.create();
  for (const code of [undefined, null, 5]) {
    await assert.rejects(session.run(code), TypeError);
    await assert.rejects(session.start(code), TypeError);
  }
});

clientTest("an error thrown by the caller's function ends only its call", async (client) => {
  const session = await client.create({ language: "python" });
  await assert.rejects(runTurn(session, "import time; time.sleep(60)", { progress: () => { throw new Error("mine"); } }), { message: "mine" });
  await session.interrupt();
  assert.equal((await runTurn(session, "1")).outcome, "ok");
});

clientTest("one signal may serve many calls", async (client) => {
  const session = await client.create({ language: "python" });
  const warned = [];
  const note = (warning) => warned.push(warning.name);
  process.on("warning", note);
  const { signal } = new AbortController();
  const turn = await session.start("import time; time.sleep(0.2)");
  await Promise.all([...Array(20)].map(() => session.wait(turn, { signal })));
  await new Promise((resolve) => setImmediate(resolve)); // warnings come on a later tick
  process.off("warning", note);
  assert.deepEqual(warned, []);
});

clientTest("half a character is refused", async (client) => {
  const session = await client.create({ language: "python" });
  await assert.rejects(runTurn(session, "'\ud800'"), { kind: "invalid_params" });
  assert.equal(text((await runTurn(session, "'\u{1f600}'")).events), "'\u{1f600}'\n");
});

clientTest("a reply is complete", async (client) => {
  const session = await client.create({ language: "python" });
  let reply = await runTurn(session, "import json; print(json.dumps(list(range(100000))))");
  assert.equal(JSON.parse(text(reply.events)).length, 100000);
  reply = await runTurn(session, "for i in range(100000): print(i)");
  assert.deepEqual(text(reply.events).trim().split("\n").map(Number), [...Array(100000).keys()]);
  const asking = await runTurn(session, "input(); print('x' * 500000)");
  reply = await session.answer(asking.input_request, "\n");
  assert.equal(text(reply.events).split("x").length - 1, 500000);
  // Images, one of which is larger than the inline data of a page.
  const image = "class P:\n  def __init__(self, n): self.n = n\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + bytes([self.n]) * (3_000_000 if self.n == 50 else 20_000)\n";
  reply = await runTurn(session, image + "for n in range(90): display(P(n))");
  const shown = reply.events.filter((event) => event.type === "display");
  assert.deepEqual(shown.map((event) => event.data["image/png"].base64.length), Array.from({ length: 90 }, (_, n) => (n === 50 ? 4_000_012 : 26680)));
  assert.ok(shown.every((event) => !event.omitted));
});

clientTest("text() reports missing output", async (client) => {
  const session = await client.create({ language: "python" });
  const reply = await runTurn(session, "for _ in range(70): print('x' * 999999)"); // more than a reply contains
  assert.throws(() => text(reply.events), (error) => error instanceof TurnstoneError && error.kind === "incomplete");
  assert.ok(text(reply.events, { missing: "<cut>" }).includes("<cut>"));
  const gapped = [{ type: "gap", seq: 3, turn: 1, from: 1, to: 3, bytes: 9 }, { type: "text", seq: 4, turn: 1, text: "end" }];
  assert.throws(() => text(gapped), { kind: "incomplete" });
  assert.equal(text(gapped, { missing: "…" }), "…end");
  const halves = [{ type: "text", data: "w6TD" }, { type: "text", stream: "stderr", text: "!" }, { type: "text", data: "tg==" }];
  assert.equal(text(halves), "ä!ö");
});

clientTest("a timeout leaves the turn running", async (client) => {
  const session = await client.create();
  await runTurn(session, "import time");
  const reply = await runTurn(session, "while True: time.sleep(0.01)", { timeout: 200 });
  assert.equal(reply.state, "running");
  assert.ok(["idle", "pending"].includes(await session.interrupt(reply.turn)));
});

clientTest("events are complete, live, and continue after a lost connection", async (client, server) => {
  const session = await client.create();
  await runTurn(session, "print('one')");
  const seen = [];
  for await (const event of session.events()) {
    seen.push(event);
    if (event.type === "turn_ended" && event.turn === 1) {
      client.connection.transport.destroy();
      const other = await connectWhenReady(server);
      await runTurn(other.session(session.name), "print('two')");
      await other.close();
    }
    if (event.type === "turn_ended" && event.turn === 2) break;
  }
  assert.deepEqual(seen.map((e) => e.seq), seen.map((_, k) => k + 1));
  assert.equal(text(seen), "one\ntwo\n");
});

clientTest("events of a slow reader are all there", async (client) => {
  const session = await client.create();
  const running = runTurn(session, "for k in range(30000): print(k)");
  let lines = 0;
  for await (const event of session.events()) {
    if (event.type === "text") lines += event.text.split("\n").length - 1;
    if (event.type === "turn_ended") break;
    if (event.seq % 1000 === 0) await pause(10);
  }
  await running;
  assert.equal(lines, 30000);
});

clientTest("the queue of a reader that does not read is bounded", async (client) => {
  const session = await client.create();
  const events = session.events();
  await events.next();
  await runTurn(session, "for k in range(200000): print(k, 'x' * 100)");
  await client.list(); // everything sent before it has been read
  const [stream] = client.connection.streams.values();
  assert.ok(stream.size < 7 << 20, `${stream.size} bytes wait`);
  let lines = 0;
  for await (const event of events) {
    if (event.type === "text") lines += event.text.split("\n").length - 1;
    if (event.type === "turn_ended") break;
  }
  assert.equal(lines, 200000);
  assert.equal(client.connection.streams.size, 0);
});

clientTest("an abandoned stream is unsubscribed", async (client) => {
  const session = await client.create({ language: "python" });
  const running = runTurn(session, "import time\nwhile True: print(0); time.sleep(0.001)");
  for (let k = 0; k < 100; k++) { // more than a connection may have
    for await (const event of session.events()) if (event.type === "text") break;
  }
  assert.equal(client.connection.streams.size, 0);
  await session.interrupt();
  await running;
});

clientTest("events end with the session", async (client) => {
  const session = await client.create();
  await runTurn(session, "1");
  const types = [];
  for await (const event of session.events()) {
    types.push(event.type);
    if (event.type === "turn_ended") await session.close();
  }
  assert.ok(types.includes("turn_ended"));
});

clientTest("a call to a daemon that has exited fails with a clear error", async (client, server) => {
  const hasty = await connect({ socket: server.socket, reconnectMs: 500 });
  const session = await hasty.create();
  const running = session.run("import time; time.sleep(600)");
  for await (const event of client.session(session.name).events()) if (event.type === "turn_started") break;
  server.daemon.kill("SIGKILL");
  await assert.rejects(running, { kind: "unreachable" });
  await assert.rejects(hasty.list(), { kind: "unreachable" });
  await hasty.close();
  await assert.rejects(connect({ socket: join(tmpdir(), "absent.sock") }), /repl serve/);
});

clientTest("text beyond the basic plane is counted in UTF-16 units", async (client) => {
  const session = await client.create({ language: "python" });
  await runTurn(session, "größe = '😀'");
  const code = "'😀'; größe.uppe";
  const result = await session.complete(code);
  assert.ok(result.matches.some((match) => (code.slice(0, result.start) + match).startsWith("'😀'; größe.upper")), JSON.stringify(result));
});

// withLogin runs body with the environment variables of a login.
async function withLogin(variables, body) {
  const former = Object.fromEntries(Object.keys(variables).map((name) => [name, process.env[name]]));
  const set = (values) => {
    for (const [name, value] of Object.entries(values)) {
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
    }
  };
  set(variables);
  try {
    return await body();
  } finally {
    set(former);
  }
}

clientTest("nothing is sent to a program that proves nothing", async (client, { socket }) => {
  const impostor = socket + ".impostor";
  const got = [];
  const listener = createServer((connection) => {
    connection.on("data", (data) => {
      got.push(String(data));
      connection.write(JSON.stringify({ ok: true, data: { mac: "0".repeat(64), address: impostor, client: "1@" } }) + "\n");
    });
    connection.on("error", () => {});
  }).listen(impostor);
  await once(listener, "listening");
  await assert.rejects(connect({ socket: impostor }), (error) => {
    assert.equal(error.kind, "unreachable");
    assert.match(error.message, /does not prove that it is your daemon, so nothing is sent to it: it does not have your key/);
    return true;
  });
  assert.deepEqual(got.map((line) => JSON.parse(line).type), ["prove"]);
  await new Promise((closed) => listener.close(closed));
  linkSync(socket, impostor); // the daemon itself, at another address
  await assert.rejects(connect({ socket: impostor }), /which is another address/);
  const key = join(dirname(socket), "turnstone", "daemon.key");
  chmodSync(key, 0o644);
  await assert.rejects(connect({ socket }), (error) => error.message.includes(key));
  chmodSync(key, 0o600);
});

test("the daemon is found from another login", { timeout: 60_000, concurrency: false }, async () => {
  const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
  const [run, state, tmp, other, long] = ["run", "state", "tmp", "other", "d".repeat(120)].map((name) => join(directory, name));
  for (const made of [run, state, tmp, other, long]) mkdirSync(made, { mode: 0o700 });
  const login = { XDG_RUNTIME_DIR: run, XDG_STATE_HOME: state, TMPDIR: tmp, TURNSTONE_SOCKET: undefined };
  const elsewhere = { ...login, XDG_RUNTIME_DIR: undefined, TMPDIR: other };
  const socket = join(run, "turnstone", "daemon.sock");
  assert.equal(await withLogin(login, defaultSocket), socket);
  const daemon = await withLogin(login, () => spawn(process.env.REPL, ["serve", "--quiet"], { stdio: "ignore" }));
  try {
    while ((await withLogin(elsewhere, defaultSocket)) !== socket) await pause(20);
    const client = await withLogin(elsewhere, connect);
    assert.deepEqual(await client.list(), []);
    await client.close();
  } finally {
    daemon.kill("SIGKILL");
    await once(daemon, "exit");
  }
  assert.notEqual(await withLogin(elsewhere, defaultSocket), socket); // the note of a dead daemon is not trusted
  const ownTmp = join(tmp, `turnstone-${process.getuid()}`, "daemon.sock");
  mkdirSync(dirname(ownTmp), { recursive: true, mode: 0o700 });
  const listener = createServer((connection) => connection.resume().end("{}\n")).listen(ownTmp).unref();
  await once(listener, "listening");
  assert.ok(existsSync(socket)); // the daemon has left it behind
  assert.equal(await withLogin(login, defaultSocket), socket); // the other socket is not a daemon's
  await new Promise((closed) => listener.close(closed));
  const living = await withLogin(login, () => spawn(process.env.REPL, ["serve", "--quiet", "--socket", ownTmp], { stdio: "ignore" }));
  while ((await withLogin(login, defaultSocket)) !== ownTmp) await pause(20);
  living.kill("SIGKILL");
  await once(living, "exit");
  const own = join(other, `turnstone-${process.getuid()}`, "daemon.sock");
  assert.equal(await withLogin({ ...elsewhere, XDG_RUNTIME_DIR: long, XDG_STATE_HOME: long }, defaultSocket), own);
  rmSync(directory, { recursive: true, force: true });
});

test("a note that leads to no daemon is skipped", { timeout: 60_000, concurrency: false }, async () => {
  const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
  const [run, state, tmp] = ["run", "state", "tmp"].map((name) => join(directory, name));
  const own = join(tmp, `turnstone-${process.getuid()}`), ofState = join(state, "turnstone");
  for (const made of [run, state, tmp, own, ofState]) mkdirSync(made, { mode: 0o700 });
  const login = { XDG_RUNTIME_DIR: run, XDG_STATE_HOME: state, TMPDIR: tmp, TURNSTONE_SOCKET: undefined };
  const socket = join(run, "turnstone", "daemon.sock");
  const daemon = await withLogin(login, () => spawn(process.env.REPL, ["serve", "--quiet"], { stdio: "ignore" }));
  const noteIn = (directory) => readdirSync(directory).find((name) => /^daemon-.*\.json$/.test(name));
  try {
    while (!existsSync(socket) || !noteIn(ofState)) await pause(20);
    const name = noteIn(ofState);
    const note = JSON.parse(readFileSync(join(ofState, name), "utf8"));
    for (const directory of [own, ofState]) {
      writeFileSync(join(directory, "new"), JSON.stringify({ ...note, socket: join(tmp, "none") }), { mode: 0o600 });
      renameSync(join(directory, "new"), join(directory, name));
      assert.equal(await withLogin(login, defaultSocket), socket);
    }
    const elsewhere = join(directory, "elsewhere"); // which has no note but a session's
    mkdirSync(join(elsewhere, "turnstone"), { recursive: true, mode: 0o700 });
    const before = { ...login, XDG_STATE_HOME: elsewhere, XDG_RUNTIME_DIR: elsewhere };
    assert.equal(await withLogin(before, defaultSocket), join(elsewhere, "turnstone", "daemon.sock"));
  } finally {
    daemon.kill("SIGKILL");
    await once(daemon, "exit");
  }
  rmSync(directory, { recursive: true, force: true });
});
