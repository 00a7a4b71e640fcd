// A tool for Mastra, version 1 or newer:
//
//   await using session = await Session.open({ sandbox: "workspace" });
//   const agent = new Agent({ name: "analyst", instructions, model, tools: { python: replTool(session) } });
import type { Session } from "../session.ts";
import { describeTool, encodedImages, inputSchema, modelRunner, shownText, type ReplToolInput, type ReplToolOptions } from "./tool.ts";

export type { ReplToolInput, ReplToolOptions };

/** What a call returns. Mastra stores it as JSON. */
export interface ReplToolOutput {
  /** At most 20 000 characters. */
  text: string;
  images: { mediaType: string; data: string }[];
  /** "ok", "error", "interrupted" or "ended". */
  outcome: string;
}

/** A part of what the model gets. */
export type ModelPart = { type: "text"; text: string } | { type: "media"; mediaType: string; data: string };

/**
 * Returns a tool that runs a model's code in a session. The model gets text of at most 20 000 characters,
 * and the images. An error of the code is part of the text, and not thrown.
 *
 * The first call refuses a session without a sandbox, unless unconfined is true.
 */
export function replTool(session: Session, options: ReplToolOptions = {}) {
  const run = modelRunner(session, options);
  return {
    id: session.language || "run_code",
    description: options.description ?? describeTool(session),
    inputSchema,
    async execute({ code }: ReplToolInput, { abortSignal }: { abortSignal?: AbortSignal | undefined } = {}): Promise<ReplToolOutput> {
      const result = await run(code, abortSignal);
      return { text: shownText(result), images: encodedImages(result), outcome: result.outcome };
    },
    toModelOutput({ text, images }: ReplToolOutput): { type: "content"; value: ModelPart[] } {
      return { type: "content", value: [{ type: "text", text }, ...images.map((image): ModelPart => ({ type: "media", ...image }))] };
    },
  };
}
