// Tests of private supervisors: they end with their program, in each way in which that can end.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { clientPath, processesWith, repl, Session, sessionTest, TurnstoneError, until } from "./daemon.mjs";

const onlyLinux = { skip: process.platform !== "linux" && "only Linux shows the environment of processes", timeout: 30_000 };

/** Starts a program that uses the client. Its processes have the mark in their environment. */
function program(code, mark, args = []) {
  const source = `const { Session, connect } = await import(${JSON.stringify(clientPath)});\n${code}`;
  return spawn(process.execPath, ["--input-type=module", "--eval", source, ...args], { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, TURNSTONE_TEST_MARK: mark } });
}

async function outputOf(child) {
  let out = "", err = "";
  child.stdout.on("data", (data) => (out += data));
  child.stderr.on("data", (data) => (err += data));
  const [code] = await once(child, "close");
  return { code, out, err };
}

test("await using ends the session and its processes", onlyLinux, async (t) => {
  const mark = randomUUID();
  const isNew = Number(process.versions.node.split(".")[0]) >= 24; // older ones do not have the syntax
  const code = isNew ? 'await using s = await Session.open(); console.log((await s.run("6 * 7")).value);' : 'const s = await Session.open(); console.log((await s.run("6 * 7")).value); await s[Symbol.asyncDispose ?? Symbol.for("nodejs.asyncDispose")]();';
  const child = program(code + `\nconsole.log("gone");`, mark);
  assert.deepEqual(await outputOf(child), { code: 0, out: "42\ngone\n", err: "" });
  await until(() => processesWith(mark).length === 0);
});

for (const [what, code] of [
  ["forgets to close", 'const s = await Session.open(); await s.run("1"); console.log("ready");'],
  ["forgets to close sessions, a client and a reader of events", 'const s = await Session.open(); const o = await Session.open(); await o.run("1"); await s.run("1"); void (async () => { for await (const e of o.events()) if (e.type === "turn_ended") break; console.log("ready"); })();'],
  ["calls process.exit() while code runs", 'const s = await Session.open(); void s.run("import time; time.sleep(600)"); await s.run; setTimeout(() => { console.log("ready"); process.exit(0); }, 300);'],
  ["ends with an error that nobody catches", 'const s = await Session.open(); await s.run("1"); console.log("ready"); throw new Error("mine");'],
]) {
  test(`a program that ${what} ends, and leaves no process`, onlyLinux, async () => {
    const mark = randomUUID();
    assert.equal((await outputOf(program(code, mark))).out, "ready\n");
    await until(() => processesWith(mark).length === 0);
  });
}

for (const signal of ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV"]) {
  test(`a program that is ended by ${signal} leaves no process`, onlyLinux, async () => {
    const mark = randomUUID();
    const child = program('const s = await Session.open(); void s.run("import subprocess, time; subprocess.Popen([\'sleep\', \'600\']); print(1); time.sleep(600)", { onText: () => console.log("ready") });', mark);
    await once(child.stdout, "data");
    await until(() => processesWith(mark).length >= 4);
    child.kill(signal);
    await until(() => processesWith(mark).length === 0);
  });
}

test("a program that is stopped keeps its session, and a killed one with a child that has the pipes does not", onlyLinux, async () => {
  const mark = randomUUID();
  const child = program('const s = await Session.open(); const other = (await import("node:child_process")).spawn("sleep", ["600"], { stdio: "inherit", detached: true, env: {} }); await s.run("1"); console.log(other.pid); await s.run("import time; time.sleep(600)");', mark);
  const [line] = await once(child.stdout, "data"); // the number of a process that holds the output of the program
  child.kill("SIGSTOP");
  await until(() => processesWith(mark).length >= 3);
  child.kill("SIGCONT");
  child.kill("SIGKILL");
  await until(() => processesWith(mark).length === 0);
  process.kill(Number(line), "SIGKILL");
});

test("sessions open and close fifty times", onlyLinux, async () => {
  const mark = randomUUID();
  const child = program(`
    for (let i = 0; i < 13; i++) {
      const all = await Promise.all([1, 2, 3, 4].map(() => Session.open()));
      if (i % 5 === 0) await all[0].run("1");
      await Promise.all(all.map((s) => s.close()));
    }
    const left = () => process.getActiveResourcesInfo().filter((name) => !/TTY|Pipe|Immediate/.test(name)).join();
    for (let i = 0; i < 1000 && left(); i++) await new Promise(setImmediate); // handles close in the next turns of the loop
    console.log(left());`, mark);
  assert.deepEqual(await outputOf(child), { code: 0, out: "\n", err: "" });
  await until(() => processesWith(mark).length === 0);
});

sessionTest("a supervisor that dies is lost, and so is its session", async (session) => {
  await session.run("x = 1");
  const running = session.run("import time; time.sleep(600)");
  const { pid } = await session.client.info();
  process.kill(pid, "SIGKILL");
  for (const call of [running, session.run("1"), session.info()]) {
    await assert.rejects(call, (error) => error.kind === "lost" && /killed by SIGKILL.*open a new one/.test(error.message));
  }
  await session.close();
});

sessionTest("the working directory is the program's, and options reach the session", async (session) => {
  assert.equal((await session.run("import os; print(os.getcwd())")).text, process.cwd() + "\n");
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "turnstone-")));
  const other = await Session.open({ dir: directory, env: { MARK: "a" }, author: "ada", limits: { turn_ms: 60_000 } });
  assert.equal((await other.run("import os; print(os.getcwd(), os.environ['MARK'])")).text, `${directory} a\n`);
  assert.equal((await other.read({})).events.find((event) => event.type === "turn_started").author, "ada");
  await other.close();
  rmSync(directory, { recursive: true });
  await assert.rejects(Session.open({ dir: directory }), { kind: "invalid_spec" });
  await assert.rejects(Session.open({ sandbox: "nonsense" }), TurnstoneError);
  await assert.rejects(Session.open({ signal: AbortSignal.abort(new Error("mine")) }), { message: "mine" });
  await assert.rejects(Session.open({ repl, socket: true }), TypeError);
});

test("the program is the option, TURNSTONE_REPL, the npm package or in PATH", { timeout: 60_000 }, async () => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "turnstone-")));
  const inPackage = join(directory, "node_modules", "@turnstone-repl", `${process.platform}-${process.arch}`, "bin");
  const inPath = join(directory, "bin");
  for (const each of [inPackage, inPath]) mkdirSync(each, { recursive: true });
  const former = [process.cwd(), process.env.PATH, process.env.TURNSTONE_REPL];
  const socketOf = async (options) => {
    const session = await Session.open(options);
    await session.close();
    return session.client.socket;
  };
  try {
    delete process.env.TURNSTONE_REPL;
    process.chdir(directory);
    process.env.PATH = `:.:${inPath}:${former[1]}`;
    symlinkSync(repl, join(directory, "repl")); // the current directory is not searched
    writeFileSync(join(inPath, "repl"), "not executable");
    process.env.PATH = `:.:${inPath}`;
    await assert.rejects(Session.open(), (error) => error.kind === "unreachable" && /npm install turnstone-repl/.test(error.message));
    rmSync(join(inPath, "repl"));
    symlinkSync(repl, join(inPath, "repl"));
    process.env.PATH = `${inPath}:${former[1]}`;
    assert.match(await socketOf(), new RegExp(join(inPath, "repl")));
    writeFileSync(join(inPackage, "repl"), `#!/bin/sh\nexec '${repl}' "$@"\n`, { mode: 0o755 });
    assert.match(await socketOf(), /@turnstone-repl/);
    process.env.TURNSTONE_REPL = join(inPath, "repl");
    assert.match(await socketOf(), new RegExp(join(inPath, "repl")));
    process.env.TURNSTONE_REPL = join(directory, "absent");
    assert.match(await socketOf({ repl }), new RegExp(repl));
    await assert.rejects(Session.open(), /TURNSTONE_REPL is .*absent/);
    writeFileSync(join(directory, "other"), "#!/bin/sh\necho no such option >&2; exit 2\n");
    chmodSync(join(directory, "other"), 0o755);
    await assert.rejects(Session.open({ repl: join(directory, "other") }), (error) => error.kind === "unreachable" && /exit status 2: no such option/.test(error.message));
    writeFileSync(join(directory, "other"), "#!/no/such/interpreter\n");
    await assert.rejects(Session.open({ repl: join(directory, "other") }), (error) => error.kind === "unreachable" && /cannot be started/.test(error.message));
    writeFileSync(join(directory, "other"), "#!/bin/sh\necho hello; exec cat\n");
    await assert.rejects(Session.open({ repl: join(directory, "other") }), { kind: "unreachable" });
  } finally {
    process.chdir(former[0]);
    process.env.PATH = former[1];
    process.env.TURNSTONE_REPL = former[2];
    rmSync(directory, { recursive: true });
  }
});
