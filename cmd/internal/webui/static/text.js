// Terminal text as elements: colours and styles (SGR), and lines that are overwritten (carriage return,
// backspace, erase, cursor up and down). All other control sequences are dropped. Text may arrive in pieces of any size.
import { h, visible } from "./dom.js";

const special = /[\x00-\x08\x0b-\x1f\x7f-\x9f]/; // all control characters but tab and newline
const maxSequence = 64; // characters; a longer control sequence is dropped
const maxLine = 4000; // characters of a line that are shown
const maxUp = 60; // lines that the cursor can go up
const maxLines = 2000; // lines of one block in the document; the oldest go first

const plain = Object.freeze({ fg: "", bg: "", bold: false, dim: false, italic: false, under: false, strike: false, inverse: false });

// A TextBlock shows text of one kind, to which more can be added.
export class TextBlock {
  constructor(kind) {
    this.element = h("pre", { class: "out " + kind, tabIndex: -1, dir: "ltr" });
    this.tail = h("span", { class: "tail" }); // the unfinished line
    this.element.append(this.tail);
    this.cells = []; // [character, style] of that line
    this.above = []; // the last lines before it {cells, cut, nodes}, and those after it {cells, cut}, the
    this.below = []; // nearest last: the cursor can go up, as for several progress bars
    this.column = 0;
    this.cut = 0; // number of its characters that were dropped
    this.style = plain;
    this.mode = ""; // "", "esc", "csi", "string", "string-esc", "skip1"
    this.sequence = "";
    this.lines = 0;
    this.dropped = 0;
    this.plainText = []; // as it was written, for copying
  }

  write(text) {
    if (text === "") return;
    if (this.ended && text.startsWith("\n")) text = text.slice(1);
    this.ended = false;
    if (this.mode === "" && !special.test(text)) this.simple(text);
    else for (const c of text) this.put(c);
    this.showTail();
    this.trim();
  }

  // typed shows the input of a user, a line or keys, and ends its line.
  typed(text, by, secret, keys) {
    this.showTail();
    this.tail.before(...this.tail.childNodes, h("span", { class: keys ? "typed keys" : "typed", title: (keys ? "keys typed" : "typed") + (by ? " by " + by : "") }, keys ? h("span", { class: "mark" }, "keys ") : null, secret ? "••••••" : visible(text)), "\n");
    this.above = [];
    this.below = [];
    this.startLine();
    this.showTail();
    this.lines++;
    this.ended = Boolean(secret); // the code ends the line of a secret itself, because nobody else does
  }

  // simple adds text without control characters.
  simple(text) {
    const end = text.lastIndexOf("\n");
    if (end >= 0) {
      this.fresh = this.cells.length === 0 && this.below.length === 0 && this.style === plain;
      let whole = text.slice(0, end + 1);
      if (!this.fresh || /[^\n]{4001}/.test(whole)) {
        for (const c of whole) this.put(c);
      } else {
        this.tail.before(...visible(whole));
        this.above = [];
        for (let i = whole.indexOf("\n"); i >= 0; i = whole.indexOf("\n", i + 1)) this.lines++;
      }
      text = text.slice(end + 1);
    }
    for (const c of text) this.put(c);
  }

  put(c) {
    if (this.mode !== "") return this.control(c);
    switch (c) {
      case "\n": return this.endLine();
      case "\r": this.column = 0; return;
      case "\b": this.column = Math.max(0, this.column - 1); return;
      case "\x1b": this.mode = "esc"; return;
      case "\x9b": this.mode = "csi"; this.sequence = ""; return;
      case "\x90": case "\x98": case "\x9d": case "\x9e": case "\x9f": this.mode = "string"; this.sequence = ""; return;
    }
    if (c !== "\t" && special.test(c)) return;
    if (this.column >= maxLine) { this.cut++; return; }
    while (this.cells.length < this.column) this.cells.push([" ", plain]);
    this.cells[this.column++] = [c, this.style];
  }

  control(c) {
    switch (this.mode) {
      case "esc":
        if (c === "[") { this.mode = "csi"; this.sequence = ""; } else if ("]PX^_".includes(c)) { this.mode = "string"; this.sequence = ""; } else if (c >= " " && c <= "/") this.mode = "esc";
        else { this.mode = ""; if (c === "\n") this.put(c); }
        return;
      case "csi":
        if (c >= "@" && c <= "~") {
          this.mode = "";
          if (this.sequence.length <= maxSequence) this.act(c, this.sequence);
        } else if (c === "\n" || c === "\x1b") { this.mode = ""; this.put(c); } else if (this.sequence.length <= maxSequence) this.sequence += c;
        return;
      case "string":
        if (c === "\x07" || c === "\x9c") this.mode = "";
        else if (c === "\x1b") this.mode = "string-esc";
        else if (c === "\n") { this.mode = ""; this.put(c); }
        return;
      case "string-esc":
        this.mode = "";
        if (c !== "\\") this.put("\x1b"), this.put(c);
    }
  }

  act(final, parameters) {
    if (final === "m") this.style = styled(this.style, parameters);
    if (final === "A") this.up(Number(parameters) || 1);
    if (final === "B") for (let n = Number(parameters) || 1, { column } = this; n > 0 && this.below.length; n--, this.column = column) this.endLine();
    if (final === "K") {
      if (parameters === "" || parameters === "0") this.cells.length = Math.min(this.cells.length, this.column);
      if (parameters === "2") this.cells.length = 0;
    }
  }

  up(n) {
    for (; n > 0 && this.above.length; n--) {
      this.below.push({ cells: this.cells, cut: this.cut });
      const { cells, cut, nodes } = this.above.pop();
      for (const node of nodes) node.remove();
      Object.assign(this, { cells, cut });
      this.lines--;
    }
  }

  endLine() {
    const { cells, cut } = this, nodes = [...runs(cells, cut), document.createTextNode("\n")];
    this.tail.before(...nodes);
    this.above.push({ cells, cut, nodes });
    if (this.above.length > maxUp) this.above.shift();
    this.startLine();
    this.lines++;
  }

  startLine() {
    const { cells, cut } = this.below.pop() ?? { cells: [], cut: 0 };
    Object.assign(this, { cells, cut, column: 0 });
    this.tail.replaceChildren();
  }

  showTail() {
    this.tail.replaceChildren(...runs(this.cells, this.cut));
    for (const { cells, cut } of this.below.toReversed()) this.tail.append("\n", ...runs(cells, cut));
  }

  // trim removes the oldest lines when there are too many. A node holds whole lines, or a part of one.
  trim() {
    if (this.lines <= maxLines * 1.5) return;
    const before = this.lines;
    while (this.lines > maxLines && this.element.firstChild !== this.tail) {
      const node = this.element.firstChild, text = node.textContent;
      let n = text.split("\n").length - 1;
      if (this.lines - n < maxLines && node.nodeType === Node.TEXT_NODE && n > 1) {
        const keep = text.split("\n").slice(this.lines - maxLines);
        n = this.lines - maxLines;
        node.data = keep.join("\n");
        this.lines -= n;
        break;
      }
      node.remove();
      this.lines -= n;
    }
    this.dropped += before - this.lines;
    this.onDrop?.(this.dropped);
  }

  get text() { return this.element.textContent; }
}

// runs returns nodes for cells, one for each run of the same style.
function runs(cells, cut) {
  const nodes = [];
  for (let i = 0; i < cells.length;) {
    const style = cells[i]?.[1] ?? plain;
    let text = "";
    for (; i < cells.length && (cells[i]?.[1] ?? plain) === style; i++) text += cells[i]?.[0] ?? " ";
    if (style === plain) nodes.push(...visible(text));
    else nodes.push(inked(visible(text), style));
  }
  if (cut > 0) nodes.push(h("span", { class: "unseen" }, "… " + cut.toLocaleString("en") + " more characters"));
  return nodes;
}

function inked(children, s) {
  const classes = [s.bold && "sb", s.dim && "sd", s.italic && "si", s.under && "su", s.strike && "ss"].filter(Boolean);
  let { fg, bg } = s;
  if (s.inverse) { [fg, bg] = [bg || "paper", fg || "ink"]; }
  const span = h("span", {}, children);
  for (const [name, colour] of [["f", fg], ["b", bg]]) {
    if (colour === "") continue;
    if (colour.startsWith("rgb")) span.style[name === "f" ? "color" : "backgroundColor"] = colour;
    else classes.push(name + "-" + colour);
  }
  span.className = classes.join(" ");
  return span;
}

// styled applies the parameters of one SGR sequence.
function styled(style, parameters) {
  const p = parameters.split(/[;:]/).map((n) => (n === "" ? 0 : Number(n)));
  const s = { ...style };
  for (let i = 0; i < p.length; i++) {
    const n = p[i];
    if (n === 0) Object.assign(s, plain);
    else if (n === 1) s.bold = true;
    else if (n === 2) s.dim = true;
    else if (n === 3) s.italic = true;
    else if (n === 4) s.under = true;
    else if (n === 7) s.inverse = true;
    else if (n === 9) s.strike = true;
    else if (n === 22) s.bold = s.dim = false;
    else if (n === 23) s.italic = false;
    else if (n === 24) s.under = false;
    else if (n === 27) s.inverse = false;
    else if (n === 29) s.strike = false;
    else if (n >= 30 && n <= 37) s.fg = String(n - 30);
    else if (n === 39) s.fg = "";
    else if (n >= 40 && n <= 47) s.bg = String(n - 40);
    else if (n === 49) s.bg = "";
    else if (n >= 90 && n <= 97) s.fg = String(n - 82);
    else if (n >= 100 && n <= 107) s.bg = String(n - 92);
    else if (n === 38 || n === 48) {
      const [colour, used] = extended(p.slice(i + 1));
      if (colour !== null) s[n === 38 ? "fg" : "bg"] = colour;
      i += used;
    }
  }
  return Object.keys(plain).every((key) => s[key] === plain[key]) ? plain : s;
}

// extended reads a 256-colour or 24-bit colour, and returns it with the number of parameters it used.
function extended(p) {
  const whole = (n) => Number.isInteger(n) && n >= 0 && n <= 255;
  if (p[0] === 2) return [p.slice(1, 4).length === 3 && p.slice(1, 4).every(whole) ? `rgb(${p[1]}, ${p[2]}, ${p[3]})` : null, 4];
  if (p[0] !== 5) return [null, 1];
  const n = p[1];
  if (!whole(n)) return [null, 2];
  if (n < 16) return [String(n), 2];
  if (n > 231) { const v = 8 + (n - 232) * 10; return [`rgb(${v}, ${v}, ${v})`, 2]; }
  const level = (v) => (v === 0 ? 0 : 55 + v * 40), m = n - 16;
  return [`rgb(${level(Math.floor(m / 36))}, ${level(Math.floor(m / 6) % 6)}, ${level(m % 6)})`, 2];
}
