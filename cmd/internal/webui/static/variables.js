// The panel of variables. It asks only while it is open and the session is idle, after each change and at
// most every two seconds.
import { h, clear, holdFocus, size, visible, say } from "./dom.js";
import { post } from "./api.js";

const pause = 2000; // ms

export class VariablesPanel {
  constructor(session) {
    this.session = session; // a SessionView
    this.seen = 0; // the newest event when the list was read
    this.at = -Infinity; // when that was
    this.said = h("p", { class: "remark", role: "status" });
    this.list = h("tbody", {});
    this.details = h("pre", { class: "out result", tabIndex: 0, hidden: true, "aria-label": "details of a variable" });
    this.element = h("aside", { class: "variables", "aria-label": "variables", hidden: true, onkeydown: (e) => { if (e.key === "Escape") this.toggle(); } },
      h("header", {}, h("h2", {}, "Variables"), h("button", { type: "button", class: "quiet", onclick: () => this.toggle() }, "Close")),
      this.said, this.all = h("div", { class: "all", tabIndex: 0, role: "region", "aria-label": "list of variables" }, h("table", {}, h("thead", {}, h("tr", {}, ["name", "type", "shape", "size"].map((name) => h("th", { scope: "col" }, name)))), this.list)), this.details);
  }

  toggle() {
    this.element.hidden = !this.element.hidden;
    if (!this.element.hidden) this.follow();
    (this.element.hidden ? this.session.scroller : this.all).focus({ preventScroll: true });
  }

  // follow reads the list if it may have changed.
  async follow() {
    const i = this.session.info;
    if (this.element.hidden || !i) return;
    const idle = i.state === "idle";
    this.element.classList.toggle("old", !idle && this.read !== undefined);
    if (!idle) this.said.textContent = this.read === undefined ? "The list comes when the session is idle." : "As of turn " + this.read + ".";
    if (!idle || this.asking || i.last_seq === this.seen || performance.now() - this.at < pause) return;
    this.asking = true;
    this.seen = i.last_seq;
    this.at = performance.now();
    try {
      const { variables, more } = await post("variables", { session: this.session.name });
      this.read = i.turn;
      this.said.textContent = variables?.length ? (more ? "The newest " + variables.length + " of " + (variables.length + more) + "." : "") : "No variables yet.";
      holdFocus(this.list, () => clear(this.list).append(...(variables ?? []).map((v) => this.row(v))), () => this.all);
    } catch (e) {
      this.seen = 0;
      if (e.kind !== "busy" && e.kind !== "waiting") this.said.textContent = e.message;
    } finally {
      this.asking = false;
    }
  }

  row(v) {
    return h("tr", {},
      h("th", { scope: "row" }, h("button", { type: "button", class: "more", onclick: () => this.inspect(v.name) }, visible(v.name))),
      h("td", {}, visible(v.type)), h("td", {}, visible(v.shape ?? "")), h("td", {}, v.bytes ? size(v.bytes) : ""));
  }

  async inspect(name) {
    try {
      const { found, data } = await post("inspect", { session: this.session.name, code: name, cursor: new TextEncoder().encode(name).length });
      clear(this.details).append(...visible(found ? data["text/plain"] ?? "" : name + " is no longer defined."));
      this.details.hidden = false;
    } catch (e) {
      say(e.kind === "busy" ? "The session runs; details come when it is idle." : e.message, "bad");
    }
  }
}
