// Functions of this program that the code of a session can call.
import { AsyncLocalStorage } from "node:async_hooks";
import type { Client } from "./client.ts";
import { isSameDaemon } from "./client.ts";
import type { Connection } from "./connection.ts";
import { hasKind, LostConnection, TurnstoneError } from "./error.ts";
import type { Session } from "./session.ts";
import { decode, encode } from "./values.ts";
import type { FunctionCall, FunctionDoc, FunctionsParams } from "./wire.ts";

const maxRunning = 2048; // calls, and functions that go on after their call was cancelled
const maxLargeResults = 4; // that are sent at the same time; others wait
const smallResult = 64 << 10; // characters
const failed = -32001;

/** What a function learns about its call. */
export interface CallContext {
  /** Aborts when the code is interrupted, and when the connection to the daemon is lost. */
  readonly signal: AbortSignal;
  readonly session: string;
  /** The active turn; 0 between turns. */
  readonly turn: number;
  readonly function: string;
}

/** A function for the code of a session. The arguments come as one object, by their names. */
export interface FunctionSpec {
  description?: string | undefined;
  /** A JSON schema of an object. Its properties are the parameters, in order. Without it, the function accepts any named arguments. */
  parameters?: object | undefined;
  /** A JSON schema of the result. */
  returns?: object | undefined;
  /** The namespace: search of the group docs is turnstone.tools.docs.search in Python, and docs.search in R. */
  group?: string | undefined;
  call(args: any, context: CallContext): unknown;
}

/** Functions by name. */
export type Functions = Record<string, FunctionSpec | FunctionSpec["call"]>;

interface FunctionSet {
  params: FunctionsParams;
  byName: Map<string, FunctionSpec>;
  /** Can be called until the daemon has answered. */
  before: FunctionSet | undefined;
}

interface Running extends CallContext {
  isOver: boolean;
}

const current = new AsyncLocalStorage<Running>();

/** Refuses to run code in a session whose running code waits for the function that wants to run it. */
export function refuseWithin(name: string): void {
  const call = current.getStore();
  if (call?.session === name && call.turn && !call.isOver && !call.signal.aborted) {
    throw new TurnstoneError("busy", `the code of session ${name} waits for the function ${call.function}, which therefore cannot run code there`);
  }
}

/** The functions that a client gives, and their calls. */
export class FunctionHost {
  private readonly client: Client;
  private readonly sets = new Map<string, FunctionSet>(); // by session
  private readonly calls = new Map<Connection, Map<unknown, AbortController>>(); // by connection and request
  private running = 0; // including functions whose call was cancelled
  private large = 0; // results that are being sent
  private waiting: (() => void)[] = []; // large results that wait
  private lastDaemon: Connection | undefined;

  constructor(client: Client) {
    this.client = client;
  }

  /** Replaces the functions of a session. */
  async give(session: Session, functions: Functions): Promise<void> {
    const byName = new Map<string, FunctionSpec>();
    const docs: FunctionDoc[] = [];
    for (const [name, given] of Object.entries(functions)) {
      const spec: FunctionSpec = typeof given === "function" ? { call: given } : given;
      if (typeof spec?.call !== "function") throw new TypeError(`function ${name}: it has no call`);
      byName.set(spec.group ? `${spec.group}.${name}` : name, spec);
      docs.push({ name, ...(spec.group ? { group: spec.group } : {}), ...(spec.description ? { description: spec.description } : {}), ...(spec.parameters ? { parameters: spec.parameters } : {}), ...(spec.returns ? { returns: spec.returns } : {}) });
    }
    const set: FunctionSet = { params: { session: session.name, functions: docs, ...session.signed() }, byName, before: this.sets.get(session.name) };
    this.sets.set(session.name, set);
    try {
      await session.call("session/functions", set.params);
    } catch (error) {
      if (this.sets.get(session.name) === set) this.put(session.name, set.before);
      throw error;
    }
    set.before = undefined;
    if (this.sets.get(session.name) === set && byName.size === 0) this.sets.delete(session.name);
  }

  private put(name: string, set: FunctionSet | undefined): void {
    if (set) this.sets.set(name, set);
    else this.sets.delete(name);
  }

  // ---- the connection

  /** Gives the functions again on a new connection, before any other call. */
  connected(connection: Connection): void {
    if (this.lastDaemon && !isSameDaemon(this.lastDaemon, connection)) this.sets.clear(); // that daemon had the sessions
    this.lastDaemon = connection;
    for (const [name, set] of this.sets) {
      connection.call("session/functions", set.params).catch((error) => {
        if (hasKind(error, "no_session") && this.sets.get(name) === set) this.sets.delete(name);
      });
    }
  }

  /** Cancels the calls of a connection that was lost. If there are functions, it connects again, because code may call them. */
  disconnected(connection: Connection): void {
    for (const controller of this.calls.get(connection)?.values() ?? []) controller.abort(new LostConnection(connection.lost));
    this.calls.delete(connection);
    if (this.sets.size > 0 && !this.client.isClosed) this.client.connected().catch(() => {}); // later calls report the reason
  }

  // ---- calls

  /** Starts what answers a request of the daemon. */
  request(connection: Connection, message: { id: unknown; method: string; params?: any }): void {
    const { id, method, params } = message;
    if (method !== "function/call") return connection.answer(failure(id, "CallError", `method not found: ${method}`));
    if (this.running >= maxRunning) return connection.answer(failure(id, "CallError", `${maxRunning} functions are running already: wait for some to end`));
    const controller = new AbortController();
    if (!this.calls.has(connection)) this.calls.set(connection, new Map());
    this.calls.get(connection)!.set(id, controller);
    this.running++;
    connection.hold();
    const call: Running = { signal: controller.signal, session: params.session, turn: params.turn, function: params.function, isOver: false };
    void current.run(call, async () => {
      try {
        await this.answer(connection, id, await this.run(connection, params, call), call);
      } catch (error) {
        if (!call.signal.aborted) connection.answer(failure(id, nameOf(error), textOf(error)));
      } finally {
        call.isOver = true;
        this.running--;
        this.calls.get(connection)?.delete(id);
        connection.release();
      }
    });
  }

  /** Cancels a call whose code no longer waits. */
  cancel(connection: Connection, id: unknown): void {
    this.calls.get(connection)?.get(id)?.abort(new DOMException("the code no longer waits for this call", "AbortError"));
  }

  private async run(connection: Connection, params: FunctionCall, call: Running): Promise<unknown> {
    let set = this.sets.get(params.session);
    while (set && !set.byName.has(params.function)) set = set.before;
    const spec = set?.byName.get(params.function);
    if (!spec) throw Object.assign(new Error(`${params.function}: the client no longer gives this function`), { name: "NameError" });
    let args: unknown = params.arguments;
    if (args === undefined) {
      const parts: string[] = [];
      for (let offset = 0, more = true; more; ) {
        const part = await connection.call("function/arguments", { call: params.call, offset });
        parts.push(part.text);
        offset = part.next;
        more = part.more === true;
      }
      args = JSON.parse(parts.join(""));
    }
    return spec.call(decode(args), call);
  }

  /** Sends a result. A large one waits until few others are being sent. */
  private async answer(connection: Connection, id: unknown, result: unknown, call: Running): Promise<void> {
    if (call.signal.aborted) return;
    const line = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"value":${encode(result)}}}`;
    if (line.length <= smallResult) return connection.answer(line);
    if (this.large >= maxLargeResults) await new Promise<void>((resolve) => this.waiting.push(resolve));
    else this.large++;
    try {
      await connection.answerWhenSent(line);
    } finally {
      const next = this.waiting.shift();
      if (next) next();
      else this.large--;
    }
  }
}

function failure(id: unknown, name: string, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code: failed, message: message.replace(/[\uD800-\uDFFF]/g, "\uFFFD"), data: { kind: "call", name } } });
}

function nameOf(error: unknown): string {
  const name = error instanceof Error ? error.name : "";
  return name === "" || name === "Error" ? "CallError" : name;
}

function textOf(error: unknown): string {
  try {
    return error instanceof Error ? error.message : String(error);
  } catch {
    return "the function has thrown something that is not text";
  }
}
