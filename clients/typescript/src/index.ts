// A client of Turnstone's daemon: sessions of Python, R and other languages that stay alive.
// It needs nothing but Node.js, and a daemon: repl serve.
import { isUtf8 } from "node:buffer";
import { setMaxListeners } from "node:events";
import { existsSync, statSync } from "node:fs";
import { connect as dial, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { StringDecoder } from "node:string_decoder";
import { TurnstoneError } from "./error.ts";
import { defaultSocket, faultOf } from "./usual.ts";
import { protocol, type Blob, type Completion, type Event, type EventPage, type InputRequest, type Methods, type Output, type OutputParams, type ReadParams, type Reply, type Session as Description, type Variables } from "./wire.ts";

export type * from "./wire.ts";
export { TurnstoneError } from "./error.ts";
export { defaultSocket } from "./usual.ts";

// Bounds, in characters and milliseconds.
const maxLine = 20 << 20; // the daemon keeps to 16 MiB
const dialTime = 5_000;
const maxHeld = 4 << 20; // of a subscription, for a reader that is slow
const messageSize = 512; // what a notification takes beside its text, about
const longWait = 24 * 60 * 60 * 1000; // the longest that the daemon takes
const reconnectTime = 30_000; // how long events() tries to reach the daemon again
const interruptTime = 5_000; // how long an aborted call waits for its interrupt, for which the daemon takes 2 s at most, or for a reset
const wholeReply = 64 << 20; // what a reply has at most, in bytes: text and displays
const pageBounds = { limit: 2000, inline_bytes: 1 << 20 }; // the most that the daemon takes
const reconnectPauses = [50, 100, 200, 500, 1000, 2000];

/**
 * The text that events have written, of both streams in their order. Where output is not among them,
 * because it was too much for a reply or the session has dropped it, there is the text missing;
 * without one it throws a TurnstoneError of kind "incomplete".
 */
export function text(events: Iterable<Event>, options: { missing?: string } = {}): string {
  let all = "";
  const decoders = new Map<string, StringDecoder>(); // a character may be written in two parts
  for (const event of events) {
    if (event.type === "text") {
      const stream = event.stream ?? "stdout";
      if (!decoders.has(stream)) decoders.set(stream, new StringDecoder("utf8"));
      all += decoders.get(stream)!.write(event.text === undefined ? Buffer.from(String(event.data ?? ""), "base64") : Buffer.from(event.text));
    } else if (event.type === "gap" || (event.type === "omitted" && event.bytes)) {
      if (options.missing === undefined) throw new TurnstoneError("incomplete", whatIsMissing(event));
      all += options.missing;
    }
  }
  for (const decoder of decoders.values()) all += decoder.end();
  return all;
}

function whatIsMissing(event: Event): string {
  const which = `${event.bytes ?? 0} bytes of output, in the events ${event.from} to ${event.to}`;
  if (event.type === "gap") return which + ", are lost: the session has dropped them. text() with missing puts a text of yours there";
  return which + ", are not in the reply: read them in parts with read({ after }), or use text() with missing";
}

export interface ConnectOptions {
  socket?: string;
  /** The name under which inputs, answers and interrupts are recorded. */
  author?: string;
}

/** Options of calls that wait. */
export interface WaitOptions {
  /** How long to wait, in milliseconds. The turn goes on after it. */
  timeout?: number;
  /** Ends the call: a turn that it started or fed is interrupted, for which the call waits 5 s at most. A reset or close goes on. */
  signal?: AbortSignal;
  /** Gets the seconds and a message while the call runs. If it throws, the call ends with that error, and the work goes on. */
  progress?: (seconds: number, message: string) => void;
}

/** Connects to the daemon, within 5 s. */
export async function connect(options: ConnectOptions = {}): Promise<Client> {
  const client = new Client(options.socket ?? (await defaultSocket()), options.author ?? "");
  await client.dial();
  return client;
}

interface Pending {
  method: keyof Methods;
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
  progress?: WaitOptions["progress"];
}

type Message = { method: string; params: any };
type Streamed = Message | Error;

/**
 * The notifications of a subscription that its reader has not had yet. While more than maxHeld
 * characters of them wait, the daemon pauses; it goes on once half of that is read. Meanwhile there
 * comes what it has queued already, a megabyte and one notification.
 */
class Stream {
  /** What waits, in characters. */
  size = 0;
  private held: { item: Streamed; size: number }[] = [];
  private wake: (() => void) | undefined;
  private full = false;
  private stopped: { reason: unknown } | undefined;
  private readonly tell: (full: boolean) => Promise<unknown>;

  /** tell makes the daemon pause, or go on. */
  constructor(tell: (full: boolean) => Promise<unknown>) {
    this.tell = tell;
  }

  put(item: Streamed, size = 0): void {
    this.held.push({ item, size });
    this.count(size);
    this.wake?.();
  }

  /** Makes next() throw, whatever waits. */
  stop(reason: unknown): void {
    this.stopped = { reason };
    this.wake?.();
  }

  async next(): Promise<Message> {
    while (this.held.length === 0 && !this.stopped) await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.stopped) throw this.stopped.reason;
    const { item, size } = this.held.shift()!;
    this.count(-size);
    if (item instanceof Error) throw item;
    return item;
  }

  private count(size: number): void {
    this.size += size;
    if (this.full === this.size > (this.full ? maxHeld / 2 : maxHeld)) return;
    this.full = !this.full;
    this.tell(this.full).catch((error) => {
      if (error.kind === "unknown_subscription") this.put({ method: "stream/ended", params: {} }); // the session was closed meanwhile
      else if (error.kind !== "unreachable") this.put(error); // the end of the connection is told by its reader
    });
  }
}

/** A connection to a daemon. Use connect() to make one. */
export class Client {
  readonly socket: string;
  readonly author: string;
  private connection: Socket | undefined;
  private ended: Error | undefined;
  private calls = new Map<number, Pending>();
  private streams = new Map<string, Stream>();
  private last = 0;
  /** @internal */
  closed = false;
  /** @internal Connections of our own making, on which events() goes on. */
  readonly others = new Set<Client>();

  /** Of no use before dial(): connect() does both. */
  constructor(socket: string, author: string) {
    this.socket = socket;
    this.author = author;
  }

  /** Ends the connection. The sessions live on, and events() that is being read ends with an error. */
  async close(): Promise<void> {
    this.closed = true;
    await Promise.all([...this.others].map((other) => other.close()));
    const connection = this.connection;
    if (!connection || connection.destroyed) return;
    await new Promise<void>((resolve) => {
      connection.once("close", () => resolve());
      connection.destroy();
    });
  }

  async [Symbol.for("nodejs.asyncDispose")](): Promise<void> {
    await this.close();
  }

  /** Connects, once. */
  async dial(): Promise<void> {
    if (process.platform !== "win32" && existsSync(this.socket)) {
      const owner = statSync(this.socket).uid;
      if (owner !== process.getuid!() && owner !== 0) throw this.gone(`it belongs to user ${owner}, who would see your code`);
    }
    const connection = dial(this.socket);
    this.connection = connection;
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => connection.destroy(new Error("no answer within 5 s")), dialTime);
      connection.once("connect", () => (clearTimeout(timer), resolve()));
      connection.once("error", (error) => (clearTimeout(timer), reject(new TurnstoneError("unreachable", `no daemon answers at ${this.socket} (${error.message}); start one with repl serve`))));
    });
    const fault = await faultOf(this.socket, connection, dialTime);
    if (fault) {
      connection.destroy();
      throw new TurnstoneError("unreachable", `the program that listens at ${this.socket} does not prove that it is your daemon, so nothing is sent to it: ${fault}`);
    }
    this.listen(connection);
    const timer = setTimeout(() => connection.destroy(new Error("it does not answer as a daemon does")), dialTime);
    try {
      const about = await this.call("server/info", {});
      if (about.protocol === protocol) return;
      await this.close();
      throw new TurnstoneError("protocol", `the daemon at ${this.socket} is version ${about.version} and speaks protocol ${about.protocol}; this client speaks ${protocol}`);
    } finally {
      clearTimeout(timer);
    }
  }

  private listen(connection: Socket): void {
    const decoder = new StringDecoder("utf8");
    let parts: string[] = [];
    let held = 0;
    connection.on("data", (bytes) => {
      let chunk = decoder.write(bytes);
      for (let at = chunk.indexOf("\n"); at >= 0; at = chunk.indexOf("\n")) {
        const line = parts.join("") + chunk.slice(0, at);
        chunk = chunk.slice(at + 1);
        parts = [];
        held = 0;
        try {
          this.received(JSON.parse(line), line.length);
        } catch (error) {
          connection.destroy(error as Error);
          return;
        }
      }
      parts.push(chunk);
      if ((held += chunk.length) > maxLine) connection.destroy(new Error("a line is too long"));
    });
    let why: Error | undefined;
    connection.on("error", (error) => (why = error));
    connection.on("close", () => {
      this.ended = this.gone(why?.message ?? "it was closed");
      for (const call of this.calls.values()) call.reject(this.ended);
      this.calls.clear();
      for (const stream of this.streams.values()) stream.put(this.ended);
    });
  }

  /** @internal */
  gone(why: string): TurnstoneError {
    return new TurnstoneError("unreachable", `the connection to the daemon at ${this.socket} ended: ${why}`);
  }

  private received(message: any, size: number): void {
    if (message.method === undefined) {
      const call = this.calls.get(message.id);
      this.calls.delete(message.id);
      if (!call) return; // it was cancelled
      if (message.error) {
        const { kind = "internal", ...data } = message.error.data ?? {};
        call.reject(new TurnstoneError(kind, message.error.message, data));
      } else {
        if (call.method === "stream/subscribe") this.expect(message.result.subscription); // its notifications are next
        call.resolve(message.result);
      }
    } else if (message.method === "notifications/progress") {
      const call = this.calls.get(message.params.progressToken);
      try {
        call?.progress?.(message.params.progress, message.params.message ?? "");
      } catch (error) {
        this.calls.delete(message.params.progressToken);
        call!.reject(error as Error);
      }
    } else if (message.method.startsWith("stream/")) {
      this.streams.get(message.params.subscription)?.put(message, size + messageSize);
    }
  }

  private expect(subscription: string): void {
    this.streams.set(subscription, new Stream((full) => this.call(full ? "stream/pause" : "stream/resume", { subscription })));
  }

  /** Calls a method of docs/daemon.md. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options: WaitOptions = {}): Promise<Methods[M]["result"]> {
    if (this.ended || !this.connection) throw this.ended ?? this.gone("it was never made");
    options.signal?.throwIfAborted();
    const id = ++this.last;
    const meta = options.progress ? { _meta: { progressToken: id } } : {};
    const line = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, ...meta } }) + "\n"; // first: it may throw
    const answer = new Promise<unknown>((resolve, reject) => this.calls.set(id, { method, resolve, reject, progress: options.progress }));
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      const call = this.calls.get(id);
      if (!call) return;
      const ends = method === "session/reset" || method === "session/close"; // it goes on
      if (!ends) this.connection!.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } }) + "\n");
      const give = (): void => {
        this.calls.delete(id);
        call.reject(options.signal!.reason);
      };
      if (!ends && method !== "turn/start" && method !== "turn/input") return give();
      // The daemon answers once the interrupt, or the reset, has had its effect: then the next input is taken.
      this.calls.set(id, { ...call, resolve: give, reject: give });
      timer = setTimeout(give, interruptTime);
    };
    if (options.signal) setMaxListeners(0, options.signal); // each call that is under way has one
    options.signal?.addEventListener("abort", cancel, { once: true });
    try {
      this.connection.write(line);
      return (await answer) as Methods[M]["result"];
    } finally {
      clearTimeout(timer);
      options.signal?.removeEventListener("abort", cancel);
    }
  }

  /** Describes all sessions, by name. */
  async list(): Promise<Description[]> {
    return (await this.call("session/list", {})).sessions;
  }

  /** Opens a session. Without a name it gets one. */
  async create(params: Methods["session/create"]["params"] = {}): Promise<Session> {
    return this.session((await this.call("session/create", params)).name);
  }

  /** Returns the session of a name, and opens it if there is none. */
  async open(name: string, params: Omit<Methods["session/create"]["params"], "name"> = {}): Promise<Session> {
    try {
      return await this.create({ ...params, name });
    } catch (error) {
      if (error instanceof TurnstoneError && error.kind === "exists") return this.session(name);
      throw error;
    }
  }

  /** Returns the session of a name. It does no I/O. */
  session(name: string): Session {
    return new Session(this, name);
  }

  /** @internal */
  async *subscribed(session: string, after: number, signal?: AbortSignal): AsyncGenerator<Event> {
    const { subscription } = await this.call("stream/subscribe", { session, after, ...this.signed() });
    const stream = this.streams.get(subscription)!;
    const stop = (): void => stream.stop(signal!.reason);
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop, { once: true });
    try {
      for (;;) {
        const item = await stream.next();
        if (item.method === "stream/snapshot") yield* item.params.events as Event[];
        if (item.method === "stream/event") yield item.params.event as Event;
        if (item.method !== "stream/ended") continue;
        if (item.params.detached) throw new TurnstoneError("detached", item.params.reason);
        return;
      }
    } finally {
      signal?.removeEventListener("abort", stop);
      if (!this.ended) await this.call("stream/unsubscribe", { subscription }).catch(() => {});
      this.streams.delete(subscription);
    }
  }

  /** @internal */
  signed(): { author?: string } {
    return this.author ? { author: this.author } : {};
  }
}

/** A session of a daemon, by its name. */
export class Session {
  readonly client: Client;
  readonly name: string;

  constructor(client: Client, name: string) {
    this.client = client;
    this.name = name;
  }

  /**
   * Runs code, and returns when it is done or asks for input. The reply has all events of the turn,
   * with up to 64 MiB of output; of more it has the beginning and the end, and an "omitted" that names
   * the events between.
   */
  async run(code: string, options: WaitOptions = {}): Promise<Reply> {
    return this.whole(await this.client.call("turn/start", { session: this.name, input: checked(code), wait_ms: milliseconds(options), ...this.client.signed() }, options));
  }

  /** Starts a turn and returns its number. Readers who show a session skip a silent one. */
  async start(code: string, options: { silent?: boolean } = {}): Promise<number> {
    return (await this.client.call("turn/start", { session: this.name, input: checked(code), ...(options.silent ? { silent: true } : {}), ...this.client.signed() })).turn;
  }

  /** Waits until a turn is over or asks for input; 0 is the active one. The reply is as that of run(). */
  async wait(turn = 0, options: WaitOptions & { after?: number } = {}): Promise<Reply> {
    return this.whole(await this.client.call("turn/wait", { session: this.name, turn, after: options.after ?? 0, wait_ms: milliseconds(options) }, options));
  }

  /** Answers an input request, and waits on as run() does. A line needs a newline at its end. */
  async answer(request: number | InputRequest, answer: string, options: WaitOptions & { eof?: boolean } = {}): Promise<Reply> {
    const id = typeof request === "number" ? request : request.id;
    return this.whole(await this.client.call("turn/input", { session: this.name, input_request: id, input: answer, wait_ms: milliseconds(options), ...(options.eof ? { eof: true } : {}), ...this.client.signed() }, options));
  }

  /** Puts into a reply what the daemon has left out of it, unless that is too much. */
  private async whole(reply: Reply): Promise<Reply> {
    const omitted = reply.events.filter((event) => event.type === "omitted");
    let size = omitted.reduce((sum, event) => sum + (event.bytes ?? 0), 0);
    if (omitted.length > 0 && size <= wholeReply) {
      let after = omitted[0]!.from! - 1;
      const events = reply.events.slice(0, reply.events.indexOf(omitted[0]!)).filter((event) => event.seq <= after); // one may be there in part
      while (after < reply.next) {
        const page = await this.read({ after, ...pageBounds });
        if (page.events.length === 0) break;
        for (const event of page.events) if ((event.from ?? event.seq) <= reply.next) events.push(event);
        after = page.last;
      }
      reply.events = events;
    }
    for (const event of reply.events) {
      for (const [mime, left] of Object.entries(event.omitted ?? {})) {
        if ((size += left.bytes) <= wholeReply && left.digest) await this.putIn(event, mime, left);
      }
    }
    return reply;
  }

  /** Puts into a display what was left out of it. What the session has dropped stays left out. */
  private async putIn(event: Event, mime: string, left: Blob): Promise<void> {
    const parts: Buffer[] = [];
    for (let offset = 0; offset < left.bytes; offset += parts.at(-1)!.length) {
      try {
        const piece = await this.client.call("blob/get", { session: this.name, digest: left.digest!, offset });
        parts.push(Buffer.from(String(piece.data), "base64"));
      } catch (error) {
        if (error instanceof TurnstoneError && error.kind === "no_blob") return;
        throw error;
      }
    }
    const data = Buffer.concat(parts);
    const bundle = (event.data ??= {}) as Record<string, unknown>;
    bundle[mime] = isUtf8(data) ? data.toString() : { base64: data.toString("base64") };
    delete event.omitted![mime];
    if (Object.keys(event.omitted!).length === 0) delete event.omitted;
  }

  /** Interrupts a turn, or with 0 whatever is active, and returns what came of it. */
  async interrupt(turn = 0): Promise<string> {
    return (await this.client.call("turn/interrupt", { session: this.name, ...(turn ? { turn } : { active: true }), ...this.client.signed() })).result;
  }

  /** Describes the session now. */
  info(): Promise<Description> {
    return this.client.call("session/get", { session: this.name });
  }

  /** Ends the runtime, even while it is busy, and starts a new one. When it is aborted it goes on, and the call waits 5 s for it at most. */
  reset(options: Pick<WaitOptions, "signal"> = {}): Promise<Description> {
    return this.client.call("session/reset", { session: this.name }, options);
  }

  /** Ends the session for good. */
  async close(): Promise<void> {
    await this.client.call("session/close", { session: this.name });
  }

  /** Asks how code could go on at cursor; it and start of the result count UTF-16 units. */
  async complete(code: string, cursor = code.length): Promise<Completion> {
    const result = await this.client.call("query/complete", { session: this.name, text: code, cursor: Buffer.byteLength(code.slice(0, cursor)) });
    return { ...result, start: Buffer.from(code).subarray(0, result.start).toString().length };
  }

  /** Tells whether code is a whole input: "complete", "incomplete", "invalid" or "unknown". */
  async parse(code: string): Promise<string> {
    return (await this.client.call("query/parse", { session: this.name, text: code })).status;
  }

  /** Lists what user code has defined. */
  variables(): Promise<Variables> {
    return this.client.call("query/variables", { session: this.name });
  }

  /** Reads lines of the rendered output. */
  output(query: Omit<OutputParams, "session"> = {}): Promise<Output> {
    return this.client.call("output/query", { session: this.name, ...query });
  }

  /** Reads a window of the events. */
  read(query: Omit<ReadParams, "session"> = {}): Promise<EventPage> {
    return this.client.call("timeline/read", { session: this.name, ...query });
  }

  /**
   * Yields every event behind the cursor, and then each new one as it happens. None comes twice,
   * and none is missing: one that the daemon has dropped is in a "gap". It ends when the session is
   * closed. When the connection ends, it tries to reach the daemon again for 30 s and goes on behind
   * the last event, on a connection of its own, unless the client was closed. A slow reader costs
   * the session nothing. The signal ends it at once, also while it waits, where return() has to wait
   * for the next event.
   */
  async *events(after = 0, options: { reconnect?: boolean; signal?: AbortSignal } = {}): AsyncGenerator<Event> {
    let client = this.client;
    try {
      for (;;) {
        try {
          for await (const event of client.subscribed(this.name, after, options.signal)) {
            after = event.type === "gap" ? (event.to ?? event.seq) : event.seq;
            yield event;
          }
          return;
        } catch (error) {
          if (!(error instanceof TurnstoneError) || error.kind !== "unreachable" || options.reconnect === false || this.client.closed) throw error;
          await this.leave(client);
          client = await dialAgain(this.client, options.signal);
          this.client.others.add(client);
        }
      }
    } finally {
      await this.leave(client);
    }
  }

  /** Closes a connection that events() has made. */
  private async leave(client: Client): Promise<void> {
    if (this.client.others.delete(client)) await client.close();
  }
}

/** Reaches the daemon again, within 30 s. */
async function dialAgain(lost: Client, signal?: AbortSignal): Promise<Client> {
  const end = performance.now() + reconnectTime;
  for (let attempt = 0; ; attempt++) {
    const client = new Client(lost.socket, lost.author);
    try {
      await client.dial();
      if (!lost.closed) return client;
      await client.close();
      throw lost.gone("it was closed");
    } catch (error) {
      if (!(error instanceof TurnstoneError) || error.kind !== "unreachable" || performance.now() >= end || lost.closed) throw error;
    }
    signal?.throwIfAborted();
    await pause(reconnectPauses[Math.min(attempt, reconnectPauses.length - 1)]!);
  }
}

function checked(code: string): string {
  if (typeof code !== "string") throw new TypeError(`code is ${code === null ? "null" : `of type ${typeof code}`}, not a string`); // which would be an empty input
  return code;
}

function milliseconds(options: WaitOptions): number {
  return options.timeout === undefined ? longWait : Math.max(1, Math.min(longWait, Math.floor(options.timeout)));
}
