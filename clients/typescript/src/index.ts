// Sessions of Python, R and other languages that stay alive, for programs in Node.js.
export type * from "./wire.ts";
export { Client, connect, type ConnectOptions } from "./client.ts";
export { Session, type OpenOptions, type WaitOptions } from "./session.ts";
export { Display, Result } from "./result.ts";
export { CodeError, TurnstoneError } from "./error.ts";
export { text } from "./text.ts";
export { defaultSocket } from "./discovery.ts";
export type { CallOptions } from "./connection.ts";
export type { RunOptions } from "./run.ts";
export type { CallContext, Functions, FunctionSpec } from "./functions.ts";
export type { GetOptions, PutOptions } from "./transfer.ts";
