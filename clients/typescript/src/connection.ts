// One connection to a daemon: lines of JSON-RPC over a stream. Client makes them, one after the other.
import { setMaxListeners } from "node:events";
import type { Readable, Writable } from "node:stream";
import { LostConnection, TurnstoneError } from "./error.ts";
import type { FunctionHost } from "./functions.ts";
import type { Methods } from "./wire.ts";

// Bounds, in bytes and milliseconds.
const maxLine = 20 << 20; // the daemon sends at most 16 MiB
const maxQueued = 4 << 20; // queued for a subscription whose reader is slow
const messageOverhead = 512; // approximate memory of a notification in addition to its text
const interruptTimeout = 5_000; // of an aborted call, for its reset or its interrupt, which takes the daemon 2 s at most

/** Options of calls. */
export interface CallOptions {
  /** Ends the call. A turn that the call started or answered is interrupted; the call waits up to 5 s for that. A reset or close continues. */
  signal?: AbortSignal | undefined;
  /** Called with the seconds and a message while the call runs. If it throws, the call ends with that error and the work continues. */
  progress?: ((seconds: number, message: string) => void) | undefined;
  /** @internal Called when the call has been sent. */
  sent?: () => void;
  /** @internal Bytes that follow the line. */
  buffer?: Uint8Array;
  /** @internal Called with the bytes that follow the line of the answer. */
  buffered?: (data: Buffer) => void;
}

/** The two directions of a connection. */
export interface Transport {
  readonly readable: Readable;
  readonly writable: Writable;
  /** Makes the connection keep Node.js running, or stops that. */
  keepAlive(on: boolean): void;
  /** Ends the connection at once. */
  destroy(): void;
  /** Settles when the other end is gone, too. */
  readonly closed: Promise<void>;
}

interface Pending {
  method: string;
  resolve: (result: unknown) => void;
  reject: (error: Error) => void;
  options: CallOptions;
}

type Message = { method: string; params: any };

/**
 * The queued notifications of a subscription, which its reader has not received yet. The daemon pauses
 * when more than maxQueued bytes are queued, and resumes when half of them have been read. Until the
 * pause takes effect, the daemon still sends its own queue: at most a megabyte and one notification.
 */
export class Stream {
  /** Size of the queued notifications, in bytes. */
  size = 0;
  /** The daemon has paused, because so much is queued. */
  isFull = false;
  readonly subscription: string;
  private queue: { item: Message | Error; size: number }[] = [];
  private first = 0; // index in queue
  private wake: (() => void) | undefined;
  private stopped: { reason: unknown } | undefined;
  private readonly connection: Connection;

  constructor(connection: Connection, subscription: string) {
    this.connection = connection;
    this.subscription = subscription;
  }

  put(item: Message | Error, size = 0): void {
    this.queue.push({ item, size });
    this.count(size);
    this.wake?.();
  }

  /** Makes next() throw, even if notifications are queued. */
  stop(reason: unknown): void {
    this.stopped ??= { reason };
    this.wake?.();
  }

  async next(): Promise<Message> {
    while (this.first === this.queue.length && !this.stopped) {
      this.connection.hold();
      await new Promise<void>((resolve) => (this.wake = resolve));
      this.connection.release();
    }
    if (this.stopped) throw this.stopped.reason;
    const { item, size } = this.queue[this.first++]!;
    if (this.first === this.queue.length || this.first > 1000) {
      this.queue = this.queue.slice(this.first);
      this.first = 0;
    }
    this.count(-size);
    if (item instanceof Error) throw item;
    return item;
  }

  /** Ends the subscription. */
  async leave(): Promise<void> {
    this.stop(new LostConnection("it was closed"));
    await this.connection.call("stream/unsubscribe", { subscription: this.subscription }).catch(() => {});
    this.connection.streams.delete(this.subscription);
  }

  private count(size: number): void {
    this.size += size;
    if (this.isFull === this.size > (this.isFull ? maxQueued / 2 : maxQueued)) return;
    this.isFull = !this.isFull;
    this.connection.call(this.isFull ? "stream/pause" : "stream/resume", { subscription: this.subscription }).catch((error) => {
      if (error instanceof LostConnection) return; // the reader of the connection reports its end
      // An unknown subscription is one whose session has been closed.
      this.put(error.kind === "unknown_subscription" ? { method: "stream/ended", params: {} } : error);
    });
  }
}

/** A connection on which calls are made. It does not come back once it is lost. */
export class Connection {
  /** Why it ended, or "". */
  lost = "";
  /** The process and the start time of the daemon, which tell one daemon from the next. */
  daemon = { pid: 0, started: "" };
  /** The daemon remembers the client's earlier requests. */
  isKnown = false;
  readonly streams = new Map<string, Stream>();
  /** Answers the requests of the daemon. */
  functions: FunctionHost | undefined;
  private readonly transport: Transport;
  private calls = new Map<number, Pending>();
  private lastId = 0;
  private holds = 0;

  constructor(transport: Transport) {
    this.transport = transport;
    transport.keepAlive(false);
    this.listen();
  }

  /** Keeps Node.js running until release() is called as often. */
  hold(): void {
    if (this.holds++ === 0) this.transport.keepAlive(true);
  }

  release(): void {
    if (--this.holds === 0) this.transport.keepAlive(false);
  }

  async close(): Promise<void> {
    this.hold();
    this.transport.destroy();
    await this.transport.closed;
    this.end("it was closed");
    this.release();
  }

  private listen(): void {
    const { readable, writable } = this.transport;
    let parts: Buffer[] = []; // of a line, or of the bytes that follow one
    let length = 0; // of all parts
    let message: any; // whose bytes are read; undefined while a line is read
    const fail = (why: string): void => {
      this.end(why);
      this.transport.destroy();
    };
    const take = (last: Buffer): Buffer => {
      const whole = Buffer.concat([...parts, last]);
      parts = [];
      length = 0;
      return whole;
    };
    readable.on("data", (chunk: Buffer) => {
      while (chunk.length > 0) {
        const end = message ? message.buffer - length : chunk.indexOf(10);
        if (end < 0 || end > chunk.length) {
          parts.push(chunk);
          if ((length += chunk.length) > maxLine) fail("a line is too long");
          return;
        }
        const whole = take(chunk.subarray(0, end));
        chunk = chunk.subarray(message ? end : end + 1);
        try {
          if (message) {
            this.received(message, 0, whole);
            message = undefined;
            continue;
          }
          const next = JSON.parse(whole.toString());
          if (next.buffer) message = next;
          else this.received(next, whole.length);
        } catch (error) {
          return fail((error as Error).message);
        }
      }
    });
    for (const end of new Set<Readable | Writable>([readable, writable])) end.on("error", (error: Error) => fail(error.message));
    readable.on("end", () => fail("the daemon hung up"));
    readable.on("close", () => fail("the daemon hung up"));
  }

  /** Rejects all calls, once. */
  private end(why: string): void {
    if (this.lost) return;
    this.lost = why;
    for (const call of this.calls.values()) call.reject(new LostConnection(why));
    this.calls.clear();
    for (const stream of this.streams.values()) stream.put(new LostConnection(why));
    this.functions?.disconnected(this);
  }

  private received(message: any, size: number, buffer?: Buffer): void {
    if (message.method === undefined) {
      const call = this.calls.get(message.id);
      this.calls.delete(message.id);
      if (!call) return; // the call was cancelled
      if (message.error) {
        const { kind = "internal", ...data } = message.error.data ?? {};
        call.reject(new TurnstoneError(kind, message.error.message, data));
      } else {
        const { subscription } = message.result;
        if (call.method === "stream/subscribe") this.streams.set(subscription, new Stream(this, subscription)); // its notifications are next
        if (buffer) call.options.buffered?.(buffer);
        call.resolve(message.result);
      }
    } else if (message.method === "notifications/progress") {
      const call = this.calls.get(message.params.progressToken);
      try {
        call?.options.progress?.(message.params.progress, message.params.message ?? "");
      } catch (error) {
        this.calls.delete(message.params.progressToken);
        call!.reject(error as Error);
      }
    } else if (message.id !== undefined) {
      this.functions?.request(this, message);
    } else if (message.method === "notifications/cancelled") {
      this.functions?.cancel(this, message.params.requestId);
    } else if (message.method.startsWith("stream/")) {
      this.streams.get(message.params.subscription)?.put(message, size + messageOverhead);
    }
  }

  private send(message: object): void {
    this.transport.writable.write(JSON.stringify(message) + "\n");
  }

  /** Answers a request of the daemon with a line. */
  answer(line: string): void {
    if (!this.lost) this.transport.writable.write(line + "\n");
  }

  /** Answers a request of the daemon, and waits until the line is sent or the connection is lost. */
  async answerWhenSent(line: string): Promise<void> {
    if (this.lost) return;
    await new Promise<void>((resolve) => this.transport.writable.write(line + "\n", () => resolve()));
  }

  /** Makes a call once. A LostConnection says that its answer did not come. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options: CallOptions = {}): Promise<Methods[M]["result"]> {
    if (this.lost) throw new LostConnection(this.lost);
    const { signal, progress, buffer } = options;
    signal?.throwIfAborted();
    const id = ++this.lastId;
    const meta = progress ? { _meta: { progressToken: id } } : {};
    const line = JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, ...meta }, ...(buffer?.length ? { buffer: buffer.length } : {}) }) + "\n"; // before the call is registered: it may throw
    const answer = new Promise<unknown>((resolve, reject) => this.calls.set(id, { method, resolve, reject, options }));
    let timer: NodeJS.Timeout | undefined;
    const cancel = (): void => {
      const call = this.calls.get(id);
      if (!call) return;
      const continues = method === "session/reset" || method === "session/close";
      if (!continues) this.send({ jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: id } });
      const giveUp = (): void => {
        this.calls.delete(id);
        call.reject(signal!.reason);
      };
      if (!continues && method !== "turn/start" && method !== "turn/input") return giveUp();
      // The daemon answers once the interrupt or reset has taken effect. From then on the session takes the next input.
      this.calls.set(id, { ...call, resolve: giveUp, reject: giveUp });
      timer = setTimeout(giveUp, interruptTimeout);
    };
    if (signal) setMaxListeners(0, signal); // each pending call adds a listener
    signal?.addEventListener("abort", cancel, { once: true });
    this.hold();
    try {
      this.transport.writable.write(line);
      if (buffer?.length) this.transport.writable.write(buffer);
      options.sent?.();
      return (await answer) as Methods[M]["result"];
    } finally {
      this.release();
      clearTimeout(timer);
      signal?.removeEventListener("abort", cancel);
    }
  }

  async subscribe(params: Methods["stream/subscribe"]["params"]): Promise<Stream> {
    return this.streams.get((await this.call("stream/subscribe", params)).subscription)!;
  }
}
