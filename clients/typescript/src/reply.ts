// Replies of the daemon, which leave out the middle of large output.
import { hasKind } from "./error.ts";
import type { Session } from "./session.ts";
import type { Base64, Blob, Reply } from "./wire.ts";

const maxReplyBytes = 64 << 20; // of text and displays
const maxPage = { limit: 2000, inline_bytes: 1 << 20 }; // the daemon accepts no larger page

/** Adds the omitted output to a reply, unless it is too large. */
export async function complement(session: Session, reply: Reply): Promise<Reply> {
  const omitted = reply.events.filter((event) => event.type === "omitted");
  let size = omitted.reduce((sum, event) => sum + (event.bytes ?? 0), 0);
  if (omitted.length > 0 && size <= maxReplyBytes) {
    let after = omitted[0]!.from! - 1;
    const events = reply.events.slice(0, reply.events.indexOf(omitted[0]!)).filter((event) => event.seq <= after); // the last event may be incomplete
    while (after < reply.next) {
      const page = await session.read({ after, ...maxPage });
      if (page.events.length === 0) break;
      for (const event of page.events) if ((event.type === "gap" && event.from ? event.from : event.seq) <= reply.next) events.push(event);
      after = page.last;
    }
    reply.events = events;
  }
  for (const event of reply.events) {
    if (event.type !== "display") continue;
    for (const [mime, left] of Object.entries(event.omitted ?? {})) {
      const data = (size += left.bytes) <= maxReplyBytes ? await readBlob(session, left) : undefined;
      if (data === undefined) continue; // the session has dropped it
      (event.data ??= {})[mime] = typeof data === "string" ? data : { base64: data.toString("base64") };
      delete event.omitted![mime];
    }
    if (event.omitted && Object.keys(event.omitted).length === 0) delete event.omitted;
  }
  return reply;
}

/** Reads data that was left out of a display: text, or bytes. It is undefined if the session has dropped it. */
export async function readBlob(session: Session, left: Blob): Promise<string | Buffer | undefined> {
  if (!left.digest) return undefined;
  const parts: Buffer[] = [];
  for (let offset = 0; offset < left.bytes; offset += parts.at(-1)!.length) {
    try {
      const part = await session.call("blob/get", { session: session.name, digest: left.digest, offset });
      parts.push(Buffer.from(part.data, "base64"));
    } catch (error) {
      if (hasKind(error, "no_blob")) return undefined;
      throw error;
    }
    if (parts.at(-1)!.length === 0) return undefined;
  }
  const data = Buffer.concat(parts);
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
  } catch {
    return data;
  }
}

/** Decodes data of a display event. */
export function decodeData(data: string | Base64): string | Buffer {
  return typeof data === "string" ? data : Buffer.from(data.base64, "base64");
}
