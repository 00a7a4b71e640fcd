// Tests of file transfers against a real daemon. The environment variable REPL names the built program.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { appendFileSync, chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { test } from "node:test";

const { connect } = await import(process.env.TURNSTONE_CLIENT ?? "../src/index.ts");
const { get, getFile, listFiles, put, removeFile } = await import(process.env.TURNSTONE_CLIENT ? join(dirname(process.env.TURNSTONE_CLIENT), "transfer.js") : "../src/transfer.ts");

const piece = 1 << 20;

async function connectWhenReady(socket, daemon) {
  for (;;) {
    try {
      return await connect({ socket });
    } catch (error) {
      if (error.kind !== "unreachable" || daemon.exitCode !== null) throw error;
    }
    await pause(20);
  }
}

function transferTest(name, body) {
  test(name, { timeout: 60_000 }, async () => {
    const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
    process.env.XDG_STATE_HOME = directory; // the client looks for the daemon's key there
    const socket = join(directory, "daemon.sock");
    const daemon = spawn(process.env.REPL, ["serve", "--socket", socket, "--quiet"], { stdio: "ignore" });
    const client = await connectWhenReady(socket, daemon);
    const [work, local] = [join(directory, "work"), join(directory, "local")];
    mkdirSync(work);
    mkdirSync(local);
    try {
      await client.create({ name: "main", language: "python", dir: work });
      await body({ name: "main", call: (method, params, options) => client.call(method, params, options) }, work, local);
    } finally {
      await client.close();
      daemon.kill("SIGTERM");
      if (daemon.exitCode === null) await once(daemon, "exit");
      rmSync(directory, { recursive: true, force: true });
    }
  });
}

transferTest("a file goes there and back", async (session, work, local) => {
  const content = randomBytes(2 * piece + 17);
  const path = join(local, "data.bin");
  writeFileSync(path, content);
  chmodSync(path, 0o755);
  const progress = [];
  await put(session, path, { onProgress: (bytes) => progress.push(bytes) });
  assert.deepEqual(progress, [piece, 2 * piece, content.length]);
  assert.ok(content.equals(await get(session, "data.bin")));
  await getFile(session, "data.bin", join(local, "copy.bin"));
  assert.ok(content.equals(readFileSync(join(local, "copy.bin"))));
  assert.ok(statSync(join(local, "copy.bin")).mode & 0o100);
  assert.deepEqual(readdirSync(work), ["data.bin"]);
});

transferTest("data and streams of any size can be put", async (session) => {
  for (const size of [0, 1, piece, piece + 1]) {
    await put(session, Buffer.alloc(size, "x"), { to: "a/b", overwrite: true, parents: true });
    assert.equal((await get(session, "a/b")).length, size);
  }
  await put(session, (async function* () { yield Buffer.from("one"); yield Buffer.from("two"); })(), { to: "c" });
  assert.equal(Buffer.from(await get(session, "c")).toString(), "onetwo");
  await assert.rejects(put(session, Buffer.from("x")), TypeError);
  assert.deepEqual((await listFiles(session)).files.map((f) => [f.path, f.type ?? "file", f.bytes]), [["a", "directory", 0], ["c", "file", 6]]);
  await removeFile(session, "c");
  assert.deepEqual((await listFiles(session, "a")).files.map((f) => f.path), ["a/b"]);
});

transferTest("errors have kinds", async (session, work, local) => {
  const rejects = (promise, kind) => assert.rejects(promise, (error) => error.kind === kind);
  await put(session, Buffer.from("old"), { to: "a" });
  await rejects(put(session, Buffer.from("new"), { to: "a" }), "file_exists");
  await rejects(get(session, "b"), "no_file");
  await rejects(removeFile(session, "b"), "no_file");
  await rejects(put(session, Buffer.from("x"), { to: "../b" }), "no_access");
  writeFileSync(join(work, "grows"), Buffer.alloc(20 * piece)); // more than is read ahead
  await rejects(getFile(session, "grows", join(local, "x"), { onProgress: () => appendFileSync(join(work, "grows"), "y") }), "file_changed");
  assert.deepEqual(readdirSync(local), []);
});

transferTest("a put that is given up leaves nothing", async (session, work) => {
  const stop = new AbortController();
  await assert.rejects(put(session, Buffer.alloc(20 * piece), { to: "a", signal: stop.signal, onProgress: () => stop.abort() }), { name: "AbortError" });
  assert.deepEqual(readdirSync(work), []);
});
