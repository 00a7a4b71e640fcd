// The composer: the user types code while the session is idle, and answers when it asks.
import { h, clear, hasty, visible, say } from "./dom.js";
import { post } from "./api.js";
import { highlighted } from "./code.js";
import { KeysForm, keysButton, readerOf } from "./keys.js";

const bytesBefore = (text, at) => new TextEncoder().encode(text.slice(0, at)).length;

function charsBefore(text, bytes) {
  return new TextDecoder().decode(new TextEncoder().encode(text).slice(0, bytes)).length;
}

export class Composer {
  constructor(session) {
    this.session = session; // {name, language, history()}
    this.past = -1; // index of the earlier input that is shown
    this.asked = null; // the id of the input request that is shown
    this.input = h("textarea", { rows: 1, spellcheck: false, autocapitalize: "off", autocomplete: "off", "aria-label": "code to run in " + session.name, placeholder: "Code to run", onkeydown: (e) => this.key(e), oninput: () => this.fit(), onscroll: () => this.align() });
    this.input.setAttribute("autocorrect", "off");
    this.painted = h("pre", { class: "painted", "aria-hidden": "true" });
    this.field = h("div", { class: "field" }, this.input, this.painted);
    this.runButton = h("button", { type: "submit", class: "main" }, "Run");
    this.keysButton = keysButton(false, () => this.useKeys(true));
    this.keysButton.hidden = true;
    this.hints = h("div", { class: "matches", role: "listbox", "aria-label": "completions", hidden: true });
    this.from = h("p", { class: "from", hidden: true });
    this.before = null; // what was in the field before a turn was put there to be changed
    this.form = h("form", { class: "write", onsubmit: (e) => { e.preventDefault(); this.run(); } }, this.hints, this.field,
      h("div", { class: "side" }, this.keysButton, this.runButton, h("kbd", {}, "Ctrl Enter")));
    this.sending = Promise.resolve();
    this.question = h("div", { class: "question", hidden: true });
    this.keys = new KeysForm(session.name, () => this.useKeys(false));
    this.wanted = null; // whether the user has chosen keys in this turn
    new ResizeObserver(() => this.align()).observe(this.input);
    this.element = h("footer", { class: "composer" }, this.question, this.keys.element, this.from, this.form);
  }

  // show adapts the composer to the state of the session.
  show(s) {
    this.state = s;
    this.queues = s.state === "running" || this.session.queue.waiting.length > 0;
    this.runButton.textContent = this.queues ? "Queue" : "Run";
    this.input.placeholder = s.state === "ended" ? "Code to run in a new runtime" : "Code to run";
    this.runButton.title = this.queues ? "run it when the session is idle" : "";
    this.runButton.disabled = !["idle", "running", "ended", "starting", "preparing"].includes(s.state) || Boolean(s.preparation_error);
    const request = s.input_request ?? null;
    const reads = ["running", "waiting"].includes(s.state) && (!request || Boolean(request.terminal));
    const keys = reads && this.takesKeys(s, request);
    this.keysButton.hidden = !reads;
    if (keys) this.keys.show(request, s.listener);
    else this.keys.drop();
    const id = keys ? "keys" : request ? request.id + "/" + (request.permission?.id ?? "") : null;
    if (id === this.asked) return;
    this.asked = id;
    const at = document.activeElement, free = !at || at === document.body || this.element.contains(at);
    const had = this.question.contains(at) || this.keys.element.contains(at);
    clear(this.question);
    this.keys.element.hidden = !keys;
    this.question.hidden = keys || !request;
    this.form.hidden = keys || Boolean(request);
    this.from.hidden = this.form.hidden || this.before === null;
    if (keys) {
      if (free) this.keys.field.focus();
    } else if (!request) {
      if (had) this.input.focus();
    } else if (request.permission) this.permission(request);
    else if (request.form) this.fill(request);
    else this.answer(request);
  }

  // takesKeys reports whether the user types keys: what the user has chosen in the turn, or else what the
  // program reads. Between two requests it stays as it is. A secret is a line unless the user says otherwise.
  takesKeys(s, request) {
    const turn = s.generation + "/" + s.turn, secret = request?.secret ? request.id : null;
    if (turn !== this.turn || (secret && secret !== this.secret)) this.wanted = null;
    this.turn = turn;
    this.secret = secret;
    return this.wanted ?? (request ? Boolean(request.raw && !request.secret) : this.asked === "keys");
  }

  useKeys(on) {
    this.wanted = on;
    this.show(this.state);
    this.focus();
  }

  // answer asks for a line. A secret is in the document only while it is typed, shown as dots.
  answer(request) {
    const field = h("input", { type: request.secret ? "password" : "text", id: "answer", autocomplete: "off", spellcheck: false, autocapitalize: "off" });
    if (request.secret) field.setAttribute("autocomplete", "new-password");
    const send = async (eof) => {
      const text = field.value;
      field.value = "";
      field.readOnly = true;
      try {
        await post("answer", { session: this.session.name, input_request: request.id, text: eof ? "" : text, eof });
      } catch (e) {
        field.readOnly = false;
        if (!request.secret) field.value = text;
        say(e.kind === "stale" ? "This question is closed." : e.message, "bad");
      }
    };
    const by = request.terminal ? readerOf(request) : request.secret ? "The code asks for a secret" : "The code asks";
    const prompt = (request.prompt ?? "").trim();
    this.question.append(h("form", { onsubmit: (e) => { e.preventDefault(); send(false); } },
      h("label", { for: "answer" }, h("span", { class: "by" }, by), prompt ? h("span", { class: "prompt" }, visible(prompt.slice(-2000))) : null),
      field,
      h("div", { class: "side" },
        request.terminal ? keysButton(false, () => this.useKeys(true)) : null,
        h("button", { type: "submit", class: "main" }, "Answer"),
        h("button", { type: "button", title: "the code reads no more input", onclick: () => send(true) }, "End of input"))));
    if (!document.activeElement || document.activeElement === document.body || this.element.contains(document.activeElement)) field.focus();
    else if (document.activeElement === this.input) field.focus();
  }

  // fill shows the form of an MCP server. The session validates the answers.
  fill(request) {
    const form = request.form, fields = Object.entries(form.schema?.properties ?? {});
    const inputs = fields.map(([name, f]) => [name, f, fieldOf(f, (form.schema.required ?? []).includes(name))]);
    const send = async (action) => {
      const content = {};
      for (const [name, f, input] of inputs) {
        const value = valueOf(f, input);
        if (value !== undefined) content[name] = value;
      }
      try {
        await post("answer", { session: this.session.name, input_request: request.id, text: JSON.stringify(action === "accept" ? { action, content } : { action }) });
      } catch (e) {
        say(e.kind === "stale" ? "This question is closed." : e.message, "bad");
      }
    };
    this.question.append(h("form", { class: "asked", onsubmit: (e) => { e.preventDefault(); send("accept"); } },
      h("p", {}, h("span", { class: "by" }, visible(form.server ?? "A server"), " asks"), h("span", { class: "prompt" }, visible(form.message ?? ""))),
      form.url ? h("p", { class: "means" }, "It wants you to go to ", h("code", {}, visible(form.url)), " yourself.") : null,
      inputs.map(([name, f, input]) => h("label", {}, visible(f.title || name), f.description ? h("span", { class: "means" }, " ", visible(f.description)) : null, input)),
      h("div", { class: "choices" },
        h("button", { type: "button", onclick: () => send("cancel") }, "Dismiss"),
        h("button", { type: "button", onclick: () => send("decline") }, "No"),
        h("button", { type: "submit", class: "main" }, form.url ? "I agree" : "Send"))));
  }

  // permission asks for a decision. It does not take the focus, so keys decide only after the user has moved
  // there. Code chooses when the question appears, which may be just before a click.
  permission(request) {
    const p = request.permission, appeared = performance.now();
    const decide = async (choice, click) => {
      if (choice !== "refuse" && hasty(click, appeared)) return;
      for (const b of this.question.querySelectorAll("button")) b.disabled = true;
      try {
        await post("permit", { session: this.session.name, permission: p.id, choice });
      } catch (e) {
        for (const b of this.question.querySelectorAll("button")) b.disabled = false;
        say(e.kind === "stale" ? "The session no longer asks for this permission." : e.message, "bad");
      }
    };
    const target = p.call ? p.call + "(" + (p.detail ?? "") + ")" : p.path || p.host || "";
    const wide = p.grant.write ? "write in " + p.grant.write : p.grant.host ? "connect to " + p.grant.host : "call " + (p.grant.call ?? p.call);
    this.question.append(h("div", { class: "permit", role: "group", "aria-labelledby": "asks" },
      h("p", { id: "asks" }, h("span", { class: "by" }, p.call ? "Code wants to call a function" : "The sandbox stopped a call"),
        h("span", { class: "prompt" }, h("span", { class: "op" }, p.op + " "), h("code", {}, visible(target)), p.child_program ? [" by ", h("code", {}, visible(p.child_program))] : null)),
      p.destructive ? h("p", { class: "warn" }, "Its server marks it as destructive.") : null,
      h("p", { class: "means" }, "If you allow it, this session may ", h("code", {}, visible(wide)), "."),
      h("div", { class: "choices" },
        h("button", { type: "button", onclick: (e) => decide("refuse", e) }, "Refuse"),
        h("button", { type: "button", class: "main", onclick: (e) => decide("here", e) }, "Allow in this session"),
        p.op === "write" && p.grant.write && p.grant.write !== p.path ? h("button", { type: "button", onclick: (e) => decide("file", e) }, "Allow only this file") : null,
        p.wider ? h("button", { type: "button", onclick: (e) => decide("wider", e) }, "Allow all of ", h("code", {}, visible(p.wider.call ?? ""))) : null,
        h("button", { type: "button", onclick: (e) => decide("always", e) }, "Always in this workspace"))));
  }

  focus() { (!this.keys.element.hidden ? this.keys.field : this.question.hidden ? this.input : this.question.querySelector("input, button"))?.focus(); }

  fit() {
    this.hide();
    this.input.style.height = "auto";
    this.input.style.height = Math.min(this.input.scrollHeight + 2, innerHeight * 0.4) + "px";
    this.paint();
  }

  // paint shows the code in colours over the field, unless it has characters that are shown as others.
  paint() {
    const code = this.input.value;
    clear(this.painted).append(highlighted(code, this.session.language), "\n");
    this.field.classList.toggle("colours", code !== "" && this.painted.textContent === code + "\n");
    this.align();
  }

  align() {
    this.painted.style.width = this.input.clientWidth + 2 + "px"; // less the bar, and with both borders
    this.painted.scrollTop = this.input.scrollTop;
  }

  // edit puts the code of an earlier turn into the field.
  edit(code, from) {
    this.before ??= this.input.value;
    clear(this.from).append("from ", ...visible(from), " · Esc brings back what was here");
    this.from.hidden = false;
    this.put(code);
    this.focus();
  }

  endEdit() {
    this.before = null;
    this.from.hidden = true;
  }

  put(text) {
    this.input.value = text;
    this.fit();
    this.input.setSelectionRange(text.length, text.length);
  }

  // run sends the code, after any code that is still being sent. Text typed in the meantime stays. Code that
  // could not be sent is put back.
  run() {
    const code = this.input.value;
    if (code.trim() === "") return;
    if (this.queues && !this.session.queue.add(code)) return;
    this.put("");
    this.endEdit();
    this.past = -1;
    if (!this.queues) this.sending = this.sending.then(() => this.send(code));
  }

  async send(code) {
    try {
      await post("run", { session: this.session.name, code });
      this.sent = code;
      this.session.followEnd();
    } catch (e) {
      this.put([code, this.input.value].filter(Boolean).join("\n"));
      say(e.message, "bad");
    }
  }

  key(e) {
    if (e.isComposing) return;
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey || e.shiftKey)) { e.preventDefault(); this.run(); return; }
    if (!this.hints.hidden && this.matchKey(e)) { e.preventDefault(); return; }
    if (e.key === "Escape" && this.before !== null) {
      this.put(this.before);
      this.endEdit();
      return;
    }
    if (e.key === "Escape") { this.input.blur(); return; }
    const { selectionStart: at, selectionEnd: end, value } = this.input;
    const line = value.slice(value.lastIndexOf("\n", at - 1) + 1, at);
    if (e.key === "Tab" && !e.shiftKey && !e.altKey && at === end && value !== "") {
      e.preventDefault();
      if (line.trim() === "") this.insert("    ");
      else this.complete(at);
      return;
    }
    if (e.key === "Tab" && !e.altKey && at !== end) {
      e.preventDefault();
      this.indent(e.shiftKey ? -1 : 1);
      return;
    }
    if (e.key === "Enter") {
      e.preventDefault();
      this.insert("\n" + /^\s*/.exec(line)[0] + (/[:{(\[]\s*$/.test(line) ? "    " : ""));
      return;
    }
    if (e.key === "ArrowUp" && !value.slice(0, at).includes("\n") && at === end) this.recall(1, e);
    if (e.key === "ArrowDown" && !value.slice(at).includes("\n") && at === end && this.past >= 0) this.recall(-1, e);
  }

  // indent moves the selected lines by four columns, and keeps them selected.
  indent(step) {
    const { selectionStart: at, selectionEnd: end, value } = this.input;
    const from = value.lastIndexOf("\n", at - 1) + 1;
    const lines = value.slice(from, end).split("\n");
    const moved = lines.map((line) => (step > 0 ? (line === "" ? line : "    " + line) : line.replace(/^(?: {1,4}|\t)/, ""))).join("\n");
    this.input.setRangeText(moved, from, end, "select");
    this.fit();
  }

  insert(text) {
    this.input.setRangeText(text, this.input.selectionStart, this.input.selectionEnd, "end");
    this.fit();
  }

  // recall shows an earlier input.
  recall(step, e) {
    const all = this.session.history();
    if (all.includes(this.sent)) this.sent = null;
    else if (this.sent) all.unshift(this.sent); // no event of its turn has arrived yet
    const next = this.past + step;
    if (next >= all.length) return;
    e.preventDefault();
    if (this.past < 0) this.draft = this.input.value;
    this.past = Math.max(-1, next);
    this.put(this.past < 0 ? this.draft : all[this.past]);
  }

  async complete(at) {
    const text = this.input.value;
    try {
      const { start, matches } = await post("complete", { session: this.session.name, code: text, cursor: bytesBefore(text, at) });
      if (this.input.value !== text || !matches?.length) return;
      const from = charsBefore(text, start);
      if (matches.length === 1) { this.input.setRangeText(matches[0], from, at, "end"); this.fit(); return; }
      this.offer(matches.slice(0, 50), from, at);
    } catch (e) {
      say(e.message, "bad");
    }
  }

  offer(matches, from, at) {
    this.chosen = 0;
    clear(this.hints).append(...matches.map((m) => h("div", { role: "option", "aria-selected": "false", onmousedown: (e) => { e.preventDefault(); this.take(m, from, at); } }, visible(m))));
    this.hints.hidden = false;
    this.take_ = () => this.take(matches[this.chosen], from, at);
    this.choose(0);
  }

  choose(n) {
    const all = this.hints.children;
    this.chosen = (n + all.length) % all.length;
    [...all].forEach((o, i) => o.setAttribute("aria-selected", String(i === this.chosen)));
    all[this.chosen].scrollIntoView({ block: "nearest" });
  }

  take(text, from, at) {
    this.input.setRangeText(text, from, at, "end");
    this.fit();
  }

  matchKey(e) {
    switch (e.key) {
      case "ArrowDown": this.choose(this.chosen + 1); return true;
      case "ArrowUp": this.choose(this.chosen - 1); return true;
      case "Tab": this.choose(this.chosen + (e.shiftKey ? -1 : 1)); return true;
      case "Enter": this.take_(); return true;
      case "Escape": this.hide(); return true;
    }
    return false;
  }

  hide() { this.hints.hidden = true; }
}

// fieldOf returns the input element for one field of a form.
function fieldOf(f, required) {
  const many = f.type === "array", choices = many ? f.items ?? {} : f;
  const values = choices.enum ?? (choices.oneOf ?? choices.anyOf)?.map((c) => c.const);
  if (values) {
    const titles = choices.enumNames ?? (choices.oneOf ?? choices.anyOf)?.map((c) => c.title) ?? [];
    const select = h("select", { multiple: many, required: required && !many }, required || many ? null : h("option", { value: "" }, ""),
      values.map((v, i) => h("option", { value: String(v) }, visible(String(titles[i] ?? v)))));
    if (f.default !== undefined) for (const o of select.options) o.selected = [f.default].flat().map(String).includes(o.value);
    return select;
  }
  if (f.type === "boolean") return h("input", { type: "checkbox", checked: f.default === true });
  return h("input", { type: f.type === "number" || f.type === "integer" ? "number" : "text", step: f.type === "number" ? "any" : undefined, required, value: f.default ?? "", autocomplete: "off" });
}

// valueOf returns the value of a field, or undefined if it is empty.
function valueOf(f, input) {
  if (f.type === "boolean") return input.checked;
  if (f.type === "array") return [...input.selectedOptions].map((o) => o.value);
  if (input.value === "") return undefined;
  return f.type === "number" || f.type === "integer" ? Number(input.value) : input.value;
}
