// The client of a daemon. It connects again when its connection is lost, and repeats what it may repeat.
import { randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { Connection, type CallOptions } from "./connection.ts";
import { asyncDispose } from "./dispose.ts";
import { hasKind, LostConnection, TurnstoneError } from "./error.ts";
import type { Follower } from "./follower.ts";
import { FunctionHost } from "./functions.ts";
import { Session } from "./session.ts";
import { SocketDialer, type Dialer } from "./socket.ts";
import { protocol, type Daemon, type Methods, type Session as Description } from "./wire.ts";

// Bounds, in milliseconds.
const reconnectTimeout = 30_000; // from the loss of a connection until its calls fail
const reconnectPauses = [50, 100, 200, 500, 1000, 2000];
const maxLosses = 8; // of connections in a row during one call: it may be the reason
const maxIdleFollowers = 32; // subscriptions kept for the next run(); the daemon allows 64 on a connection

/** Methods that change something. A request id lets the daemon answer a repetition without a second effect. */
const changes = new Set<string>(["session/create", "session/reset", "session/close", "turn/start", "turn/input", "turn/type", "turn/interrupt", "file/remove"]);
/** Only these are repeated at another daemon: they have no effect. */
const reads = ["server/", "connection/list", "session/list", "session/get", "timeline/", "output/", "query/", "blob/", "file/list", "file/get", "turn/wait"];

export interface ConnectOptions {
  /** The address of the daemon; the default is the user's own. */
  socket?: string | undefined;
  /** The name under which inputs, answers and interrupts are recorded. */
  author?: string | undefined;
  /** How long calls wait for a new connection after a loss, in milliseconds; the default is 30 s. */
  reconnectMs?: number | undefined;
}

/** Connects to the daemon, within 5 s. */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const client = new Client(new SocketDialer(options.socket), options);
  await client.connected();
  return client;
}

/** A client of one daemon. Use connect() to make one. */
export class Client {
  readonly author: string;
  private readonly dialer: Dialer;
  private readonly reconnectMs: number;
  private readonly id = randomBytes(24).toString("base64url"); // names this client to the daemon on each of its connections
  private epoch = 0;
  private connection: Connection | undefined;
  private dialing: Promise<Connection> | undefined;
  private lostAt = 0;
  private lastRequest = 0;
  private idle = new Map<Follower, Session>(); // whose subscription waits for the next run()
  /** @internal */
  isClosed = false;
  /** @internal The functions of this program, for the code of sessions. */
  readonly functions: FunctionHost = new FunctionHost(this);

  /** @internal */
  constructor(dialer: Dialer, options: Pick<ConnectOptions, "author" | "reconnectMs"> = {}) {
    this.dialer = dialer;
    this.author = options.author ?? "";
    this.reconnectMs = options.reconnectMs ?? reconnectTimeout;
  }

  /** The address of the daemon. */
  get socket(): string {
    return this.dialer.address;
  }

  /** Ends the connection. The sessions stay alive. A running events() ends with an error. */
  async close(): Promise<void> {
    this.isClosed = true;
    await this.dialing?.catch(() => {});
    await this.connection?.close();
  }

  async [asyncDispose](): Promise<void> {
    await this.close();
  }

  // ---- the connection

  /** @internal Returns the connection. If it was lost, it connects again, together with all other calls. */
  async connected(signal?: AbortSignal): Promise<Connection> {
    for (;;) {
      if (this.isClosed) throw new TurnstoneError("unreachable", `the connection to the daemon at ${this.socket} is closed`);
      if (this.connection && !this.connection.lost) return this.connection;
      this.dialing ??= this.dialAgain().finally(() => (this.dialing = undefined));
      await abortable(this.dialing, signal);
    }
  }

  /** Connects. After a loss, it tries until reconnectMs are over, and at least once. */
  private async dialAgain(): Promise<Connection> {
    const isFirst = !this.connection;
    if (!isFirst && this.lostAt === 0) this.lostAt = performance.now();
    for (let attempt = 0; ; attempt++) {
      const wait = reconnectPauses[Math.min(attempt, reconnectPauses.length - 1)]!;
      try {
        this.connection = await this.dial();
        this.lostAt = 0;
        return this.connection;
      } catch (error) {
        if (isFirst || this.isClosed || !hasKind(error, "unreachable") || performance.now() + wait >= this.lostAt + this.reconnectMs) throw error;
      }
      await pause(wait);
    }
  }

  private async dial(): Promise<Connection> {
    const connection = new Connection(await this.dialer.dial());
    let timer: NodeJS.Timeout | undefined;
    try {
      const late = new Promise<never>((_, reject) => {
        timer = setTimeout(() => reject(new TurnstoneError("unreachable", `the program at ${this.socket} does not answer like a daemon`)), this.dialer.timeout);
      });
      const about = await Promise.race([connection.call("client/hello", { id: this.id, epoch: ++this.epoch }), late]);
      if (about.protocol !== protocol) throw new TurnstoneError("protocol", protocolMessage(this.socket, about.version, about.protocol));
      connection.daemon = { pid: about.pid, started: about.started };
      connection.isKnown = about.known === true;
      connection.functions = this.functions;
      this.functions.connected(connection);
      return connection;
    } catch (error) {
      await connection.close();
      if (!(error instanceof LostConnection)) throw error;
      throw this.gone(error.message);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @internal */
  gone(why: string): TurnstoneError {
    return new TurnstoneError("unreachable", this.dialer.fault() || `the connection to the daemon at ${this.socket} ended: ${why}`);
  }

  /** @internal Keeps the subscription of a session for its next run(). The one that was not used for longest ends. */
  async keepFollower(follower: Follower, session: Session): Promise<void> {
    this.idle.set(follower, session);
    if (this.idle.size <= maxIdleFollowers) return;
    const [oldest, its] = this.idle.entries().next().value!;
    this.idle.delete(oldest);
    await its.dropFollower();
  }

  /** @internal */
  forgetFollower(follower: Follower): void {
    this.idle.delete(follower);
  }

  // ---- calls

  /**
   * Calls a method of docs/daemon-protocol.md.
   *
   * If the connection is lost, the call is repeated on the next one, and its effect happens once. If the
   * daemon was restarted in between, only calls without an effect are repeated. The error of the others
   * has the kind "outcome_unknown".
   */
  call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options: CallOptions = {}): Promise<Methods[M]["result"]> {
    return this.callFor(undefined, method, params, options);
  }

  /** @internal Makes a call for a session, which exists only at one daemon. */
  async callFor<M extends keyof Methods>(session: Session | undefined, method: M, given: Methods[M]["params"], options: CallOptions = {}): Promise<Methods[M]["result"]> {
    let params = given as { request?: string; wait_ms?: number };
    if (changes.has(method) && params.request === undefined) params = { ...params, request: this.newRequest() };
    const start = performance.now();
    let before: Connection | undefined;
    for (let losses = 0; ; losses++) {
      options.signal?.throwIfAborted();
      const connection = await this.connected(options.signal);
      if (before) {
        checkRepetition(method, before, connection);
        if (params.wait_ms) params = { ...params, wait_ms: Math.max(1, Math.floor((given as { wait_ms: number }).wait_ms - (performance.now() - start))) };
      }
      session?.checkDaemon(connection);
      try {
        return await connection.call(method, params as Methods[M]["params"], options);
      } catch (error) {
        if (!(error instanceof LostConnection)) throw error;
        if (losses >= maxLosses) throw this.gone(error.message);
        before = connection;
      }
    }
  }

  /** @internal Returns a name for a call that changes something. */
  newRequest(): string {
    return (++this.lastRequest).toString(36);
  }

  // ---- the daemon

  /** Describes the daemon. */
  info(): Promise<Daemon> {
    return this.call("server/info", {});
  }

  /** Describes all sessions, by name. */
  async list(): Promise<Description[]> {
    return (await this.call("session/list", {})).sessions;
  }

  /** Creates a session. Without a name, the daemon chooses one, and `await using` closes the session at its end. */
  async create(params: Methods["session/create"]["params"] = {}, options: CallOptions = {}): Promise<Session> {
    const { name, language } = await this.call("session/create", params, options);
    return new Session(this, name, { after: 0, closes: !params.name, language, connection: this.connection });
  }

  /**
   * Returns the session with this name, and creates it if it does not exist. If it exists with another
   * language, sandbox or limits than the params ask for, the error is of the kind "differs".
   */
  async open(name: string, params: Omit<Methods["session/create"]["params"], "name"> = {}, options: CallOptions = {}): Promise<Session> {
    try {
      return await this.create({ ...params, name }, options);
    } catch (error) {
      if (!hasKind(error, "exists")) throw error;
    }
    const { language } = await this.call("session/get", { session: name }, options);
    return new Session(this, name, { language, connection: this.connection });
  }

  /** Returns the session with this name. It does no I/O. */
  session(name: string): Session {
    return new Session(this, name, { connection: this.connection });
  }
}

/** Says which side is older, and how to go on. */
function protocolMessage(socket: string, version: string, theirs: number): string {
  const [age, advice] = theirs > protocol ? ["newer", "upgrade this client, or "] : ["older", ""];
  return `the daemon at ${socket} is ${age} than this client: version ${version} speaks protocol ${theirs}, and this client speaks ${protocol}; ${advice}end the daemon, its sessions and their variables with repl daemon drain`;
}

/** Refuses to repeat a call that may have had its effect. */
function checkRepetition(method: string, before: Connection, connection: Connection): void {
  const unknown = (why: string): TurnstoneError => new TurnstoneError("outcome_unknown", `${why}; ${method} was not repeated and may have had its effect`);
  if (!isSameDaemon(before, connection)) {
    if (!reads.some((prefix) => method.startsWith(prefix))) throw unknown(`the daemon was restarted at ${connection.daemon.started} and its sessions are gone`);
  } else if (changes.has(method) && !connection.isKnown) throw unknown("the daemon forgot this client while the connection was down");
}

/** Reports whether two connections lead to the same run of a daemon. */
export function isSameDaemon(one: Connection, other: Connection): boolean {
  return one.daemon.pid === other.daemon.pid && one.daemon.started === other.daemon.started;
}

/** Waits for a promise, or until the signal aborts. */
export function abortable<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return promise;
  return new Promise<T>((resolve, reject) => {
    const abort = (): void => reject(signal.reason);
    if (signal.aborted) abort();
    signal.addEventListener("abort", abort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
  });
}
