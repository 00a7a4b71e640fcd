// A tool for the AI SDK, version 7 or newer:
//
//   await using session = await Session.open({ sandbox: "workspace" });
//   await generateText({ model, tools: { python: replTool(session) }, stopWhen: isStepCount(20), prompt });
import type { Result } from "../result.ts";
import type { Session } from "../session.ts";
import { describeTool, encodedImages, inputSchema, modelRunner, shownText, type ReplToolInput, type ReplToolOptions } from "./tool.ts";

export type { ReplToolInput, ReplToolOptions };

/** A part of what the model gets. */
export type ModelPart = { type: "text"; text: string } | { type: "file"; mediaType: string; data: { type: "data"; data: string } };

/**
 * Returns a tool that runs a model's code in a session. Its output is the whole Result. The model gets text
 * of at most 20 000 characters, and the images. An error of the code is part of the text, and not thrown.
 * The calls of one step run in their order.
 *
 * The first call refuses a session without a sandbox, unless unconfined is true.
 */
export function replTool(session: Session, options: ReplToolOptions = {}) {
  const run = modelRunner(session, options);
  return {
    description: options.description ?? describeTool(session),
    inputSchema,
    execute: ({ code }: ReplToolInput, { abortSignal }: { abortSignal?: AbortSignal | undefined } = {}): Promise<Result> => run(code, abortSignal),
    toModelOutput({ output }: { output: Result }): { type: "content"; value: ModelPart[] } {
      const images = encodedImages(output).map(({ mediaType, data }): ModelPart => ({ type: "file", mediaType, data: { type: "data", data } }));
      return { type: "content", value: [{ type: "text", text: shownText(output) }, ...images] };
    },
  };
}
