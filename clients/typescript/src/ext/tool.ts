// The part of the tools that both frameworks share. None imports its framework: both take objects of
// these forms, and a schema in the form of standardschema.dev.
import { TurnstoneError } from "../error.ts";
import type { Result } from "../result.ts";
import type { Session } from "../session.ts";

/** Options of replTool(). */
export interface ReplToolOptions {
  /** What the model reads about the tool. */
  description?: string;
  /** After this time the code is interrupted; 60 000 by default. */
  timeoutMs?: number;
  /** Allows a session without a sandbox, in which the model's code has all rights of this program. */
  unconfined?: boolean;
}

/** The arguments of the tool. */
export interface ReplToolInput {
  code: string;
}

const jsonSchema = { type: "object", properties: { code: { type: "string", description: "the code" } }, required: ["code"], additionalProperties: false } as const;

/** The schema of ReplToolInput. */
export const inputSchema = {
  "~standard": {
    version: 1,
    vendor: "turnstone",
    validate(value: unknown): { value: ReplToolInput } | { issues: { message: string }[] } {
      const code = (value as Partial<ReplToolInput> | null)?.code;
      return typeof code === "string" ? { value: { code } } : { issues: [{ message: "code must be a string" }] };
    },
    jsonSchema: { input: (_options: { target: string }) => ({ ...jsonSchema }), output: (_options: { target: string }) => ({ ...jsonSchema }) },
    types: undefined as { input: ReplToolInput; output: ReplToolInput } | undefined,
  },
} as const;

export function describeTool(session: Session): string {
  const language = session.language && session.language[0]!.toUpperCase() + session.language.slice(1) + " ";
  return `Run ${language}code in a session that keeps its variables, imports and definitions from call to call. Returns the output, the value of the last expression, images, and the traceback of an error.`;
}

/**
 * Returns a function that runs the code of a model. Its first call refuses a session without a sandbox.
 * Calls that come at once run in their order, because a model may have written the second one for the
 * state after the first.
 */
export function modelRunner(session: Session, options: ReplToolOptions): (code: string, signal?: AbortSignal) => Promise<Result> {
  let check: Promise<void> | undefined = options.unconfined ? Promise.resolve() : undefined;
  return async (code, signal) => {
    check ??= checkSandbox(session).catch((error) => {
      check = undefined;
      throw error;
    });
    await check;
    return session.run(code, { timeoutMs: options.timeoutMs ?? 60_000, ...(signal ? { signal } : {}) });
  };
}

async function checkSandbox(session: Session): Promise<void> {
  if ((await session.info()).sandbox) return;
  throw new TurnstoneError("permission", 'the session has no sandbox, and a model\'s code would run with all your rights: open it with sandbox: "workspace", or pass unconfined: true to the tool');
}

/** Returns the text for a model. It is never empty, because some models take an empty result for a failure. */
export function shownText(result: Result): string {
  return result.render() || "[no output]";
}

/** Returns the images as base64 with their types. */
export function encodedImages(result: Result): { mediaType: string; data: string }[] {
  return result.displays.flatMap((display) => (display.image && display.imageType ? [{ mediaType: display.imageType, data: Buffer.from(display.image).toString("base64") }] : []));
}
