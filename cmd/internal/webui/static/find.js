// Search in a whole session. The server searches, because most turns are not in the document.
import { h, clear, say, visible } from "./dom.js";
import { get } from "./api.js";

export class Finder {
  constructor(session) {
    this.session = session;
    this.found = [];
    this.at = -1;
    this.field = h("input", { type: "search", "aria-label": "search in this session", placeholder: "Search code and output", oninput: () => this.soon(), onkeydown: (e) => this.key(e) });
    this.regexp = h("input", { type: "checkbox", id: "regexp", onchange: () => this.search() });
    this.status = h("span", { class: "count", role: "status" });
    this.results = h("ol", { class: "hits" });
    this.element = h("search", { class: "find", hidden: true },
      h("div", { class: "bar" }, this.field, h("label", { for: "regexp" }, this.regexp, "pattern"), this.status,
        h("button", { type: "button", "aria-label": "previous", onclick: () => this.next(-1) }, "↑"),
        h("button", { type: "button", "aria-label": "next", onclick: () => this.next(1) }, "↓"),
        h("button", { type: "button", onclick: () => this.close() }, "Close")),
      this.results);
  }

  open() {
    this.element.hidden = false;
    this.field.focus();
    this.field.select();
  }

  close() {
    this.element.hidden = true;
    this.wanted?.abort();
    this.session.scroller.focus();
  }

  key(e) {
    if (e.key === "Escape") { e.preventDefault(); this.close(); }
    if (e.key === "Enter") { e.preventDefault(); this.next(e.shiftKey ? -1 : 1); }
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.search(), 150);
  }

  async search() {
    this.wanted?.abort();
    const text = this.field.value;
    this.found = [];
    this.at = -1;
    clear(this.results);
    this.status.textContent = "";
    if (text === "") return;
    const wanted = this.wanted = new AbortController();
    this.status.textContent = "searching…";
    try {
      for (let from = ""; ;) {
        const part = await get("search", { session: this.session.name, [this.regexp.checked ? "regexp" : "text"]: text, from, limit: 200 }, wanted.signal);
        this.add(part.matches ?? []);
        from = part.next;
        if (!from || this.found.length >= 1000) { this.done(!from); return; }
      }
    } catch (e) {
      if (e.name === "AbortError") return;
      this.status.textContent = e.message;
    }
  }

  add(hits) {
    for (const hit of hits) {
      const n = this.found.length;
      this.found.push(hit);
      if (n < 300) this.results.append(h("li", {}, h("button", { type: "button", onclick: () => this.show(n) }, h("span", { class: "number" }, hit.turn ? String(hit.turn) : "·"), h("span", { class: "hit" }, visible(hit.text)))));
    }
  }

  done(all) { this.status.textContent = this.found.length === 0 ? "nothing found" : (this.found.length + (all ? "" : "+")) + (this.found.length === 1 ? " match" : " matches"); }

  next(step) {
    if (this.found.length === 0) { if (this.element.hidden) this.open(); return; }
    this.show((this.at + step + this.found.length) % this.found.length);
  }

  async show(n) {
    this.at = n;
    [...this.results.children].forEach((item, i) => item.classList.toggle("now", i === n));
    this.results.children[n]?.scrollIntoView({ block: "nearest" });
    this.status.textContent = (n + 1) + " of " + this.found.length;
    const there = await this.session.goTo(this.found[n].seq, document.activeElement !== this.field);
    if (there === undefined) say("This turn is too old to show.");
    const view = there && await this.session.contents.reveal(there.row, this.found[n].seq);
    if (this.at !== n || this.element.hidden) return; // the user went on
    if (view && mark(view.element, this.field.value, this.found[n].text) === 0 && !this.regexp.checked) say("The page does not show this match. Browse all of the turn, or save the session as text.");
  }
}

// mark highlights a text in an element, if the browser can do that, and returns how often it is there. It
// scrolls to the place in the given line, or to the first one.
function mark(element, text, line) {
  if (!window.Highlight || !text) return 0;
  const ranges = [], low = text.toLowerCase();
  let best;
  for (const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT); walk.nextNode() && ranges.length < 500;) {
    const data = walk.currentNode.data.toLowerCase();
    for (let i = data.indexOf(low); i >= 0 && ranges.length < 500; i = data.indexOf(low, i + low.length)) {
      const range = new Range();
      range.setStart(walk.currentNode, i);
      range.setEnd(walk.currentNode, i + low.length);
      ranges.push(range);
      if (data.slice(data.lastIndexOf("\n", i) + 1).split("\n", 1)[0].trim() === line.toLowerCase().trim()) best ??= range;
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
  best ??= ranges[0];
  if (best) {
    const y = best.getBoundingClientRect().top, scroller = element.closest(".scroll");
    scroller.scrollBy(0, y - scroller.getBoundingClientRect().top - scroller.clientHeight / 2);
  }
  return ranges.length;
}
