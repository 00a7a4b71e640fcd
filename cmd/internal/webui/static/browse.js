// The whole output of a turn, as lines of equal height. The document has only the visible lines. They
// are lines of the rendered output, without colours.
import { h, clear, visible, say } from "./dom.js";
import { get } from "./api.js";

const step = 200; // lines of one call
const height = 20; // pixels of a line
const maxHeight = 15000000; // pixels; browsers accept no taller element

export class Browser {
  constructor(session, row) {
    this.session = session;
    this.row = row;
    this.chunks = new Map(); // the first line of a chunk → its lines, or null while it is read
    this.lines = h("div", { class: "lines" });
    this.list = h("div", { class: "tall", tabIndex: 0, role: "region", "aria-label": "all lines of turn " + row.turn, onscroll: () => this.show() }, this.space = h("div", {}), this.lines);
    this.dialog = h("dialog", { class: "browse", onclose: () => this.dialog.remove() },
      h("header", {}, h("h2", {}, "Turn " + row.turn), this.status = h("span", {}), h("button", { type: "button", onclick: () => this.dialog.close() }, "Close")), this.list);
  }

  async open() {
    try {
      const { first, last } = await get("span", { session: this.session.name, first: this.row.first, last: this.row.last });
      this.first = first;
      this.total = last - first + 1;
    } catch (e) {
      say(e.message, "bad");
      return;
    }
    document.body.append(this.dialog);
    this.space.style.height = Math.min(maxHeight, this.total * height) + "px";
    this.dialog.showModal();
    this.list.focus();
    this.show();
  }

  // show puts the visible lines into the document.
  show() {
    const scale = Math.max(1, this.total * height / maxHeight);
    const top = Math.floor(this.list.scrollTop * scale / height), n = Math.ceil(this.list.clientHeight / height) + 1;
    this.status.textContent = "line " + (top + 1).toLocaleString("en") + " of " + this.total.toLocaleString("en");
    clear(this.lines).style.transform = "translateY(" + this.list.scrollTop + "px)";
    for (let i = Math.min(top, Math.max(0, this.total - n + 1)); i < Math.min(this.total, top + n); i++) {
      const chunk = Math.floor(i / step) * step;
      const text = this.chunks.get(chunk)?.[i - chunk];
      this.lines.append(h("div", { class: "line" }, text === undefined ? "…" : visible(text.slice(0, 2000))));
      if (!this.chunks.has(chunk)) this.read(chunk);
    }
  }

  async read(chunk) {
    this.chunks.set(chunk, null);
    if (this.chunks.size > 60) this.chunks.delete(this.chunks.keys().next().value);
    try {
      const from = this.first + chunk;
      const { lines } = await get("lines", { session: this.session.name, from, to: Math.min(from + step, this.first + this.total) - 1 });
      this.chunks.set(chunk, (lines ?? []).map((line) => line.text));
    } catch (e) {
      this.chunks.set(chunk, Array(step).fill("not read: " + e.message));
    }
    this.show();
  }
}
