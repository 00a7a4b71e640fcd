import { resolve as absolute } from "node:path";
import { Client, isSameDaemon } from "./client.ts";
import type { CallOptions, Connection } from "./connection.ts";
import { asyncDispose } from "./dispose.ts";
import { TurnstoneError } from "./error.ts";
import { Follower } from "./follower.ts";
import { refuseWithin, type Functions } from "./functions.ts";
import { complement } from "./reply.ts";
import type { Result } from "./result.ts";
import { Run, type RunOptions } from "./run.ts";
import { SocketDialer } from "./socket.ts";
import { PrivateDialer } from "./supervisor.ts";
import { get, getFile, listFiles, put, removeFile, type GetOptions, type PutOptions } from "./transfer.ts";
import type { Completion, CreateParams, Event, EventPage, FileList, InputRequest, Methods, Output, OutputParams, ReadParams, Reply, Screen, Session as Description, Variables } from "./wire.ts";

const maxWait = 24 * 60 * 60 * 1000; // milliseconds; the daemon accepts no longer wait

/** Options of calls that wait. */
export interface WaitOptions extends CallOptions {
  /** How long to wait, in milliseconds. The turn continues after that. */
  timeout?: number | undefined;
}

/** What Session.open() opens. The other options are those of session/create in docs/daemon-protocol.md. */
export interface OpenOptions extends Omit<CreateParams, "progressToken" | "request"> {
  /** The daemon to use: true is the user's own, and a string the address of one. Without it, the session has a private supervisor. */
  socket?: boolean | string | undefined;
  /** The program repl, for a private supervisor. */
  repl?: string | undefined;
  /** The name under which inputs, answers and interrupts are recorded. */
  author?: string | undefined;
  /** How long calls wait for a new connection after a loss, in milliseconds; the default is 30 s. */
  reconnectMs?: number | undefined;
  /** Functions of this program for its code, as setFunctions() gives them. */
  functions?: Functions | undefined;
  /** Ends the call. */
  signal?: AbortSignal | undefined;
}

/** A session of Python, R or another language: an interpreter that keeps its variables. */
export class Session {
  readonly client: Client;
  readonly name: string;
  /** "" if the session was not made by this client. */
  readonly language: string;
  private readonly closes: boolean; // the session ends with `await using`
  private ownsClient = false;
  private daemon: Connection | undefined; // a connection to the daemon that has it
  private after: number | undefined; // cursor of run(); undefined is the end of the events
  private follower: Follower | undefined;
  private last: Promise<unknown> = Promise.resolve(); // the run() before
  /** @internal The generation of a worker whose end is in a result. */
  reportedEnd = -1;

  /** @internal */
  constructor(client: Client, name: string, made: { after?: number; closes?: boolean; language?: string; connection: Connection | undefined }) {
    this.client = client;
    this.name = name;
    this.language = made.language ?? "";
    this.after = made.after;
    this.closes = made.closes ?? false;
    this.daemon = made.connection;
  }

  /**
   * Opens a session, by default of Python. Without a socket it runs in a private supervisor, which ends
   * with the session and with this program. At a daemon, the session with the given name is used if there
   * is one. There `await using` closes a session without a name; one with a name stays.
   */
  static async open(options: OpenOptions = {}): Promise<Session> {
    const { socket, repl, author, reconnectMs, signal, name, functions, ...params } = options;
    if (repl !== undefined && socket) throw new TypeError("repl is the program of a private supervisor, and socket a daemon that runs: use one of them");
    const client = new Client(socket ? new SocketDialer(socket === true ? undefined : socket) : new PrivateDialer(repl), { author, reconnectMs });
    const create: CreateParams = defined({ language: "python", ...params, dir: absolute(params.dir ?? ".") });
    try {
      await client.connected(signal);
      const opened = await (name ? client.open(name, create, { signal }) : client.create(create, { signal }));
      const session = new Session(client, opened.name, { ...opened.made(), closes: !(name && socket) });
      if (functions) await session.setFunctions(functions);
      session.ownsClient = true;
      return session;
    } catch (error) {
      await client.close();
      throw error;
    }
  }

  private made(): { after?: number; language: string; connection: Connection | undefined } {
    return { language: this.language, ...(this.after === undefined ? {} : { after: this.after }), connection: this.daemon };
  }

  /** Ends the session permanently, and its private supervisor. */
  async close(): Promise<void> {
    try {
      if (!this.client.isClosed) await this.call("session/close", { session: this.name });
    } catch (error) {
      if (!this.ownsClient) throw error; // its connection ends now
    } finally {
      await this.leave();
    }
  }

  async [asyncDispose](): Promise<void> {
    if (!this.closes) return this.leave();
    await this.close().catch((error) => {
      if (!(error instanceof TurnstoneError)) throw error; // it is gone already
    });
  }

  private async leave(): Promise<void> {
    if (this.ownsClient) await this.client.close();
    await this.dropFollower();
  }

  // ---- run

  /**
   * Runs code, and returns what became of it. An error of the code is in the result, and is not thrown.
   *
   * The calls on one object run one after the other, in their order. If another client's code runs, the
   * error has the kind "busy"; with queue the call waits for its turn.
   *
   * When run() settles, the session is free. An abort and timeoutMs interrupt the code, twice if needed.
   * If it goes on, the session is reset if resetStuck is set. Otherwise the error has the kind
   * "still_running".
   */
  run(code: string, options: RunOptions = {}): Promise<Result> {
    if (Run.isInside(this)) return Promise.reject(new TurnstoneError("busy", "a function that run() calls cannot run code in the same session; use the result of run()"));
    try {
      refuseWithin(this.name);
    } catch (error) {
      return Promise.reject(error);
    }
    const run = new Run(this, code, options);
    const mine = this.last.then(() => run.finish());
    this.last = mine.catch(() => {});
    return run.abortedBefore(mine);
  }

  /** @internal Returns what reads the events for the next run. Its subscription is kept from run to run. */
  async takeFollower(): Promise<Follower> {
    let { follower } = this;
    this.follower = undefined;
    if (follower) this.client.forgetFollower(follower);
    if (follower?.isBehind) {
      await follower.close(); // other clients have written much: what they did is not for this run
      follower = this.after = undefined;
    }
    if (!follower) {
      this.after ??= (await this.info()).last_seq ?? 0;
      follower = new Follower(this, this.after);
      await follower.subscribe();
    }
    return follower;
  }

  /** @internal */
  async returnFollower(follower: Follower, isWhole: boolean): Promise<void> {
    this.after = follower.after;
    if (this.client.isClosed || !isWhole) return follower.close();
    this.follower = follower;
    await this.client.keepFollower(follower, this);
  }

  /** @internal */
  async dropFollower(): Promise<void> {
    const { follower } = this;
    this.follower = undefined;
    if (!follower) return;
    this.client.forgetFollower(follower);
    this.after = follower.after;
    await follower.close();
  }

  // ---- calls

  /** @internal Refuses a call at a daemon that never had this session, but perhaps another one of that name. */
  checkDaemon(connection: Connection): void {
    this.daemon ??= connection;
    if (!isSameDaemon(this.daemon, connection)) throw new TurnstoneError("no_session", `the daemon was restarted at ${connection.daemon.started}, so session ${this.name} and its variables are gone; open a new one`);
  }

  /** @internal */
  call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options: CallOptions = {}): Promise<Methods[M]["result"]> {
    return this.client.callFor(this, method, params, options);
  }

  /** @internal */
  signed(): { author?: string } {
    return this.client.author ? { author: this.client.author } : {};
  }

  /**
   * Gives functions of this program to the code of the session, in place of those before. Code calls them
   * with "from turnstone import NAME" in Python, and turnstone$NAME() in R. An error is raised in the
   * code, under its name. When the code is interrupted, the signal of the call aborts.
   *
   * They can be called while this client is connected. It gives them again after a lost connection.
   */
  setFunctions(functions: Functions): Promise<void> {
    return this.client.functions.give(this, functions);
  }

  /**
   * Puts a local file, or data, into the working directory of the session. The file appears when it is
   * complete. Of its attributes only the right to execute is kept.
   */
  put(source: string | Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions = {}): Promise<void> {
    return put(this, source, options);
  }

  /**
   * Returns the content of a file of the working directory. An error of kind "file_changed" means that the
   * file was changed while it was read. "session:NAME" is a file of the session's own directory.
   */
  get(path: string, options: GetOptions = {}): Promise<Uint8Array> {
    return get(this, path, options);
  }

  /** Writes a file of the working directory to a local file, which is replaced once the content is complete. */
  getFile(path: string, to: string, options: GetOptions = {}): Promise<void> {
    return getFile(this, path, to, options);
  }

  /** Lists a directory by name; "" is the working directory, and "session:" the session's own one. */
  listFiles(path = ""): Promise<FileList> {
    return listFiles(this, path);
  }

  /** Removes a file or a link, but no directory. */
  removeFile(path: string): Promise<void> {
    return removeFile(this, path);
  }

  /** Starts a turn and returns its number. Clients that display a session skip a silent turn. */
  async start(code: string, options: { silent?: boolean } = {}): Promise<number> {
    return (await this.call("turn/start", { session: this.name, input: checked(code), ...(options.silent ? { silent: true } : {}), ...this.signed() })).turn;
  }

  /**
   * Waits until a turn is over or asks for input; 0 is the active one. The reply has the events after the
   * cursor, and up to 64 MiB of output. Of larger output it has the beginning and the end, and an
   * "omitted" event that names the events in between.
   */
  async wait(turn = 0, options: WaitOptions & { after?: number } = {}): Promise<Reply> {
    return complement(this, await this.call("turn/wait", { session: this.name, turn, after: options.after ?? 0, wait_ms: milliseconds(options) }, options));
  }

  /** Answers an input request, then waits as wait() does. A line needs a newline at its end. An abort interrupts the turn. */
  async answer(request: number | InputRequest, answer: string, options: WaitOptions & { eof?: boolean } = {}): Promise<Reply> {
    const id = typeof request === "number" ? request : request.id;
    return complement(this, await this.call("turn/input", { session: this.name, input_request: id, input: answer, wait_ms: milliseconds(options), ...(options.eof ? { eof: true } : {}), ...this.signed() }, options));
  }

  /**
   * Types keys for a program that the code has started at the terminal, and returns the turn. A string
   * is text with named keys, such as "yes<Enter>" or "<Down><C-c>": docs/sessions.md lists the names.
   * Nothing is added, not even Enter. Bytes are typed unchanged. The option secret keeps the keys out of
   * the session's record. The call does not wait until they are typed: wait() returns the output, and
   * screen() shows what the program draws. Between turns the error is of kind "stale", and of kind
   * "waiting" while the code itself asks for input.
   */
  async type(keys: string | Uint8Array, options: { secret?: boolean } = {}): Promise<number> {
    const typed = keys instanceof Uint8Array ? { bytes: Buffer.from(keys).toString("base64") } : { text: checked(keys) };
    return (await this.call("turn/type", { session: this.name, ...typed, ...(options.secret ? { secret: true } : {}), ...this.signed() })).turn;
  }

  /** Returns what the programs of the running turn show on the terminal. Between turns the error is of kind "stale". */
  screen(): Promise<Screen> {
    return this.call("session/screen", { session: this.name });
  }

  /** Interrupts a turn, and returns the result; 0 is the active turn. */
  async interrupt(turn = 0): Promise<string> {
    return (await this.call("turn/interrupt", { session: this.name, ...(turn ? { turn } : { active: true }), ...this.signed() })).result;
  }

  /** Describes the session now. */
  info(): Promise<Description> {
    return this.call("session/get", { session: this.name });
  }

  /** Ends the runtime, even while it is busy, and starts a new one. An aborted reset continues, and the call waits up to 5 s for it. */
  reset(options: Pick<CallOptions, "signal"> = {}): Promise<Description> {
    return this.call("session/reset", { session: this.name }, options);
  }

  /** Returns completions of code at cursor. The cursor and the result's start count UTF-16 units. */
  async complete(code: string, cursor = code.length): Promise<Completion> {
    const result = await this.call("query/complete", { session: this.name, text: code, cursor: Buffer.byteLength(code.slice(0, cursor)) });
    return { ...result, start: Buffer.from(code).subarray(0, result.start).toString().length };
  }

  /** Reports whether code is a complete input: "complete", "incomplete", "invalid" or "unknown". */
  async parse(code: string): Promise<string> {
    return (await this.call("query/parse", { session: this.name, text: code })).status;
  }

  /** Lists what user code has defined. */
  variables(): Promise<Variables> {
    return this.call("query/variables", { session: this.name });
  }

  /** Reads lines of the rendered output. */
  output(query: Omit<OutputParams, "session"> = {}): Promise<Output> {
    return this.call("output/query", { session: this.name, ...query });
  }

  /** Reads a window of the events. */
  read(query: Omit<ReadParams, "session"> = {}): Promise<EventPage> {
    return this.call("timeline/read", { session: this.name, ...query });
  }

  /**
   * Yields every event after the cursor, and then each new one as it happens. Each event comes once and in
   * order; a "gap" stands for dropped events. The sequence ends when the session is closed. If the
   * connection is lost, it continues after the last event on the next connection. A slow reader does not
   * delay the session. The signal ends events() at once, even while it waits; return() must wait for the
   * next event.
   */
  async *events(after = 0, options: { reconnect?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<Event> {
    const { signal } = options;
    signal?.throwIfAborted();
    const follower = new Follower(this, after, options.reconnect ?? true);
    const stop = (): void => follower.stop(signal!.reason);
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (let event = await follower.next(); event; event = await follower.next()) yield event;
    } finally {
      signal?.removeEventListener("abort", stop);
      await follower.close();
    }
  }
}

/** @internal Returns code that is a string: the daemon would take undefined for an empty input. */
export function checked(code: string): string {
  if (typeof code !== "string") throw new TypeError(`code is ${code === null ? "null" : `of type ${typeof code}`}, not a string`);
  return code;
}

function milliseconds(options: WaitOptions): number {
  return options.timeout === undefined ? maxWait : Math.max(1, Math.min(maxWait, Math.floor(options.timeout)));
}

/** Returns an object without the fields that are undefined. */
function defined<T extends object>(fields: T): T {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as T;
}
