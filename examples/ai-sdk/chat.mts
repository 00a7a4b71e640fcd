// A chat whose model runs Python in a sandbox, with the AI SDK.
//
//   npm install ai turnstone-client
//   AI_GATEWAY_API_KEY=… node chat.mts "How many primes are below 10000?"
import { generateText, isStepCount, type LanguageModel } from "ai";
import { Session } from "turnstone-client";
import { replTool } from "turnstone-client/ai-sdk";

export async function answer(model: LanguageModel, prompt: string) {
  await using session = await Session.open({ sandbox: "workspace" });
  return await generateText({ model, prompt, tools: { python: replTool(session) }, stopWhen: isStepCount(20) });
}

if (import.meta.main) console.log((await answer("openai/gpt-5-mini", process.argv[2]!)).text);
