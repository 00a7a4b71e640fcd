// Code that waits until the session is idle. It is kept in this tab, where the user sees it. It does not
// run after a turn that it was not written for, unless the user says so.
import { h, clear, count, holdFocus, say } from "./dom.js";
import { post } from "./api.js";
import { highlighted } from "./code.js";

const maxWaiting = 20;
const maxLines = 6; // of an input that are shown

export class RunQueue {
  constructor(session) {
    this.session = session; // a SessionView
    this.waiting = []; // code, the next first
    this.why = ""; // why it does not run; "" if it does
    this.element = h("section", { class: "queue", "aria-label": "code that waits", hidden: true });
  }

  // add reports whether there was room.
  add(code) {
    if (this.waiting.length === maxWaiting) {
      say("At most " + maxWaiting + " inputs wait.", "bad");
      return false;
    }
    if (this.waiting.length === 0) this.resume();
    this.waiting.push(code);
    this.show();
    return true;
  }

  // resume runs the code after the turn that is the last one now, if that one succeeds or the user has
  // seen that it did not.
  resume(seen = false) {
    const { turn, generation } = this.session.info;
    Object.assign(this, { after: turn, generation, accepted: seen ? turn : 0, why: "" });
  }

  drop() {
    this.waiting = [];
    this.show();
  }

  // next runs the next input if the session is idle and all its events are known.
  async next() {
    const i = this.session.info;
    if (this.waiting.length === 0 || this.sending || this.why || i?.state !== "idle" || this.session.cursor < i.last_seq) return;
    this.why = this.reasonAgainst(i);
    if (this.why) return this.show();
    this.sending = true;
    try {
      const { turn } = await post("run", { session: this.session.name, code: this.waiting[0] });
      this.after = turn;
      this.waiting.shift();
    } catch (e) {
      this.why = e.message;
    } finally {
      this.sending = false;
      this.show();
    }
  }

  reasonAgainst(i) {
    if (i.generation !== this.generation) return "The runtime was restarted.";
    const row = this.session.rows.findLast((one) => one.turn === i.turn);
    if (i.turn !== this.after) return (row?.author || "Another client") + " ran turn " + i.turn + " since.";
    if (i.turn !== this.accepted && row?.outcome && row.outcome !== "ok") return "Turn " + i.turn + (row.outcome === "interrupted" ? " was interrupted." : " failed.");
    return "";
  }

  show() {
    holdFocus(this.element, () => this.build(), () => this.session.composer.input);
    this.session.resizedQueue();
    if (this.session.info) this.session.composer.show(this.session.info); // its button names the queue
  }

  build() {
    clear(this.element).hidden = this.waiting.length === 0;
    if (this.element.hidden) return;
    const button = (text, act, kind) => h("button", { type: "button", class: kind, onclick: act }, text);
    this.element.append(
      h("p", { role: "status" }, this.why ? [this.why + " ", button("Run anyway", () => { this.resume(true); this.show(); this.next(); }, "main"), " "] : count(this.waiting.length, "input") + " to run when the session is idle ", button("Remove all", () => this.drop(), "more")),
      h("ol", {}, this.waiting.map((code, n) => {
        const lines = code.split("\n");
        return h("li", {}, h("pre", { class: "code", tabIndex: 0 }, highlighted(lines.slice(0, maxLines).join("\n"), this.session.language), lines.length > maxLines ? "\n…" : null),
          button("Edit", () => { this.waiting.splice(n, 1); this.show(); this.session.composer.edit(code, "the queue"); }, "quiet"),
          button("Remove", () => { this.waiting.splice(n, 1); this.show(); }, "quiet"));
      })));
  }
}
