// The view of one turn: its code, then its output and other events in order.
import { h, clear, duration, size, count, clock, visible, copy, holdFocus } from "./dom.js";
import { highlighted } from "./code.js";
import { shown } from "./result.js";
import { TextBlock } from "./text.js";

const maxPieces = 1500; // elements of one turn in the document
const maxCodeLines = 60; // shown before the user asks for all
const maxOpenLines = 200, headLines = 20, tailLines = 60; // of a text; the middle of a longer one is folded
const decoderOf = () => new TextDecoder("utf-8");
const encoder = new TextEncoder();

// hue returns one of six colours for an author.
export function hue(author) {
  let n = 0;
  for (const c of author) n = (n * 31 + c.codePointAt(0)) >>> 0;
  return "who-" + (n % 6);
}

// A TurnView shows one row of the turn index. owner is the view of its session: {name, language,
// loadMore(row, gap), act}.
export class TurnView {
  constructor(row, owner) {
    this.row = row;
    this.owner = owner;
    this.flow = h("div", { class: "flow" });
    this.head = h("header", {});
    this.code = h("div", { class: "input" });
    this.element = h("article", { class: "turn", id: "at-" + row.first, tabIndex: -1 }, this.head, this.code, this.flow);
    this.element.view = this;
    this.block = null; // the TextBlock that further text is added to
    this.decoder = null;
    this.filled = false;
    this.showHead();
    if (row.code && row.turn !== 0) this.showCode(row.code, row.code_lines > 1);
  }

  // fill replaces the contents with items.
  fill(items) {
    clear(this.flow);
    this.block = this.decoder = this.progress = this.preparing = null;
    this.clearing = false;
    this.gone = 0;
    this.filled = true;
    this.live = false; // events of the past
    this.element.style.minHeight = "";
    for (let i = 0; i < items.length; i++) {
      const e = items[i].e;
      if (!isPlain(e)) { this.add(items[i]); continue; }
      let text = e.text ?? "";
      while (i + 1 < items.length && isPlain(items[i + 1].e) && kindOf(items[i + 1].e) === kindOf(e)) text += items[++i].e.text ?? "";
      this.on_text({ ...e, text });
    }
    this.live = true;
  }

  // foldLines hides the middle of each long text.
  foldLines() {
    if (this.unfolded) return;
    for (const out of this.flow.querySelectorAll(":scope > pre.out")) {
      const lines = linesIn(out);
      if (lines <= maxOpenLines) continue;
      const head = out.cloneNode(false), middle = out.cloneNode(false), hidden = lines - headLines - tailLines;
      moveLines(out, headLines, head);
      moveLines(out, hidden, middle);
      middle.hidden = true;
      const more = h("button", { type: "button", class: "more out unfold", onclick: () => { this.unfolded = true; middle.hidden = false; middle.tabIndex = -1; if (document.activeElement === more) middle.focus({ preventScroll: true }); more.remove(); } }, "Show " + count(hidden, "more line"));
      out.before(head, more, middle);
    }
  }

  unfoldLines() {
    this.unfolded = true;
    for (const more of this.flow.querySelectorAll(":scope > .unfold")) more.click();
  }

  // reserve keeps space for contents that have not arrived yet.
  reserve(height) { if (!this.filled) this.element.style.minHeight = height + "px"; }

  get title() { return this.row.turn === 0 ? "Start" : "Turn " + this.row.turn; }

  showHead() {
    const r = this.row, began = h("time", { dateTime: r.at, title: new Date(r.at).toLocaleString("en-GB") }, clock(r.at));
    const state = this.outcome();
    this.element.dataset.outcome = state.kind;
    this.element.setAttribute("aria-label", this.title + (r.author ? " by " + r.author : "") + ", " + state.says);
    holdFocus(this.head, () => clear(this.head).append(
      h("span", { class: "number" }, r.turn === 0 ? "·" : String(r.turn)),
      r.author ? h("span", { class: "author " + hue(r.author) }, visible(r.author)) : h("span", { class: "author none" }, r.turn === 0 ? "start" : "unnamed"),
      began,
      h("span", { class: "outcome" }, state.says),
      h("span", { class: "tools" },
        this.editable && h("button", { type: "button", class: "quiet", onclick: () => this.owner.edit(r.turn, this.source), title: "Change this code and run it as a new turn" }, "Edit"),
        r.turn !== 0 && h("button", { type: "button", class: "quiet", onclick: () => this.copyAll() }, "Copy"),
        h("button", { type: "button", class: "quiet", onclick: () => copy(location.origin + location.pathname + "#at-" + r.first, "the link to " + this.title.toLowerCase()) }, "Link"),
        h("button", { type: "button", class: "quiet fold", "aria-expanded": String(!this.element.classList.contains("closed")), onclick: () => this.toggle() }, this.element.classList.contains("closed") ? "Show" : "Hide"))), () => this.element);
  }

  // outcome describes how the turn ended, or how long it has run.
  outcome() {
    const r = this.row;
    const took = r.elapsed_ms === undefined ? "" : duration(r.elapsed_ms);
    if (r.turn === 0) return { kind: "start", says: "" };
    switch (r.outcome) {
      case "ok": return { kind: "ok", says: took };
      case "error": return { kind: "error", says: (r.error || "failed") + (took ? " after " + took : "") };
      case "interrupted": return { kind: "interrupted", says: "interrupted after " + took };
      case "ended": return { kind: "ended", says: "the runtime ended" + (took ? " after " + took : "") };
    }
    if (this.owner.active(r)) return { kind: "running", says: (this.owner.waiting(r) ? "waits, " : "running, ") + duration(Math.max(0, this.owner.now() - new Date(r.at))) };
    return { kind: "open", says: "not ended" };
  }

  toggle(closed = !this.element.classList.contains("closed")) {
    this.row.closed = closed;
    if (closed) this.element.style.minHeight = "";
    this.element.classList.toggle("closed", closed);
    this.showHead();
  }

  showCode(text, short) {
    this.source = text;
    this.short = short;
    const lines = text.split("\n"), more = lines.length - maxCodeLines;
    const shown = more > 5 && !this.whole ? lines.slice(0, maxCodeLines).join("\n") : text;
    clear(this.code).append(h("pre", { class: "code", tabIndex: 0, "aria-label": "code of turn " + this.row.turn }, highlighted(shown, this.owner.language)));
    if (shown !== text) {
      this.code.append(h("button", { type: "button", class: "more", onclick: () => { this.whole = true; this.showCode(text); this.code.firstChild.focus({ preventScroll: true }); } }, count(more, "more line")));
    }
    if (short) this.code.append(h("span", { class: "more" }, "…"));
  }

  // highlight shows the code again once its language is known.
  highlight() { if (this.source !== undefined) this.showCode(this.source, this.short); }

  // add shows one more event.
  add({ e, parts }) {
    const add = this["on_" + e.type];
    if (add) add.call(this, e, parts);
  }

  // line adds a remark to the output.
  line(kind, ...children) {
    this.endText();
    const p = h("p", { class: "remark " + kind }, children);
    this.append(p);
    return p;
  }

  endText() {
    this.block = null;
    this.decoder = null;
  }

  on_text(e) {
    if (this.clearing) this.takeBack();
    const kind = kindOf(e);
    if (this.block?.kind !== kind) {
      this.endText();
      this.block = new TextBlock(kind);
      this.block.kind = kind;
      const block = this.block;
      let note = null;
      block.onDrop = (n) => {
        if (!note) block.element.before(note = h("button", { type: "button", class: "more", onclick: () => this.owner.browse(this.row) }));
        note.textContent = count(n, "earlier line") + " not shown. Browse all";
      };
      this.append(block.element);
    }
    this.block.write(this.decoded(e));
  }

  // decoded returns the text of an event. A character may be split over several of them.
  decoded(e) {
    if (e.data === undefined) {
      if (!this.decoder) return e.text ?? "";
      const text = this.decoder.decode(encoder.encode(e.text ?? ""), { stream: true });
      return text;
    }
    this.decoder ??= decoderOf();
    return this.decoder.decode(Uint8Array.from(atob(e.data), (c) => c.charCodeAt(0)), { stream: true });
  }

  on_turn_started(e) {
    this.row.author = e.author;
    this.showCode(e.input ?? "");
    this.editable = !(e.bytes > encoder.encode(e.input ?? "").length);
    if (!this.editable) this.code.append(h("p", { class: "remark" }, "The input has " + size(e.bytes) + "; this is its beginning."));
    this.showHead();
  }

  on_turn_ended(e) {
    this.endText();
    if (this.owner.stuck || !this.live) this.foldLines(); // a reader's text does not move
    Object.assign(this.row, { outcome: e.outcome, elapsed_ms: e.elapsed_ms ?? 0, error: e.name ?? "" });
    this.showHead();
  }

  on_input_line(e) {
    if (!this.block) {
      this.block = new TextBlock("stdout");
      this.block.kind = "stdout";
      this.append(this.block.element);
    }
    this.block.typed(e.text ?? "", e.author, e.secret, e.keys);
  }

  on_input_requested(e) {
    if (e.kind !== "permission") return;
    this.line("permission", h("strong", {}, "Asked: "), what(e));
  }

  on_access_granted(e) { this.line("granted", h("strong", {}, (e.author || "A user") + " allowed: "), what(e), e.always ? " — always in this workspace" : ""); }

  on_access_denied(e) {
    this.line("denied", h("strong", {}, e.author ? [...visible(e.author), " refused: "] : e.call ? "Not allowed: " : "The sandbox refused: "), what(e));
    if (e.hint) this.flow.lastChild.append(" ", h("code", {}, visible(e.hint)));
  }

  on_call(e) {
    const bits = [];
    if (e.count > 1) bits.push("× " + e.count);
    if (e.failed) bits.push(e.failed + " failed");
    if (e.cancelled) bits.push(e.cancelled + " cancelled");
    if (e.elapsed_ms >= 10) bits.push(duration(e.elapsed_ms));
    if (e.received) bits.push(size(e.received));
    this.line("call", h("strong", {}, "called "), h("code", {}, visible(e.name ?? "")), bits.length ? " " + bits.join(", ") : "");
  }

  on_interrupt(e) { this.line("interrupt", (e.author || "A user") + " interrupted" + (e.level > 1 ? " again" : "")); }

  on_notice(e) { this.line("notice", visible(e.message ?? "")); }

  on_limit(e) { this.line("limit", visible(e.message ?? "a limit was reached")); }

  on_gap(e) { this.line("gap", count(e.to - e.from + 1, "event") + " dropped as too old" + (e.bytes ? ", with " + size(e.bytes) : "") + "."); }

  on_progress(e) {
    if (!this.progress || this.flow.lastChild !== this.progress) this.progress = this.line("progress");
    const done = e.total ? Math.min(1, (e.progress ?? 0) / e.total) : null;
    clear(this.progress).append(h("progress", { max: 1, value: done ?? undefined, "aria-label": "progress" }), " ", ...visible(e.message ?? ""));
  }

  on_preparation(e) {
    if (!this.preparing || this.flow.lastChild !== this.preparing) this.preparing = this.line("progress");
    clear(this.preparing).append("preparing ", ...visible([e.name, e.message].filter(Boolean).join(": ") || "the worker"), e.total ? " (" + Math.floor(100 * (e.progress ?? 0) / e.total) + " %)" : "");
  }

  on_worker_started(e) { this.line("began", h("strong", {}, e.generation > 1 ? "Restarted" : "Started"), " ", ...visible(e.worker ?? "")); }

  on_worker_exited(e) {
    const died = this.line(e.clean ? "ended" : "ended died", h("strong", {}, e.clean ? "The runtime ended: " : "The runtime died: "), ...visible(e.reason ?? ""));
    if (e.message) died.append(h("br"), ...visible(e.message));
    if (!e.clean && e.last_line) died.append(h("br"), "at ", h("code", {}, visible(e.last_line)));
    if (!e.clean && e.peak_rss_bytes) died.append(h("br"), "its peak memory was " + size(e.peak_rss_bytes));
  }

  on_folded(e) {
    this.endText();
    const more = h("button", { type: "button", class: "more", onclick: () => this.owner.contents.unfold(this, e, more) }, "Show the next part");
    const all = h("button", { type: "button", class: "more", onclick: () => this.owner.browse(this.row) }, "Browse all lines");
    this.append(h("div", { class: "folded" }, h("span", {}, e.lines ? "about " + count(e.lines, "line") + " not shown" : count(e.to - e.from + 1, "event") + " not shown"), more, e.lines ? all : null));
  }

  // on_display shows a result in its most readable form.
  on_display(e, parts = []) {
    if (e.id && this.owner.displays.goesElsewhere(this, e, parts)) return;
    if (e.id) ({ e, parts } = this.owner.displays.newest(this.row, e, parts));
    const echo = e.result ? this.flow.lastChild : null;
    const [box, better] = shown(parts, e, this.owner);
    if (!box || (echo?.classList?.contains("result") && !better)) return; // its echo shows everything
    if (echo?.classList?.contains("result")) removeEcho(echo);
    this.endText();
    const figure = h("figure", { class: "display", "aria-label": e.title }, box);
    if (e.id) figure.dataset.display = encodeURIComponent(e.id.toWellFormed()); // a selector cannot have each character
    const before = e.update && e.id ? this.flow.querySelector(`[data-display="${figure.dataset.display}"]`) : null;
    if (before) before.replaceWith(figure);
    else this.append(figure);
  }

  // append adds an element to the output. The oldest elements are removed when there are too many.
  append(element) {
    if (this.clearing) this.takeBack();
    this.flow.append(element);
    if (this.flow.children.length <= maxPieces) return;
    this.earlier ??= h("p", { class: "remark gap" });
    while (this.flow.children.length > maxPieces - 100) {
      const first = this.flow.firstChild;
      first.remove();
      if (first !== this.earlier) this.gone = (this.gone ?? 0) + 1;
    }
    this.earlier.textContent = count(this.gone, "earlier result") + " of this turn not shown.";
    this.flow.prepend(this.earlier);
  }

  // takeBack removes the output of the turn, as its code has requested.
  takeBack() {
    this.clearing = false;
    for (const shown of [...this.flow.querySelectorAll(":scope > .out, :scope > .display")]) shown.remove();
    this.endText();
  }

  on_output_cleared(e) {
    if (e.wait) this.clearing = true;
    else this.takeBack();
  }

  copyAll() {
    const output = [...this.flow.querySelectorAll("pre.out")].map((p) => p.textContent).join("");
    copy((this.source ?? "") + (output ? "\n\n" + output : ""), this.title.toLowerCase());
  }
}

// removeEcho removes the text of a result. Of a long one, a part may be folded or not shown.
function removeEcho(last) {
  for (let one = last, before; one?.matches(".result, .more") || one?.matches(".folded") && one.previousElementSibling?.matches(".result"); one = before) {
    before = one.previousElementSibling;
    one.remove();
  }
}

const linesIn = (element) => element.textContent.split("\n").length - 1;

// moveLines moves a number of whole lines from the beginning of an element to another one.
function moveLines(from, lines, to) {
  while (lines > 0 && from.firstChild) {
    const node = from.firstChild, n = node.textContent.split("\n").length - 1;
    if (n > lines && node.nodeType === Node.TEXT_NODE) {
      let end = 0;
      for (; lines > 0; lines--) end = node.data.indexOf("\n", end) + 1;
      node.splitText(end);
    }
    lines -= n;
    to.append(node);
  }
}

// isPlain reports whether an event is text that can be merged with its neighbors.
const isPlain = (e) => e.type === "text" && e.data === undefined;

const kindOf = (e) => (e.kind === "traceback" ? "traceback" : e.kind === "result" ? "result" : e.stream === "stderr" ? "stderr" : "stdout");

// what returns an element that names the access or call that a permission is about.
function what(e) {
  const name = e.call ? e.call + "(" + (e.detail ?? "") + ")" : e.path || e.host || e.read || e.write || "";
  return h("span", {}, h("span", { class: "op" }, (e.op ?? (e.read ? "read" : e.write ? "write" : e.host ? "connect" : "call")) + " "), h("code", {}, visible(name)), e.child_program ? [" by ", h("code", {}, visible(e.child_program))] : null, e.destructive ? h("em", {}, " its server marks it as destructive") : null);
}
