// A supervisor of this program's own: repl serve --stdio, a child that speaks the daemon's protocol on two pipes.
import { spawn } from "node:child_process";
import type { Socket } from "node:net";
import { StringDecoder } from "node:string_decoder";
import type { Transport } from "./connection.ts";
import { TurnstoneError } from "./error.ts";
import { findProgram } from "./program.ts";
import type { Dialer } from "./socket.ts";

// Bounds, in milliseconds and characters.
const startTimeout = 30_000;
const endTimeout = 12_000; // the supervisor takes at most 10 s to end its sessions
const errorTextTimeout = 200; // for the rest of standard error, once the supervisor has ended
const maxErrorText = 4096;

/** Starts the supervisor, once: its sessions end with it. */
export class PrivateDialer implements Dialer {
  address = "a private supervisor";
  readonly timeout = startTimeout;
  private readonly repl: string | undefined;
  private started = false;
  private ending = ""; // how it ended
  private errors = ""; // the end of its standard error

  constructor(repl: string | undefined) {
    this.repl = repl;
  }

  fault(): string {
    return this.ending && `${this.ending}${this.errors.trim() ? `: ${this.errors.trim()}` : ""}`;
  }

  async dial(): Promise<Transport> {
    if (this.started) throw new TurnstoneError("lost", `${this.fault() || `${this.address} ended`}; its sessions are gone with it: open a new one`);
    this.started = true;
    const program = findProgram(this.repl);
    this.address = `a private supervisor (${program})`;
    // The child watches this process, too: another process may hold the pipes.
    const child = spawn(program, ["serve", "--stdio", "--parent", String(process.pid)], { stdio: ["pipe", "pipe", "pipe"], windowsHide: true });
    const { stdin, stdout, stderr } = child as unknown as { stdin: Socket | undefined; stdout: Socket; stderr: Socket };
    let settle!: () => void;
    const closed = new Promise<void>((resolve) => (settle = resolve));
    child.on("error", (error) => {
      this.ending = `${this.address} cannot be started: ${error.message}`;
      stdout?.destroy();
      settle();
    });
    if (!stdin) { // no file descriptors are left
      await closed;
      throw new TurnstoneError("unreachable", this.ending);
    }
    const decoder = new StringDecoder("utf8");
    stderr.on("data", (bytes: Buffer) => (this.errors = (this.errors + decoder.write(bytes)).slice(-maxErrorText)));
    stderr.on("error", () => {});
    stderr.unref();
    child.on("exit", (code, signal) => {
      this.ending ||= `${this.address} has ended: ${signal ? `killed by ${signal}` : `exit status ${code}`}`;
      setTimeout(settle, errorTextTimeout); // another process may keep standard error open
    });
    child.on("close", () => settle());
    const keepAlive = (on: boolean): void => {
      for (const handle of [child, stdin, stdout]) on ? handle.ref() : handle.unref();
    };
    return {
      readable: stdout,
      writable: stdin,
      closed,
      keepAlive,
      destroy: () => {
        if (stdin.destroyed) return;
        stdin.on("error", () => {});
        stdin.end();
        stdin.destroySoon();
        stdout.resume();
        const timer = setTimeout(() => child.kill("SIGKILL"), endTimeout);
        void closed.then(() => clearTimeout(timer));
      },
    };
  }
}
