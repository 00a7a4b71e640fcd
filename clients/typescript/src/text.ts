import { StringDecoder } from "node:string_decoder";
import { TurnstoneError } from "./error.ts";
import type { Event, GapEvent, OmittedEvent, TextEvent } from "./wire.ts";

/** Decodes text events. A character may be written in two parts, which are two events of one stream and kind. */
export class EventDecoder {
  private decoders = new Map<string, StringDecoder>();

  decode(event: TextEvent): string {
    const stream = `${event.stream ?? "stdout"} ${event.kind ?? ""}`;
    let decoder = this.decoders.get(stream);
    if (!decoder) {
      if (event.text !== undefined) return event.text; // no character is open
      this.decoders.set(stream, (decoder = new StringDecoder("utf8")));
    }
    return decoder.write(event.text === undefined ? Buffer.from(event.data ?? "", "base64") : Buffer.from(event.text));
  }

  /** Returns what replaces a character that is not complete at the end, by stream and kind. */
  finish(): { stream: string; kind: string; rest: string }[] {
    return [...this.decoders].map(([key, decoder]) => ({ stream: key.split(" ")[0]!, kind: key.split(" ")[1]!, rest: decoder.end() })).filter(({ rest }) => rest !== "");
  }
}

/**
 * Returns the text of events, from both streams in order. Some output may be missing from the events,
 * because it was too large for a reply or the session has dropped it. The option missing replaces it.
 * Without that option, text() throws a TurnstoneError of kind "incomplete".
 */
export function text(events: Iterable<Event>, options: { missing?: string } = {}): string {
  let all = "";
  const decoder = new EventDecoder();
  for (const event of events) {
    if (event.type === "text") all += decoder.decode(event);
    else if (event.type === "gap" || (event.type === "omitted" && event.bytes)) {
      if (options.missing === undefined) throw new TurnstoneError("incomplete", whatIsMissing(event));
      all += options.missing;
    }
  }
  for (const { rest } of decoder.finish()) all += rest;
  return all;
}

function whatIsMissing(event: GapEvent | OmittedEvent): string {
  const which = `${event.bytes ?? 0} bytes of output, in the events ${event.from} to ${event.to}`;
  if (event.type === "gap") return which + ", were dropped by the session; call text() with missing to insert another text instead";
  return which + ", are not in the reply: read them in parts with read({ after }), or use text() with missing";
}
