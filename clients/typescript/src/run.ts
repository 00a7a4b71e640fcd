// One run(): code in, a Result out, and a session that is free again.
import { AsyncLocalStorage } from "node:async_hooks";
import { setMaxListeners } from "node:events";
import { CodeError, hasKind, TurnstoneError } from "./error.ts";
import type { Follower } from "./follower.ts";
import { decodeData, readBlob } from "./reply.ts";
import { byteSize, Display, Result } from "./result.ts";
import { checked, type Session } from "./session.ts";
import { EventDecoder } from "./text.ts";
import type { DisplayEvent, Event, InputRequest, InputRequestedEvent, StartParams, TextEvent, TurnEndedEvent } from "./wire.ts";

// Bounds, in bytes and milliseconds.
const defaultMaxBytes = 32 << 20; // of text, and again of displays
const defaultGrace = 5_000; // from an interrupt to the next one, and to giving up
const maxEndsOfFile = 1000; // answered in one turn: code that reads on after each of them never ends
const maxNotices = 100; // of one result
const maxStartText = 16384; // characters of what a worker wrote that did not start

/** A function of the caller may be asynchronous. Then run() waits for it, unless the code is to end. */
type Awaitable<T> = T | Promise<T>;

/** How run() runs code. */
export interface RunOptions {
  /** Interrupts the code once it has run for this long. It includes waits for input, but not the start of a worker or a wait in the queue. */
  timeoutMs?: number | undefined;
  /** Interrupts the code. Once the session is free, run() rejects with the reason of the signal. */
  signal?: AbortSignal | undefined;
  /** The most text, and the most data of displays, that the result has, in bytes each: 32 MiB by default. */
  maxBytes?: number | undefined;
  /** Waits while another client's code runs. Without it, run() rejects with an error of the kind "busy". */
  queue?: boolean | undefined;
  /** Gets the pieces of Result.text while the code runs. If it throws, the code is interrupted, and run() rejects with that error. */
  onText?: ((text: string) => unknown) | undefined;
  /** Gets the pieces of Result.stderr, as onText does. */
  onStderr?: ((text: string) => unknown) | undefined;
  /** Gets each display, as onText does. */
  onDisplay?: ((display: Display) => unknown) | undefined;
  /** Answers an input request of the code with a line, or with null for an end of file, which code gets without this function. */
  answer?: ((request: InputRequest) => Awaitable<string | null | undefined>) | undefined;
  /** Resets the session if two interrupts did not end the code. Its variables are lost then. */
  resetStuck?: boolean | undefined;
  /** How long the code may take to end after an interrupt, until the next one and until run() gives up: 5 s by default. */
  graceMs?: number | undefined;
}

const inside = new AsyncLocalStorage<Run>();

/** The state of one run(). */
export class Run {
  private readonly session: Session;
  private readonly code: string;
  private readonly options: RunOptions;
  private readonly builder: ResultBuilder;
  private result = new Result(0);
  private state: "queued" | "active" | "over" = "queued";
  private timer: NodeJS.Timeout | undefined;
  private halt!: () => void; // makes the turn end
  private readonly halted = new Promise<void>((resolve) => (this.halt = resolve));
  private isHalted = false;
  private fault: { error: unknown } | undefined; // of a function of the caller
  private isLate = false; // timeoutMs were over
  private hasStarted = false; // an event of the turn was seen
  private gapBytes = 0; // of gaps whose turn is not known yet
  private wasInterrupted = false; // the session has recorded an interrupt of the turn
  private openRequest = 0; // the input request that is being answered
  private endsOfFile = 0;

  constructor(session: Session, code: string, options: RunOptions) {
    this.session = session;
    this.code = code;
    this.options = options;
    this.builder = new ResultBuilder(options.maxBytes ?? defaultMaxBytes);
  }

  /** Reports whether a function that a run() of this session calls is calling. */
  static isInside(session: Session): boolean {
    const run = inside.getStore();
    return run?.session === session && run.state === "active";
  }

  /** Returns the promise of finish(), or a rejection when the signal aborts before the run has begun. */
  abortedBefore(finished: Promise<Result>): Promise<Result> {
    const { signal } = this.options;
    if (!signal) return finished;
    setMaxListeners(0, signal); // each run adds a listener
    return new Promise<Result>((resolve, reject) => {
      const abort = (): void => {
        if (this.state === "queued") reject(signal.reason);
      };
      signal.addEventListener("abort", abort, { once: true });
      finished.then(resolve, reject).finally(() => signal.removeEventListener("abort", abort));
    });
  }

  /** Runs the code, and returns when the session is free. */
  async finish(): Promise<Result> {
    const { signal } = this.options;
    checked(this.code);
    for (const name of ["timeoutMs", "graceMs", "maxBytes"] as const) {
      const value = this.options[name];
      if (value !== undefined && !(value >= 0)) throw new RangeError(`${name} is ${value}: use 0 or more`);
    }
    signal?.throwIfAborted();
    this.state = "active";
    const end = (): void => this.end();
    signal?.addEventListener("abort", end, { once: true });
    let follower: Follower | undefined;
    let isWhole = false;
    try {
      follower = await this.session.takeFollower();
      this.result = new Result(await this.start());
      const reading = this.readTurn(follower);
      reading.catch(() => {}); // it is awaited below, unless the code does not end
      await Promise.race([reading, this.halted]);
      if (this.isHalted) await this.endTurn(reading);
      await reading;
      isWhole = true;
      if (this.fault) throw this.fault.error;
      signal?.throwIfAborted();
      return this.result;
    } finally {
      this.state = "over";
      clearTimeout(this.timer);
      signal?.removeEventListener("abort", end);
      if (follower) await this.session.returnFollower(follower, isWhole);
    }
  }

  /** Makes the turn end. */
  private end(): void {
    this.isHalted = true;
    this.halt();
  }

  private fail(error: unknown): void {
    this.fault ??= { error };
    this.end();
  }

  /** No further functions of the caller are called. */
  private get isMuted(): boolean {
    return this.fault !== undefined || this.options.signal?.aborted === true;
  }

  // ---- the turn

  /** Starts the turn and returns its number. It waits while the session is prepared, or for its place in the queue. */
  private async start(): Promise<number> {
    const { session } = this;
    const { signal } = this.options;
    const params: StartParams = { session: session.name, input: this.code, request: session.client.newRequest(), ...(this.options.queue ? { queue: true } : {}), ...session.signed() };
    let wasSent = false;
    try {
      return (await session.call("turn/start", params, { signal, sent: () => (wasSent = true) })).turn;
    } catch (error) {
      if (!wasSent || !signal?.aborted) throw error;
    }
    try {
      return (await session.call("turn/start", params)).turn; // the same request tells whether the turn has started after all
    } catch (error) {
      throw hasKind(error, "unreachable", "outcome_unknown", "lost", "no_session") ? error : signal.reason; // any other refusal says that it has not
    }
  }

  /** Interrupts the turn, twice if needed, and waits for its end. Then it resets the session, if the caller wants that. */
  private async endTurn(reading: Promise<void>): Promise<void> {
    const { turn } = this.result;
    const grace = this.options.graceMs ?? defaultGrace;
    for (let level = 1; level <= 2; level++) {
      const interrupting = this.session.interrupt(turn).catch(() => "");
      if (await isSettledWithin(reading, grace)) return;
      const effect = await Promise.race([interrupting, pause(grace).promise.then(() => "")]);
      if (["idle", "stale", "not running"].includes(effect)) return; // only events are left
    }
    if (this.options.resetStuck) {
      await this.session.reset();
      return;
    }
    throw new TurnstoneError("still_running", `turn ${turn} of session ${this.session.name} still runs after two interrupts; reset() the session, or use resetStuck, which loses its variables`, { turn });
  }

  /** Reads the events until the turn is over, and builds the result of them. */
  private async readTurn(follower: Follower): Promise<void> {
    const { result, builder, session } = this;
    for (;;) {
      const event = await follower.next();
      if (!event) throw new TurnstoneError("no_session", `session ${session.name} was closed during turn ${result.turn}`, { turn: result.turn });
      const isMine = event.turn === result.turn && !event.between_turns;
      if (event.type === "gap") this.gapBytes += event.bytes ?? 0;
      else if (isMine) this.countGap(event);
      if (isMine && (await this.take(event))) return builder.fill(result);
      if ((!isMine || event.type === "gap") && (await this.isOverWithoutEnd(event, follower))) return builder.fill(result);
      if (event.type === "text" && event.turn === 0 && !event.between_turns && !this.hasStarted) builder.addStartText(event);
      if (isMine || event.between_turns || event.turn === 0) builder.note(event, session.reportedEnd);
    }
  }

  /** A gap before the first event of the turn is not its own. */
  private countGap(event: Event): void {
    if (this.hasStarted || event.type !== "turn_started") this.builder.leftOut += this.gapBytes;
    this.gapBytes = 0;
    this.hasStarted = true;
  }

  /** Reports whether the turn is over, and its end is not among the events to come: it did not start, or its events were dropped. */
  private async isOverWithoutEnd(event: Event, follower: Follower): Promise<boolean> {
    const { result, session } = this;
    const isLater = event.turn > result.turn;
    if (!isLater && event.type !== "gap" && (this.hasStarted || event.type !== "worker_exited")) return false;
    const reply = await session.call("turn/wait", { session: session.name, turn: result.turn, after: follower.after, wait_ms: 0 });
    if (!reply.outcome || (!isLater && (await hasEvents(session, result.turn, follower.after)))) return false;
    this.builder.leftOut += this.gapBytes;
    const reason = event.type === "worker_exited" ? (event.never_ready ? "it did not start: " : "") + reasonOf(event) : "";
    if (event.type === "worker_exited") session.reportedEnd = event.generation ?? 0;
    this.takeEnd({ type: "turn_ended", seq: follower.after, turn: result.turn, outcome: reply.outcome, message: reason, elapsed_ms: reply.elapsed_ms ?? 0 });
    return true;
  }

  /** Adds an event of the turn to the result. It returns whether it is the last one. */
  private async take(event: Event): Promise<boolean> {
    const { options, builder } = this;
    switch (event.type) {
      case "turn_started":
        if (options.timeoutMs !== undefined) this.timer = setTimeout(() => ((this.isLate = true), this.end()), Math.min(options.timeoutMs, 2 ** 31 - 1));
        break;
      case "text":
        await this.takeText(event);
        break;
      case "display": {
        const { display, keep } = await builder.readDisplay(this.session, event);
        await this.callBack(options.onDisplay, display);
        keep();
        break;
      }
      case "interrupt":
        this.wasInterrupted = true;
        break;
      case "input_requested":
        this.openRequest = event.seq;
        if (event.kind !== "permission" && event.kind !== "form") void this.answer(event).catch((error) => this.fail(error)); // those are for a user
        break;
      case "input_request_ended":
        this.openRequest = 0;
        break;
      case "turn_ended":
        for (const { stream, kind, rest } of builder.decoder.finish()) {
          if (kind === "result") builder.endValue(rest);
          else if (kind === "traceback") builder.traceback.push(rest);
          else await this.output(rest, stream === "stderr");
        }
        this.takeEnd(event);
        return true;
    }
    return false;
  }

  private takeEnd(event: TurnEndedEvent): void {
    const { result } = this;
    clearTimeout(this.timer);
    result.outcome = event.outcome ?? "";
    result.durationMs = event.elapsed_ms ?? 0;
    const ended = event.outcome === "ended";
    if (ended && event.generation) this.session.reportedEnd = event.generation;
    if (event.outcome !== "ok") {
      const name = event.name || (ended ? "WorkerEnded" : event.outcome === "interrupted" ? "Interrupted" : "Error");
      result.error = new CodeError(name, event.message ?? "", this.builder.traceback.join("") || (this.hasStarted ? "" : this.builder.startText), ended);
    }
    result.timedOut = this.isLate && (this.wasInterrupted || event.outcome === "interrupted" || ended);
  }

  private async takeText(event: TextEvent): Promise<void> {
    const text = this.builder.decoder.decode(event);
    if (event.kind === "traceback") this.builder.traceback.push(this.builder.cut(text));
    else if (event.kind === "result") this.builder.addValue(text, event.begins === true);
    else await this.output(text, event.stream === "stderr");
  }

  private async output(text: string, isStderr: boolean): Promise<void> {
    this.builder.addText(text, isStderr);
    await this.callBack(this.options.onText, text);
    if (isStderr) await this.callBack(this.options.onStderr, text);
  }

  // ---- the caller's functions

  /** Calls a function of the caller, and waits for it unless the code is to end. */
  private async callBack<T>(call: ((argument: T) => unknown) | undefined, argument: T): Promise<void> {
    if (!call || this.isMuted) return;
    try {
      const made = inside.run(this, () => call(argument));
      if (!isPromise(made)) return;
      made.then(undefined, (error) => this.fail(error));
      await Promise.race([made, this.halted]);
    } catch (error) {
      this.fail(error);
    }
  }

  /** Answers an input request, with an end of file if the caller has no answer. */
  private async answer(event: InputRequestedEvent): Promise<void> {
    const { session } = this;
    let line: string | null | undefined;
    if (this.options.answer && !this.isMuted) {
      const { seq, turn, prompt = "", kind = "line", secret, terminal, reader, raw, polls } = event as InputRequestedEvent & { secret?: boolean };
      const request = { id: seq, turn, prompt, kind, ...set({ secret: secret || kind === "secret", terminal, raw, polls }), ...(reader ? { reader } : {}) } as InputRequest;
      line = await inside.run(this, () => this.options.answer!(request));
      if (this.openRequest !== seq || this.state !== "active") return; // it was answered by another client, or withdrawn
      if (line !== null && line !== undefined && typeof line !== "string") throw new TypeError(`the answer is of type ${typeof line}, not a string or null`);
    }
    const isEnd = line === null || line === undefined;
    if (isEnd && event.polls) return; // the program may go on by itself
    if (isEnd && ++this.endsOfFile > maxEndsOfFile) {
      this.builder.addNotice(`the code has asked for input ${maxEndsOfFile} times after the end of the input, and was interrupted`);
      return this.end();
    }
    const input = isEnd ? "" : event.raw || line!.endsWith("\n") ? line! : line + "\n";
    try {
      await session.call("turn/input", { session: session.name, input_request: event.seq, input, ...(isEnd ? { eof: true } : {}), ...session.signed() });
    } catch (error) {
      if (!hasKind(error, "stale", "no_session", "unreachable", "outcome_unknown", "lost")) throw error; // another client was faster, or the events tell
    }
  }
}

/** Collects the text, the value, the displays and the notices of a turn, within a bound. */
class ResultBuilder {
  readonly decoder = new EventDecoder();
  readonly traceback: string[] = [];
  private readonly startDecoder = new EventDecoder();
  startText = ""; // what the worker wrote while it started
  leftOut = 0;
  private leftOutDisplays = 0;
  private text: string[] = [];
  private stderr: string[] = [];
  private value: string[] = [];
  private valueAt = 0; // index in text
  private displays: Display[] = [];
  private notices: string[] = [];
  private room: number; // for text
  private displayRoom: number;

  constructor(maxBytes: number) {
    this.room = this.displayRoom = maxBytes;
  }

  /** Returns the part of text for which there is room, and counts the rest. */
  cut(text: string): string {
    const size = Buffer.byteLength(text);
    if (size <= this.room) {
      this.room -= size;
      return text;
    }
    const bytes = Buffer.from(text);
    let end = this.room;
    while (end > 0 && (bytes[end]! & 0xc0) === 0x80) end--; // not within a character
    this.leftOut += size - end;
    this.room = 0;
    return bytes.subarray(0, end).toString();
  }

  addText(text: string, isStderr: boolean): void {
    const kept = this.cut(text);
    if (kept === "") return;
    this.text.push(kept);
    if (isStderr) this.stderr.push(kept);
  }

  /** Adds a part of a value's echo. R shows several values: the last one is the value, and the others are text. */
  addValue(text: string, begins: boolean): void {
    if (this.value.length > 0 && (begins || this.text.length > this.valueAt)) {
      this.text.splice(this.valueAt, 0, ...this.value);
      this.value = [];
    }
    if (this.value.length === 0) this.valueAt = this.text.length;
    this.value.push(this.cut(text));
  }

  addStartText(event: TextEvent): void {
    this.startText += this.startDecoder.decode(event).slice(0, maxStartText - this.startText.length);
  }

  /** Adds what replaces an incomplete character at the end of the value. */
  endValue(rest: string): void {
    this.value.push(this.cut(rest));
  }

  /** Reads a display with all its data. Then keep() adds it to the result. */
  async readDisplay(session: Session, event: DisplayEvent): Promise<{ display: Display; keep: () => void }> {
    const display = new Display();
    display.title = event.title ?? "";
    display.id = event.id ?? "";
    display.isValue = event.result === true;
    for (const [mime, data] of Object.entries(event.data ?? {})) display.data[mime] = decodeData(data);
    let size = Object.values(display.data).reduce((sum, data) => sum + byteSize(data), 0);
    for (const [mime, left] of Object.entries(event.omitted ?? {})) {
      size += left.bytes;
      const data = size <= this.displayRoom ? await readBlob(session, left) : undefined;
      if (data === undefined) display.leftOut[mime] = left.bytes;
      else display.data[mime] = data;
    }
    const keep = (): void => {
      if (size > this.displayRoom || Object.keys(display.leftOut).length > 0) this.leftOutDisplays++;
      if (size > this.displayRoom) return;
      this.displayRoom -= size;
      const shown = display.id && event.update ? this.displays.findIndex((earlier) => earlier.id === display.id) : -1;
      if (shown < 0) this.displays.push(display);
      else this.displays[shown] = display; // as in a notebook, an update replaces what was shown
    };
    return { display, keep };
  }

  /** Adds the notice of an event. The end of a worker in the generation reported is in an earlier result. */
  note(event: Event, reported: number): void {
    if (event.type === "notice" || event.type === "limit") this.addNotice(event.message ?? "");
    else if (event.type === "access_denied") this.addNotice(`${event.author ? event.author + " refused" : event.call ? "not allowed" : "the sandbox refused"}: ${words(event.op, event.path, event.host, event.call, event.detail)}${event.hint ? `; the user can allow it with: ${event.hint}` : ""}`);
    else if (event.type === "access_granted") this.addNotice(`${event.author || "the user"} allowed: ${words(event.read && "read " + event.read, event.write && "write " + event.write, event.host && "connect " + event.host, event.call && "call " + event.call)}`);
    else if (event.type === "worker_exited" && event.generation !== reported && !event.clean) this.addNotice(`${event.never_ready ? "the worker did not start" : "the worker had ended, and its variables are lost"}: ${reasonOf(event)}`);
  }

  addNotice(notice: string): void {
    if (notice === "") return;
    if (this.notices.length < maxNotices) this.notices.push(notice);
    else this.notices[maxNotices - 1] = "further notices are in the events of the session";
  }

  fill(result: Result): void {
    result.text = this.text.join("");
    result.stderr = this.stderr.join("");
    const plain = [...this.displays].reverse().find((display) => display.isValue && display.data["text/plain"] !== undefined)?.data["text/plain"];
    result.value = this.value.length > 0 ? this.value.join("").replace(/\n$/, "") : plain?.toString();
    result.displays = this.displays;
    result.notices = this.notices;
    result.leftOut = this.leftOut;
    result.leftOutDisplays = this.leftOutDisplays;
  }
}

/** Reports whether a turn has events after a cursor. */
async function hasEvents(session: Session, turn: number, after: number): Promise<boolean> {
  try {
    return (await session.read({ after, turn, limit: 1 })).events.length > 0;
  } catch (error) {
    if (hasKind(error, "stale")) return false; // it has none at all
    throw error;
  }
}

function reasonOf(event: { reason?: string; message?: string }): string {
  return event.message ? `${event.reason} (${event.message})` : (event.reason ?? "");
}

function words(...parts: (string | undefined)[]): string {
  return parts.filter(Boolean).join(" ");
}

/** Returns the flags that are set. */
function set(flags: Record<string, boolean | undefined>): Record<string, true> {
  return Object.fromEntries(Object.entries(flags).filter(([, on]) => on).map(([name]) => [name, true]));
}

function isPromise(value: unknown): value is Promise<unknown> {
  return typeof (value as Promise<unknown> | undefined)?.then === "function";
}

function pause(ms: number): { promise: Promise<void>; clear: () => void } {
  let timer: NodeJS.Timeout;
  const promise = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  return { promise, clear: () => clearTimeout(timer) };
}

/** Waits for a promise, at most for ms, and returns whether it has settled. */
async function isSettledWithin(promise: Promise<unknown>, ms: number): Promise<boolean> {
  const late = pause(ms);
  try {
    return await Promise.race([promise.then(() => true, () => true), late.promise.then(() => false)]);
  } finally {
    late.clear();
  }
}
