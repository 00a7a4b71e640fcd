// A client of Turnstone's daemon: sessions of Python, R and other languages that stay alive.
// It needs only Node.js, and a running daemon: repl serve.
import { isUtf8 } from "node:buffer";
import { setMaxListeners } from "node:events";
import { existsSync, statSync } from "node:fs";
import { connect as dial, type Socket } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { StringDecoder } from "node:string_decoder";
import { TurnstoneError } from "./error.ts";
import { defaultSocket, faultOf } from "./discovery.ts";
import { protocol, type Blob, type Completion, type DisplayEvent, type Event, type EventPage, type GapEvent, type InputRequest, type Methods, type OmittedEvent, type Output, type OutputParams, type ReadParams, type Reply, type Screen, type Session as Description, type Variables } from "./wire.ts";

export type * from "./wire.ts";
export { TurnstoneError } from "./error.ts";
export { defaultSocket } from "./discovery.ts";

// Bounds, in characters and milliseconds.
const maxLine = 20 << 20; // the daemon sends at most 16 MiB
const dialTimeout = 5_000;
const maxQueued = 4 << 20; // queued for a subscription whose reader is slow
const messageOverhead = 512; // approximate memory of a notification in addition to its text
const maxWait = 24 * 60 * 60 * 1000; // the daemon accepts no longer wait
const reconnectTimeout = 30_000; // of events(), until the daemon is reached again
const interruptTimeout = 5_000; // of an aborted call, for its reset or its interrupt, which takes the daemon 2 s at most
const maxReplyBytes = 64 << 20; // of text and displays
const maxPage = { limit: 2000, inline_bytes: 1 << 20 }; // the daemon accepts no larger page
const reconnectPauses = [50, 100, 200, 500, 1000, 2000];

/**
 * Returns the text of events, from both streams in order. Some output may be missing from the events,
 * because it was too large for a reply or the session has dropped it. The option missing replaces it.
 * Without that option, text() throws a TurnstoneError of kind "incomplete".
 */
export function text(events: Iterable<Event>, options: { missing?: string } = {}): string {
  let all = "";
  const decoders = new Map<string, StringDecoder>(); // a character may be written in two parts
  for (const event of events) {
    if (event.type === "text") {
      const stream = event.stream ?? "stdout";
      if (!decoders.has(stream)) decoders.set(stream, new StringDecoder("utf8"));
      all += decoders.get(stream)!.write(event.text === undefined ? Buffer.from(event.data ?? "", "base64") : Buffer.from(event.text));
    } else if (event.type === "gap" || (event.type === "omitted" && event.bytes)) {
      if (options.missing === undefined) throw new TurnstoneError("incomplete", whatIsMissing(event));
      all += options.missing;
    }
  }
  for (const decoder of decoders.values()) all += decoder.end();
  return all;
}

function whatIsMissing(event: GapEvent | OmittedEvent): string {
  const which = `${event.bytes ?? 0} bytes of output, in the events ${event.from} to ${event.to}`;
  if (event.type === "gap") return which + ", were dropped by the session; call text() with missing to insert another text instead";
  return which + ", are not in the reply: read them in parts with read({ after }), or use text() with missing";
}

export interface ConnectOptions {
  socket?: string;
  /** The name under which inputs, answers and interrupts are recorded. */
  author?: string;
}

/** Options of calls that wait. */
export interface WaitOptions {
  /** How long to wait, in milliseconds. The turn continues after that. */
  timeout?: number;
  /** Ends the call. A turn that the call started or answered is interrupted; the call waits up to 5 s for that. A reset or close continues. */
  signal?: AbortSignal;
  /** Called with the seconds and a message while the call runs. If it throws, the call ends with that error and the work continues. */
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
 * The queued notifications of a subscription, which its reader has not received yet. The daemon pauses
 * when more than maxQueued characters are queued, and resumes when half of them have been read. Until the
 * pause takes effect, the daemon still sends its own queue: at most a megabyte and one notification.
 */
class Stream {
  /** Size of the queued notifications, in characters. */
  size = 0;
  private queue: { item: Streamed; size: number }[] = [];
  private wake: (() => void) | undefined;
  private full = false;
  private stopped: { reason: unknown } | undefined;
  private readonly setPaused: (paused: boolean) => Promise<unknown>;

  /** setPaused makes the daemon pause or resume. */
  constructor(setPaused: (paused: boolean) => Promise<unknown>) {
    this.setPaused = setPaused;
  }

  put(item: Streamed, size = 0): void {
    this.queue.push({ item, size });
    this.count(size);
    this.wake?.();
  }

  /** Makes next() throw, even if notifications are queued. */
  stop(reason: unknown): void {
    this.stopped = { reason };
    this.wake?.();
  }

  async next(): Promise<Message> {
    while (this.queue.length === 0 && !this.stopped) await new Promise<void>((resolve) => (this.wake = resolve));
    if (this.stopped) throw this.stopped.reason;
    const { item, size } = this.queue.shift()!;
    this.count(-size);
    if (item instanceof Error) throw item;
    return item;
  }

  private count(size: number): void {
    this.size += size;
    if (this.full === this.size > (this.full ? maxQueued / 2 : maxQueued)) return;
    this.full = !this.full;
    this.setPaused(this.full).catch((error) => {
      if (error.kind === "unknown_subscription") this.put({ method: "stream/ended", params: {} }); // the session has been closed
      else if (error.kind !== "unreachable") this.put(error); // the reader of the connection reports its end
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
  /** @internal Connections that events() made after this one was lost. */
  readonly others = new Set<Client>();

  /** Creates a client that is not connected yet. connect() also connects it. */
  constructor(socket: string, author: string) {
    this.socket = socket;
    this.author = author;
  }

  /** Ends the connection. The sessions stay alive. A running events() ends with an error. */
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
      const timer = setTimeout(() => connection.destroy(new Error("no answer within 5 s")), dialTimeout);
      connection.once("connect", () => (clearTimeout(timer), resolve()));
      connection.once("error", (error) => (clearTimeout(timer), reject(new TurnstoneError("unreachable", `no daemon answers at ${this.socket} (${error.message}); start one with repl serve`))));
    });
    const fault = await faultOf(this.socket, connection, dialTimeout);
    if (fault) {
      connection.destroy();
      throw new TurnstoneError("unreachable", `the program that listens at ${this.socket} does not prove that it is your daemon, so nothing is sent to it: ${fault}`);
    }
    this.listen(connection);
    const timer = setTimeout(() => connection.destroy(new Error("it does not answer like a daemon")), dialTimeout);
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
    let buffered = 0;
    connection.on("data", (bytes) => {
      let chunk = decoder.write(bytes);
      for (let at = chunk.indexOf("\n"); at >= 0; at = chunk.indexOf("\n")) {
        const line = parts.join("") + chunk.slice(0, at);
        chunk = chunk.slice(at + 1);
        parts = [];
        buffered = 0;
        try {
          this.received(JSON.parse(line), line.length);
        } catch (error) {
          connection.destroy(error as Error);
          return;
        }
      }
      parts.push(chunk);
      if ((buffered += chunk.length) > maxLine) connection.destroy(new Error("a line is too long"));
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
      if (!call) return; // the call was cancelled
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
      this.streams.get(message.params.subscription)?.put(message, size + messageOverhead);
    }
  }

  private expect(subscription: string): void {
    this.streams.set(subscription, new Stream((paused) => this.call(paused ? "stream/pause" : "stream/resume", { subscription })));
  }

  /** Calls a method of docs/daemon-protocol.md. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options: WaitOptions = {}): Promise<Methods[M]["result"]> {
    if (this.ended || !this.connection) throw this.ended ?? this.gone("it was never made");
    options.signal?.throwIfAborted();
    const id = ++this.last;
    const meta = options.progress ? { _meta: { progressToken: id } } : {};
    const line = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, ...meta } }) + "\n"; // before the call is registered: it may throw
    const answer = new Promise<unknown>((resolve, reject) => this.calls.set(id, { method, resolve, reject, progress: options.progress }));
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      const call = this.calls.get(id);
      if (!call) return;
      const continues = method === "session/reset" || method === "session/close";
      if (!continues) this.connection!.write(JSON.stringify({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } }) + "\n");
      const giveUp = (): void => {
        this.calls.delete(id);
        call.reject(options.signal!.reason);
      };
      if (!continues && method !== "turn/start" && method !== "turn/input") return giveUp();
      // The daemon answers once the interrupt or reset has taken effect. From then on the session takes the next input.
      this.calls.set(id, { ...call, resolve: giveUp, reject: giveUp });
      timer = setTimeout(giveUp, interruptTimeout);
    };
    if (options.signal) setMaxListeners(0, options.signal); // each pending call adds a listener
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

  /** Creates a session. Without a name, the daemon chooses one. */
  async create(params: Methods["session/create"]["params"] = {}): Promise<Session> {
    return this.session((await this.call("session/create", params)).name);
  }

  /** Returns the session with this name, and creates it if it does not exist. */
  async open(name: string, params: Omit<Methods["session/create"]["params"], "name"> = {}): Promise<Session> {
    try {
      return await this.create({ ...params, name });
    } catch (error) {
      if (error instanceof TurnstoneError && error.kind === "exists") return this.session(name);
      throw error;
    }
  }

  /** Returns the session with this name. It does no I/O. */
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
   * Runs code, and returns when it is done or asks for input. The reply has all events of the turn and
   * up to 64 MiB of output. Of larger output it has the beginning and the end, and an "omitted" event
   * that names the events in between.
   */
  async run(code: string, options: WaitOptions = {}): Promise<Reply> {
    return this.complement(await this.client.call("turn/start", { session: this.name, input: checked(code), wait_ms: milliseconds(options), ...this.client.signed() }, options));
  }

  /** Starts a turn and returns its number. Clients that display a session skip a silent turn. */
  async start(code: string, options: { silent?: boolean } = {}): Promise<number> {
    return (await this.client.call("turn/start", { session: this.name, input: checked(code), ...(options.silent ? { silent: true } : {}), ...this.client.signed() })).turn;
  }

  /** Waits until a turn is over or asks for input; 0 is the active one. The reply has the same form as that of run(). */
  async wait(turn = 0, options: WaitOptions & { after?: number } = {}): Promise<Reply> {
    return this.complement(await this.client.call("turn/wait", { session: this.name, turn, after: options.after ?? 0, wait_ms: milliseconds(options) }, options));
  }

  /** Answers an input request, then waits as run() does. A line needs a newline at its end. */
  async answer(request: number | InputRequest, answer: string, options: WaitOptions & { eof?: boolean } = {}): Promise<Reply> {
    const id = typeof request === "number" ? request : request.id;
    return this.complement(await this.client.call("turn/input", { session: this.name, input_request: id, input: answer, wait_ms: milliseconds(options), ...(options.eof ? { eof: true } : {}), ...this.client.signed() }, options));
  }

  /** Adds the omitted output to a reply, unless it is too large. */
  private async complement(reply: Reply): Promise<Reply> {
    const omitted = reply.events.filter((event) => event.type === "omitted");
    let size = omitted.reduce((sum, event) => sum + (event.bytes ?? 0), 0);
    if (omitted.length > 0 && size <= maxReplyBytes) {
      let after = omitted[0]!.from! - 1;
      const events = reply.events.slice(0, reply.events.indexOf(omitted[0]!)).filter((event) => event.seq <= after); // the last event may be incomplete
      while (after < reply.next) {
        const page = await this.read({ after, ...maxPage });
        if (page.events.length === 0) break;
        for (const event of page.events) if ((event.type === "gap" && event.from ? event.from : event.seq) <= reply.next) events.push(event);
        after = page.last;
      }
      reply.events = events;
    }
    for (const event of reply.events) {
      if (event.type !== "display") continue;
      for (const [mime, left] of Object.entries(event.omitted ?? {})) {
        if ((size += left.bytes) <= maxReplyBytes && left.digest) await this.addOmitted(event, mime, left);
      }
    }
    return reply;
  }

  /** Adds omitted data to a display. Data that the session has dropped stays omitted. */
  private async addOmitted(event: DisplayEvent, mime: string, left: Blob): Promise<void> {
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
    (event.data ??= {})[mime] = isUtf8(data) ? data.toString() : { base64: data.toString("base64") };
    delete event.omitted![mime];
    if (Object.keys(event.omitted!).length === 0) delete event.omitted;
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
    return (await this.client.call("turn/type", { session: this.name, ...typed, ...(options.secret ? { secret: true } : {}), ...this.client.signed() })).turn;
  }

  /** Returns what the programs of the running turn show on the terminal. Between turns the error is of kind "stale". */
  screen(): Promise<Screen> {
    return this.client.call("session/screen", { session: this.name });
  }

  /** Interrupts a turn, and returns the result; 0 is the active turn. */
  async interrupt(turn = 0): Promise<string> {
    return (await this.client.call("turn/interrupt", { session: this.name, ...(turn ? { turn } : { active: true }), ...this.client.signed() })).result;
  }

  /** Describes the session now. */
  info(): Promise<Description> {
    return this.client.call("session/get", { session: this.name });
  }

  /** Ends the runtime, even while it is busy, and starts a new one. An aborted reset continues, and the call waits up to 5 s for it. */
  reset(options: Pick<WaitOptions, "signal"> = {}): Promise<Description> {
    return this.client.call("session/reset", { session: this.name }, options);
  }

  /** Ends the session permanently. */
  async close(): Promise<void> {
    await this.client.call("session/close", { session: this.name });
  }

  /** Returns completions of code at cursor. The cursor and the result's start count UTF-16 units. */
  async complete(code: string, cursor = code.length): Promise<Completion> {
    const result = await this.client.call("query/complete", { session: this.name, text: code, cursor: Buffer.byteLength(code.slice(0, cursor)) });
    return { ...result, start: Buffer.from(code).subarray(0, result.start).toString().length };
  }

  /** Reports whether code is a complete input: "complete", "incomplete", "invalid" or "unknown". */
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
   * Yields every event after the cursor, and then each new one as it happens. Each event comes once and in
   * order; a "gap" stands for dropped events. The sequence ends when the session is closed. If the
   * connection is lost, events() tries for 30 s to reach the daemon again, and continues after the last
   * event on a new connection, unless the client was closed. A slow reader does not delay the session. The
   * signal ends events() at once, even while it waits; return() must wait for the next event.
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
          await this.closeOther(client);
          client = await redial(this.client, options.signal);
          this.client.others.add(client);
        }
      }
    } finally {
      await this.closeOther(client);
    }
  }

  /** Closes a connection that events() made. */
  private async closeOther(client: Client): Promise<void> {
    if (this.client.others.delete(client)) await client.close();
  }
}

/** Connects to the daemon again, within 30 s. */
async function redial(lost: Client, signal?: AbortSignal): Promise<Client> {
  const end = performance.now() + reconnectTimeout;
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
  if (typeof code !== "string") throw new TypeError(`code is ${code === null ? "null" : `of type ${typeof code}`}, not a string`); // the daemon would take it for an empty input
  return code;
}

function milliseconds(options: WaitOptions): number {
  return options.timeout === undefined ? maxWait : Math.max(1, Math.min(maxWait, Math.floor(options.timeout)));
}
