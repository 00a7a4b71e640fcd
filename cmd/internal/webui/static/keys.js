// The field for keys, which the user types for the program at the terminal. It stays in the document between the
// program's input requests, so what is typed meanwhile is kept.
import { h, clear, visible, say } from "./dom.js";
import { post } from "./api.js";

export class KeysForm {
  constructor(name, leave) {
    this.name = name;
    this.about = h("label", { for: "keys" });
    this.field = h("input", { id: "keys", type: "text", autocomplete: "off", spellcheck: false, autocapitalize: "off", placeholder: "Keys such as yes<Enter> or <Down> <C-c>; nothing is added" });
    this.element = h("div", { class: "question", hidden: true }, h("form", { onsubmit: (e) => { e.preventDefault(); this.send(); } },
      this.about, this.field,
      h("div", { class: "side" }, h("button", { type: "submit", class: "main" }, "Type"), keysButton(true, leave))));
  }

  // show says which program reads the keys. What was typed as a secret is dropped before it could be seen.
  show(request, listener) {
    const secret = Boolean(request?.secret);
    if (secret !== (this.field.type === "password")) {
      this.field.value = "";
      this.field.type = secret ? "password" : "text";
      this.field.autocomplete = secret ? "new-password" : "off";
    }
    const by = request ? readerOf(request) : listener ? listener.program + " listens to keys" : "Keys for the program that the code runs";
    const prompt = (request?.prompt ?? "").trim().slice(-2000);
    const said = by + "\n" + prompt;
    if (this.said === said) return;
    this.said = said;
    clear(this.about).append(h("span", { class: "by" }, visible(by)), ...(prompt ? [h("span", { class: "prompt" }, visible(prompt))] : []));
  }

  async send() {
    const keys = this.field.value, secret = this.field.type === "password";
    if (keys === "") return;
    this.field.value = "";
    try {
      await post("type", { session: this.name, keys, secret });
    } catch (e) {
      if (!secret && this.field.type === "text" && this.field.value === "") this.field.value = keys;
      say(e.message, "bad");
    }
  }

  drop() { this.field.value = ""; }
}

// keysButton returns a button that changes between lines and keys.
export function keysButton(on, press) {
  return h("button", { type: "button", "aria-pressed": String(on), title: on ? "type a line instead" : "type single keys, such as <Down>", onclick: press }, "Keys");
}

// readerOf says which program reads the terminal, and how.
export function readerOf(request) {
  return (request.reader || "A program") + (request.raw ? " reads single keys" : " reads the terminal") + (request.polls ? "; it may continue by itself" : "");
}
