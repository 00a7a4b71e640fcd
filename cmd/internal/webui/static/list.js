// The list of all sessions.
import { h, clear, duration, size, visible } from "./dom.js";

export class ListView {
  constructor(open) {
    this.open = open;
    this.body = h("ul", { class: "sessions" });
    this.empty = h("div", { class: "nothing", hidden: true },
      h("p", {}, "No session is open."),
      h("p", {}, "An agent creates one with ", h("code", {}, "repl mcp --daemon"), ", and you with ", h("code", {}, "repl exec NAME -e '6 * 7'"), "."));
    this.element = h("div", { class: "page list" },
      h("header", { class: "top" }, h("h1", {}, logo(), "Sessions"), this.summary = h("p", { class: "summary", role: "status" })),
      h("main", {}, this.body, this.empty));
    document.title = "Sessions – Turnstone";
    this.timer = setInterval(() => this.ages(), 1000);
  }

  leave() { clearInterval(this.timer); }

  tick({ sessions, offset }) {
    this.offset = offset;
    this.sessions = sessions;
    this.empty.hidden = sessions.length > 0;
    const waiting = sessions.filter((s) => s.input_request).length;
    this.summary.textContent = sessions.length === 0 ? "" : sessions.length + (sessions.length === 1 ? " session" : " sessions") + (waiting ? ", " + waiting + " waiting for input" : "");
    const focused = document.activeElement?.dataset?.session;
    clear(this.body).append(...sessions.map((s) => this.row(s)));
    if (focused) this.body.querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus();
    this.ages();
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
    s.input_request && h("span", { class: "asks" }, s.input_request.permission ? "asks for permission" : s.input_request.form ? "an MCP server asks" : ["asks: ", ...visible((s.input_request.prompt || "input").trim().slice(0, 200))]));
    const item = h("li", {}, link);
    item.session = s;
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
