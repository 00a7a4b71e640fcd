// Programs that use the type of an event. The compiler reads this file; nobody runs it. The accesses that
// must be errors are marked: the compiler refuses a mark without an error.
import { type Event, type DisplayEvent } from "../src/index.ts";

export function summarize(events: Event[]): string {
  let said = "";
  for (const event of events) {
    said += event.seq + event.type;
    switch (event.type) {
      case "text":
        said += (event.text ?? "") + (event.stream ?? "stdout");
        // @ts-expect-error a text has no outcome
        said += event.outcome;
        break;
      case "display":
        for (const [mime, data] of Object.entries(event.data ?? {})) said += mime + (typeof data === "string" ? data : data.base64);
        for (const blob of Object.values(event.omitted ?? {})) said += blob.bytes;
        break;
      case "turn_ended":
        said += event.outcome! + (event.elapsed_ms! + event.exit_code!);
        // @ts-expect-error a turn_ended has no text
        said += event.text;
        break;
      case "limit":
        // @ts-expect-error not a step
        if (event.step === "exploded") break;
        break;
      // @ts-expect-error not a type of event
      case "exploded":
        break;
    }
    // @ts-expect-error not every event has a text
    said += event.text;
  }
  return said;
}

export const isDisplay = (event: Event): event is DisplayEvent => event.type === "display";
