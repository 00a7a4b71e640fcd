// The outline of a session: one line for each turn.
import { h, clear, visible } from "./dom.js";

const maxShown = 2000;

// openOutline shows a dialog with the turns of a session, of which the user chooses one.
export function openOutline(session) {
  const field = h("input", { type: "search", "aria-label": "search in the first lines", placeholder: "First lines", oninput: () => show() });
  const list = h("ol", { class: "hits" }), note = h("p", { class: "remark", role: "status" });
  const dialog = h("dialog", { class: "outline", onclose: () => dialog.remove() },
    h("header", {}, h("h2", {}, "Turns"), field, h("button", { type: "button", onclick: () => dialog.close() }, "Close")), note, list);
  const show = () => {
    const wanted = field.value.toLowerCase();
    const found = session.shownRows().filter((row) => row.turn !== 0 && (row.code ?? "").toLowerCase().includes(wanted));
    note.textContent = found.length > maxShown ? "The newest " + maxShown + " of " + found.length + "." : "";
    clear(list).append(...found.slice(-maxShown).map((row) => h("li", {}, h("button", { type: "button", onclick: () => { dialog.close(); session.goTo(row.last); } },
      h("span", { class: "number" }, String(row.turn)), h("span", { class: "hit" }, visible(row.code || "no code")), row.outcome && row.outcome !== "ok" ? h("span", { class: "failed" }, row.outcome) : null))));
    list.lastChild?.scrollIntoView({ block: "nearest" });
  };
  document.body.append(dialog);
  show();
  dialog.showModal();
}
