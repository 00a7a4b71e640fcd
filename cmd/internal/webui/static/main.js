// Start of the web UI: it shows a view and feeds it with ticks.
import { h, clear, typing } from "./dom.js";
import { hello, follow } from "./api.js";
import { ListView } from "./list.js";
import { SessionView } from "./session.js";

const app = document.getElementById("app");
const banner = h("div", { class: "banner", role: "alert", hidden: true });
let view = null, last = null, offset = 0;

function show() {
  view?.leave();
  const [, name] = /^\/s\/([^/]+)$/.exec(location.pathname) ?? [];
  view = name ? new SessionView(decodeURIComponent(name), () => go("/")) : new ListView((open) => go("/s/" + encodeURIComponent(open)));
  clear(app).append(banner, view.element);
  const asked = /^#at-(\d+)$/.exec(location.hash);
  if (asked && view instanceof SessionView) view.target = Number(asked[1]);
  if (last) tick(last);
}

function go(path) {
  history.pushState(null, "", path);
  show();
}

function tick(said) {
  if (said.disconnected || said.error) {
    banner.textContent = said.disconnected ?? "The daemon does not answer: " + said.error;
    banner.hidden = false;
    document.body.classList.add("disconnected");
    return;
  }
  last = said;
  banner.hidden = true;
  document.body.classList.remove("disconnected");
  if (said.now) offset = Date.now() - new Date(said.now);
  if (view instanceof ListView) view.tick({ sessions: said.sessions, offset });
  else view.tick(said.sessions.find((s) => s.name === view.name), offset);
}

const keys = [
  ["Ctrl Enter", "run the code"], ["Enter", "a new line; in an answer, send it"], ["Tab", "complete or indent; Esc first leaves the field"], ["↑ ↓", "earlier inputs, at the first or last line"],
  ["Ctrl C", "interrupt, when nothing is selected"], ["i", "to the code or the question"], ["j  k", "next and previous turn"], ["g  G", "to the start, to the end"],
  ["o", "hide or show the turn"], ["c", "copy the turn"], ["/", "search; n and N for the next and previous match"], ["v", "variables"], ["u", "all sessions"], ["Esc", "close a menu or the variables"], ["?", "this list"],
];

function help() {
  const dialog = h("dialog", { class: "help", onclose: () => dialog.remove() }, h("h2", {}, "Keys"),
    h("dl", {}, keys.map(([key, does]) => [h("dt", {}, key.split("  ").map((k) => h("kbd", {}, k))), h("dd", {}, does)])),
    h("form", { method: "dialog" }, h("button", { class: "main" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("help", help);
document.addEventListener("keydown", (e) => {
  if (e.key === "?" && !typing(e)) { e.preventDefault(); help(); return; }
  view?.key?.(e);
});
addEventListener("popstate", show);

try {
  await hello();
  show();
  follow(tick);
} catch (e) {
  clear(app).append(h("div", { class: "nothing" }, h("h1", {}, "Turnstone"), h("p", {}, e.message)));
}
