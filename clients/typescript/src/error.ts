import type { InputRequest } from "./wire.ts";

/** The daemon refused a call, or cannot be reached. */
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
