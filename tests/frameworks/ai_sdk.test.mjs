// Runs the tool for the AI SDK with its mock model.
import assert from "node:assert/strict";
import { test } from "node:test";
import { generateText, isStepCount } from "ai";
import { MockLanguageModelV4 } from "ai/test";
import { Session } from "turnstone-client";
import { replTool } from "turnstone-client/ai-sdk";
import { answer } from "./chat.mjs";
import { checkTexts, pixel, turns } from "./steps.mjs";

function scriptedModel(seen) {
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  let turn = 0;
  return new MockLanguageModelV4({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last.role === "tool") seen.push(...last.content.map((part) => part.output));
      const codes = turns[turn++];
      if (!codes) return { content: [{ type: "text", text: "done" }], finishReason: { unified: "stop" }, usage, warnings: [] };
      const content = codes.map((code, i) => ({ type: "tool-call", toolCallId: `${turn}.${i}`, toolName: "python", input: JSON.stringify({ code }) }));
      return { content, finishReason: { unified: "tool-calls" }, usage, warnings: [] };
    },
  });
}

test("the example runs code in a sandbox", async () => {
  const seen = [];
  const result = await answer(scriptedModel(seen), "go");
  assert.equal(result.text, "done");
  checkTexts(seen.map((output) => output.value[0].text));
  const { type, mediaType, data } = seen[2].value[1];
  assert.deepEqual({ type, mediaType, data }, { type: "file", mediaType: "image/png", data: { type: "data", data: pixel } });
  assert.equal(result.steps[0].toolResults[1].output.value, "42");
});

test("a session without a sandbox is refused", async () => {
  const session = await Session.open();
  const seen = [];
  await generateText({ model: scriptedModel(seen), tools: { python: replTool(session) }, stopWhen: isStepCount(2), prompt: "go" });
  assert.match(JSON.stringify(seen[0]), /has no sandbox/);
  await session.close();
});

test("an abort interrupts the code", async () => {
  const session = await Session.open({ sandbox: "workspace" });
  const abort = new AbortController();
  const call = replTool(session).execute({ code: "print('began', flush=True)\nwhile True: pass" }, { abortSignal: abort.signal });
  for await (const event of session.events()) if (event.type === "text" && event.text.includes("began")) break;
  abort.abort();
  await assert.rejects(call);
  assert.equal((await session.run("6 * 7")).value, "42");
  await session.close();
});
