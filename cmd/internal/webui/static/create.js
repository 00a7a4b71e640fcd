// A new session, and the end of one.
import { h, say } from "./dom.js";
import { get, post } from "./api.js";

// openCreate shows a dialog for a new session. sessions are the present ones, whose directories it
// offers; open is called with the name of the new one.
export async function openCreate(sessions, open) {
  let languages;
  try {
    ({ languages } = await get("languages", {}));
  } catch (e) { say(e.message, "bad"); return; }
  let n = 1;
  while (sessions.some((s) => s.name === "session-" + n)) n++;
  const name = h("input", { required: true, maxLength: 64, value: "session-" + n });
  const language = h("select", {}, languages.map((one) => h("option", {}, one)));
  const runtime = h("input", { placeholder: "the usual one", spellcheck: false });
  const dir = h("input", { placeholder: "that of the daemon", spellcheck: false });
  dir.setAttribute("list", "recent-dirs");
  const recent = [...new Set(sessions.map((s) => s.dir).filter(Boolean))].slice(0, 20);
  const error = h("p", { class: "remark bad", role: "alert", hidden: true });
  const make = h("button", { type: "submit", class: "main" }, "Create");
  const row = (label, field, more) => h("label", {}, h("span", {}, label), field, more);
  const dialog = h("dialog", { class: "create", onclose: () => dialog.remove() }, h("form", { onsubmit: async (e) => {
    e.preventDefault();
    make.disabled = true;
    try {
      await post("create", { session: name.value.trim(), language: language.value, runtime: runtime.value.trim(), dir: dir.value.trim() });
      dialog.close();
      open(name.value.trim());
    } catch (e) {
      error.textContent = e.message;
      error.hidden = false;
    } finally {
      make.disabled = false;
    }
  } }, h("h2", {}, "New session"),
  row("Name", name), row("Language", language), row("Interpreter", runtime), row("Directory", dir, h("datalist", { id: "recent-dirs" }, recent.map((one) => h("option", { value: one })))),
  h("p", { class: "remark" }, "It has no sandbox: its code has all of your rights."), error,
  h("div", { class: "buttons" }, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), make)));
  document.body.append(dialog);
  dialog.showModal();
}

// closeSession ends a session for all clients, if the user confirms that.
export async function closeSession(s) {
  const runs = ["running", "waiting"].includes(s.state) ? " Turn " + s.turn + " is still running, and is ended." : "";
  if (!confirm("Close " + s.name + "?" + runs + " Its variables are lost; a transcript on disk stays.")) return;
  try {
    await post("close", { session: s.name });
  } catch (e) { say(e.message, "bad"); }
}
