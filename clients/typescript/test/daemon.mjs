// What the tests share. The environment variable REPL names the built program, and TURNSTONE_CLIENT the built client.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { test } from "node:test";

export const clientPath = process.env.TURNSTONE_CLIENT ?? new URL("../src/index.ts", import.meta.url).href;
export const { Client, CodeError, connect, defaultSocket, Result, Session, text, TurnstoneError } = await import(clientPath);
export const repl = process.env.REPL;
process.env.TURNSTONE_REPL = repl; // of private supervisors

export function serve(directory) {
  const socket = join(directory, "daemon.sock");
  process.env.XDG_STATE_HOME = directory; // the client looks for the daemon's key there
  const daemon = spawn(repl, ["serve", "--socket", socket, "--quiet"], { stdio: "ignore" });
  return { socket, daemon };
}

export async function connectWhenReady({ socket, daemon }, options = {}) {
  for (;;) {
    try {
      return await connect({ socket, ...options });
    } catch (error) {
      if (error.kind !== "unreachable" || daemon.exitCode !== null) throw error;
    }
    await pause(20);
  }
}

export async function stop(daemon, signal = "SIGTERM") {
  if (daemon.exitCode !== null || daemon.signalCode !== null) return;
  daemon.kill(signal);
  await once(daemon, "exit");
}

export function clientTest(name, body) {
  test(name, { timeout: 120_000 }, async () => {
    const directory = mkdtempSync(join(tmpdir(), "turnstone-"));
    const server = serve(directory);
    const client = await connectWhenReady(server, { author: "ada" });
    try {
      await body(client, server);
    } finally {
      await client.close();
      await stop(server.daemon);
      rmSync(directory, { recursive: true, force: true });
    }
  });
}

/** Runs a test in a session with a private supervisor. */
export function sessionTest(name, body, options = {}) {
  test(name, { timeout: 120_000, ...options }, async () => {
    const session = await Session.open();
    try {
      await body(session);
    } finally {
      await session.close().catch(() => {});
    }
  });
}

/** Runs code and returns the reply of the daemon. */
export async function runTurn(session, code, options) {
  return session.wait(await session.start(code), options);
}

/** Returns the processes whose command line or environment has a text; only on Linux. */
export function processesWith(text) {
  return readdirSync("/proc").filter((pid) => {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) return false;
    try {
      if (readFileSync(`/proc/${pid}/stat`, "utf8").split(") ").at(-1).startsWith("Z")) return false;
      return ["cmdline", "environ"].some((file) => readFileSync(`/proc/${pid}/${file}`, "utf8").includes(text));
    } catch {
      return false;
    }
  });
}

/** Waits until a condition holds. */
export async function until(holds) {
  while (!(await holds())) await pause(20);
}
