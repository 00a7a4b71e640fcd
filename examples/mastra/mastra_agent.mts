// A Mastra agent whose tool is a Python session in a sandbox.
//
//   npm install @mastra/core turnstone-client
//   OPENAI_API_KEY=… node mastra_agent.mts "How many primes are below 10000?"
import { Agent, type AgentConfig } from "@mastra/core/agent";
import { Session } from "turnstone-client";
import { replTool } from "turnstone-client/mastra";

export async function ask(model: AgentConfig["model"], question: string) {
  await using session = await Session.open({ sandbox: "workspace" });
  const agent = new Agent({ id: "analyst", name: "analyst", instructions: "Compute with Python.", model, tools: { python: replTool(session) } });
  return await agent.generate(question, { maxSteps: 20 });
}

if (import.meta.main) console.log((await ask("openai/gpt-5-mini", process.argv[2]!)).text);
