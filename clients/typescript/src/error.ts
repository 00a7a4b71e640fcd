import type { InputRequest } from "./wire.ts";

/** A call was refused, or its session or daemon cannot be reached. */
export class TurnstoneError extends Error {
  /** One of the kinds in docs/daemon-protocol.md, such as "busy" or "unreachable". */
  readonly kind: string;
  /** The fields of the kind, for example the input_request of "waiting". */
  readonly data: { input_request?: InputRequest; turn?: number; write_lock_holder?: string; [name: string]: unknown };

  constructor(kind: string, message: string, data: Record<string, unknown> = {}) {
    super(message);
    this.name = "TurnstoneError";
    this.kind = kind;
    this.data = data;
  }
}

/** How code failed: by an error of its own, by an interrupt, or because its worker ended. */
export class CodeError extends Error {
  /** The report as the language prints it; it may be empty. */
  readonly traceback: string;
  /** The worker has ended, and all variables are lost. The next input starts another. */
  readonly ended: boolean;

  constructor(name: string, message: string, traceback = "", ended = false) {
    super(message);
    this.name = name;
    this.traceback = traceback;
    this.ended = ended;
    this.stack = traceback ? `${this}\n${traceback}` : `${this}`; // where this object was made says nothing
  }

  toJSON(): { name: string; message: string; traceback: string; ended: boolean } {
    return { name: this.name, message: this.message, traceback: this.traceback, ended: this.ended };
  }
}

/** The connection ended before a call was answered. Client repeats the call or reports the loss. */
export class LostConnection extends Error {}

/** Reports whether a value is a TurnstoneError with one of these kinds. */
export function hasKind(error: unknown, ...kinds: string[]): error is TurnstoneError {
  return error instanceof TurnstoneError && kinds.includes(error.kind);
}
