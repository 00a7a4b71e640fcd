// Connects to the daemon at a socket, and verifies that it is this user's.
import { existsSync, statSync } from "node:fs";
import { connect } from "node:net";
import type { Transport } from "./connection.ts";
import { defaultSocket, faultOf } from "./discovery.ts";
import { TurnstoneError } from "./error.ts";

/** Makes connections to one daemon. */
export interface Dialer {
  /** Where the daemon is, for messages. */
  readonly address: string;
  /** How long the daemon may take to answer the first call, in milliseconds. */
  readonly timeout: number;
  /** Connects. A daemon that cannot be reached is a TurnstoneError of kind "unreachable". */
  dial(): Promise<Transport>;
  /** Returns why a connection that ended cannot be made again, or "". */
  fault(): string;
}

const dialTimeout = 5_000; // milliseconds

/** Dials a socket; without a path, the user's own daemon, which may have moved since the last time. */
export class SocketDialer implements Dialer {
  address: string;
  readonly timeout = dialTimeout;
  private readonly path: string | undefined;

  constructor(path?: string) {
    this.path = path;
    this.address = path ?? "the default socket";
  }

  fault(): string {
    return "";
  }

  async dial(): Promise<Transport> {
    const path = (this.address = this.path ?? (await defaultSocket()));
    if (process.platform !== "win32" && existsSync(path)) {
      const owner = statSync(path).uid;
      if (owner !== process.getuid!() && owner !== 0) throw new TurnstoneError("unreachable", `${path} belongs to user ${owner}, who would see your code`);
    }
    const socket = connect(path);
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => socket.destroy(new Error("no answer within 5 s")), dialTimeout);
      socket.once("connect", () => (clearTimeout(timer), resolve()));
      socket.once("error", (error) => (clearTimeout(timer), reject(new TurnstoneError("unreachable", `no daemon answers at ${path} (${error.message}); start one with repl serve`))));
    });
    const fault = await faultOf(path, socket, dialTimeout);
    if (fault) {
      socket.destroy();
      throw new TurnstoneError("unreachable", `the program that listens at ${path} does not prove that it is your daemon, so nothing is sent to it: ${fault}`);
    }
    return {
      readable: socket,
      writable: socket,
      closed: new Promise((resolve) => socket.once("close", () => resolve())),
      keepAlive: (on) => void (on ? socket.ref() : socket.unref()),
      destroy: () => void socket.destroy(),
    };
  }
}
