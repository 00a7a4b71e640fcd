import type { Connection, Stream } from "./connection.ts";
import { LostConnection, TurnstoneError } from "./error.ts";
import type { Session } from "./session.ts";
import type { Event } from "./wire.ts";

const maxLosses = 8; // of connections in a row before a subscription is made

/** Reads every event of a session after a cursor once and in order, and then each new one, over all connections of its client. */
export class Follower {
  /** Everything up to this event has been read. */
  after: number;
  private readonly session: Session;
  private readonly reconnects: boolean;
  private readonly stopping = new AbortController();
  private stream: Stream | undefined;
  private connection: Connection | undefined;
  private events: Event[] = [];
  private first = 0; // index in events

  constructor(session: Session, after: number, reconnects = true) {
    this.session = session;
    this.after = after;
    this.reconnects = reconnects;
  }

  /** Returns the next event, or undefined at the end of the session. */
  async next(): Promise<Event | undefined> {
    const { signal } = this.stopping;
    for (;;) {
      signal.throwIfAborted();
      const event = this.events[this.first++];
      if (event) {
        this.after = event.type === "gap" ? (event.to ?? event.seq) : event.seq;
        return event;
      }
      try {
        const { method, params } = await (await this.subscribe()).next();
        this.first = 0;
        this.events = [];
        if (method === "stream/snapshot") this.events = params.events;
        else if (method === "stream/event") this.events = [params.event];
        else if (method === "stream/ended") {
          if (params.detached) throw new TurnstoneError("detached", params.reason);
          return undefined;
        }
      } catch (error) {
        signal.throwIfAborted();
        if (!(error instanceof LostConnection)) throw error;
        this.stream = undefined;
        if (!this.reconnects) throw this.session.client.gone(error.message);
      }
    }
  }

  /** Returns the subscription, and makes one if there is none. */
  async subscribe(): Promise<Stream> {
    const { client } = this.session;
    const { signal } = this.stopping;
    for (let losses = 0; !this.stream; losses++) {
      const connection = await client.connected(signal);
      this.session.checkDaemon(connection);
      signal.throwIfAborted();
      try {
        this.connection = connection;
        this.stream = await connection.subscribe({ session: this.session.name, after: this.after, ...this.session.signed() });
        if (signal.aborted) await this.close(); // meanwhile
      } catch (error) {
        if (!(error instanceof LostConnection)) throw error;
        if (losses >= maxLosses || !this.reconnects) throw client.gone(error.message);
      }
      signal.throwIfAborted();
    }
    return this.stream;
  }

  /** So much waits to be read that the daemon has paused. */
  get isBehind(): boolean {
    return this.stream?.isFull === true;
  }

  /** Makes next() throw at once. */
  stop(reason: unknown): void {
    this.stopping.abort(reason);
    this.stream?.stop(reason);
  }

  async close(): Promise<void> {
    const { stream } = this;
    this.stop(new LostConnection("it was closed"));
    this.stream = undefined;
    this.events = [];
    if (stream && !this.connection!.lost) await stream.leave();
  }
}
