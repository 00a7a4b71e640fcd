// The list of all sessions.
import { h, clear, duration, holdFocus, size, visible } from "./dom.js";
import { get } from "./api.js";
import { closeSession, openCreate } from "./create.js";
import { hue } from "./turn.js";

const maxPreviews = 50; // sessions whose last line is read
const previewBytes = 4 << 10;

export class ListView {
  constructor(open) {
    this.open = open;
    this.previews = new Map(); // of each session: its newest event then, the author of its last turn, its last line
    this.body = h("ul", { class: "sessions" });
    this.empty = h("div", { class: "nothing", hidden: true },
      h("p", {}, "No session is open."),
      h("p", {}, "Choose ", h("em", {}, "New session"), ", or run ", h("code", {}, "repl exec NAME -e '6 * 7'"), ". An agent creates one with ", h("code", {}, "repl mcp --daemon"), "."));
    this.element = h("div", { class: "page list" },
      h("header", { class: "top" }, h("h1", {}, logo(), "Sessions"), this.summary = h("p", { class: "summary", role: "status" }),
        this.create = h("button", { type: "button", class: "new", onclick: () => openCreate(this.sessions ?? [], open) }, "New session")),
      h("main", {}, this.body, this.empty));
    document.title = "Sessions – Turnstone";
    this.timer = setInterval(() => this.ages(), 1000);
  }

  leave() {
    this.gone = true;
    clearInterval(this.timer);
  }

  tick({ sessions, offset }) {
    this.offset = offset;
    this.sessions = sessions;
    this.empty.hidden = sessions.length > 0;
    const waiting = sessions.filter((s) => s.input_request).length;
    this.summary.textContent = sessions.length === 0 ? "" : sessions.length + (sessions.length === 1 ? " session" : " sessions") + (waiting ? ", " + waiting + " waiting for input" : "");
    const at = document.activeElement, name = at?.closest?.(".sessions li")?.session.name;
    holdFocus(this.body, () => {
      clear(this.body).append(...sessions.map((s) => this.row(s)));
      [...this.body.children].find((item) => item.session.name === name)?.querySelector(at.localName).focus({ preventScroll: true });
    }, () => this.create);
    this.ages();
    this.preview();
  }

  // preview reads the last line of each session that has changed, one after the other and at most once a
  // second.
  async preview() {
    if (this.previewing) return;
    this.previewing = true;
    try {
      for (const s of this.sessions.slice(0, maxPreviews)) {
        if (this.gone || document.hidden) return;
        if (s.turn && this.previews.get(s.name)?.seq !== s.last_seq) this.previews.set(s.name, await lastLine(s));
      }
      for (const item of this.body.children) this.showPreview(item);
      await new Promise((resolve) => setTimeout(resolve, 1000));
    } catch { // the session or the daemon has gone, and the next tick says so
    } finally {
      this.previewing = false;
    }
    if (!this.gone && this.sessions.slice(0, maxPreviews).some((s) => s.turn && this.previews.get(s.name)?.seq !== s.last_seq)) this.preview();
  }

  showPreview(item) {
    const { author, line } = this.previews.get(item.session.name) ?? {};
    clear(item.querySelector(".last")).append(...(author ? [h("span", { class: "author " + hue(author) }, visible(author)), " "] : []), ...visible(line ?? ""));
  }

  row(s) {
    const link = h("a", { href: "/s/" + encodeURIComponent(s.name), "data-session": s.name, onclick: (e) => {
      if (e.metaKey || e.ctrlKey || e.shiftKey || e.button) return;
      e.preventDefault();
      this.open(s.name);
    } },
    h("span", { class: "dot " + stateClass(s), "aria-hidden": "true" }),
    h("span", { class: "name" }, s.name),
    h("span", { class: "lang" }, [s.language, s.runtime_version].filter(Boolean).join(" ")),
    h("span", { class: "state" }),
    h("span", { class: "turns" }, s.turn ? s.turn.toLocaleString("en") + (s.turn === 1 ? " turn" : " turns") : "no turn yet"),
    h("span", { class: "memory" }, s.memory_bytes ? size(s.memory_bytes) : ""),
    h("span", { class: "age" }),
    s.input_request && h("span", { class: "asks" }, s.input_request.permission ? "asks for permission" : s.input_request.form ? "an MCP server asks" : ["asks: ", ...visible((s.input_request.prompt || "input").trim().slice(0, 200))]),
    h("span", { class: "last" }));
    const item = h("li", {}, link, h("button", { type: "button", class: "quiet", "aria-label": "close " + s.name, title: "Close this session", onclick: () => closeSession(s) }, "×"));
    item.session = s;
    this.showPreview(item);
    return item;
  }

  ages() {
    const now = Date.now() - (this.offset ?? 0);
    for (const item of this.body.children) {
      const s = item.session;
      item.querySelector(".state").textContent = stateWords(s, now);
      item.querySelector(".age").textContent = "opened " + duration(Math.max(1000, now - new Date(s.opened_at))) + " ago";
    }
  }
}

// lastLine returns the author of the last turn of a session, and its last line of output or of code.
async function lastLine(s) {
  const [{ turns }, { items }] = await Promise.all([
    get("outline", { session: s.name, backward: true, limit: 1 }),
    get("read", { session: s.name, backward: true, limit: 20, bytes: previewBytes })]);
  const row = turns.at(-1), text = items.filter(({ e }) => e.type === "text" && e.turn === row?.turn).map(({ e }) => e.text ?? "").join("");
  const line = text.replace(/\x1b\[[0-?]*[ -\/]*[@-~]/g, "").split(/[\r\n]/).findLast((one) => one.trim() !== "") ?? row?.code ?? "";
  return { seq: s.last_seq, author: row?.author, line: line.trim().slice(0, 200) };
}

export function stateClass(s) { return s.preparation_error ? "failed" : s.input_request ? "waiting" : s.state; }

// stateWords describes what a session does and, if that matters, for how long.
export function stateWords(s, now) {
  const since = duration(Math.max(1000, now - new Date(s.state_since)));
  if (s.preparation_error) return "could not be prepared";
  if (s.state === "preparing") return "being prepared";
  if (s.input_request) return "waits " + since;
  switch (s.state) {
    case "idle": return "idle " + since;
    case "running": return "running " + since;
    case "ended": return "no runtime";
  }
  return s.state;
}

export function logo() {
  return h("img", { src: "/static/icon.svg", alt: "", width: 22, height: 22, class: "logo" });
}
