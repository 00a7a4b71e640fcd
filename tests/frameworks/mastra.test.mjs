// Runs the tool for Mastra in an agent with Mastra's mock model.
import assert from "node:assert/strict";
import { test } from "node:test";
import { MastraLanguageModelV2Mock } from "@mastra/core/test-utils/llm-mock";
import { ask } from "./mastra_agent.mjs";
import { checkTexts, pixel, turns } from "./steps.mjs";

function scriptedModel(seen) {
  const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 };
  let turn = 0;
  return new MastraLanguageModelV2Mock({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last.role === "tool") seen.push(...last.content.map((part) => part.output));
      const codes = turns[turn++];
      if (!codes) return { content: [{ type: "text", text: "done" }], finishReason: "stop", usage, warnings: [] };
      const content = codes.map((code, i) => ({ type: "tool-call", toolCallId: `${turn}.${i}`, toolName: "python", input: JSON.stringify({ code }) }));
      return { content, finishReason: "tool-calls", usage, warnings: [] };
    },
  });
}

test("the example runs code in a sandbox", async () => {
  const seen = [];
  const result = await ask(scriptedModel(seen), "go");
  assert.equal(result.text, "done");
  checkTexts(seen.map((output) => output.value[0].text));
  assert.deepEqual(seen[2].value[1], { type: "media", mediaType: "image/png", data: pixel });
});
