// The screen of a full-screen program, as text.
import { h, clear, visible } from "./dom.js";
import { get } from "./api.js";

const pause = 250; // ms between two requests
const lineHeight = 16, padding = 6; // pixels, as in page.css

export class ScreenView {
  constructor(name) {
    this.name = name;
    this.text = h("pre", { tabIndex: 0 });
    this.about = h("p", { class: "about" });
    this.element = h("section", { class: "screen", "aria-label": "screen of the program", hidden: true }, this.about, this.text);
    this.lines = 0; // the most that were shown
    this.row = 0; // that was scrolled to
    this.state = ""; // of the session when the screen was last requested
    this.appeared = () => this.fetch();
    document.addEventListener("visibilitychange", this.appeared);
  }

  leave() {
    this.active = false;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.appeared);
  }

  // follow shows the screen anew if something has happened in the turn.
  follow(info) {
    this.active = ["running", "waiting"].includes(info.state);
    const state = [info.generation, info.turn, info.state, info.last_seq].join("/");
    if (state === this.state) return;
    this.state = state;
    this.stale = true;
    if (!this.active) this.hide();
    this.fetch();
  }

  // fetch reads the screen while the page is visible, at most once in each pause.
  async fetch() {
    if (!this.active || !this.stale || this.timer || document.visibilityState !== "visible") return;
    this.stale = false;
    this.timer = setTimeout(() => {
      this.timer = 0;
      this.fetch();
    }, pause);
    const request = this.request = {}; // a later one may be answered first
    let screen = null;
    try {
      screen = await get("screen", { session: this.name });
    } catch { /* the turn has ended, or another request reports the error */ }
    if (this.request !== request) return;
    if (this.active && screen?.full_screen) this.show(screen);
    else this.hide();
  }

  // show keeps the height of the largest screen, so that the page does not move while a program draws.
  show(screen) {
    const { lines, cursor_hidden: hidden, highlights = [] } = screen;
    const { scrollTop, scrollLeft } = this.text;
    this.about.textContent = (screen.program || "A program") + " fills the screen: " + screen.cols + " × " + screen.rows + (hidden ? "" : ", cursor at line " + screen.cursor_row + ", column " + screen.cursor_col);
    this.lines = Math.max(this.lines, lines.length);
    clear(this.text).append(...lines.flatMap((line, i) => [...marked(line, highlights.filter((one) => one.row === i + 1)), "\n"]), "\n".repeat(this.lines - lines.length));
    this.element.hidden = false;
    Object.assign(this.text, { scrollTop, scrollLeft });
    this.reveal(hidden ? highlights[0]?.row : screen.cursor_row);
  }

  // reveal scrolls to the row with the cursor, once it is another row.
  reveal(row) {
    if (!row || row === this.row) return;
    this.row = row;
    const { scrollTop, clientHeight } = this.text, end = row * lineHeight + 2 * padding;
    this.text.scrollTop = Math.max(end - clientHeight, Math.min(scrollTop, (row - 1) * lineHeight));
  }

  hide() {
    this.lines = this.row = 0;
    this.element.hidden = true;
    clear(this.text);
  }
}

// marked returns the nodes of a line. A wide character has two columns, so a highlight may begin before its column.
function marked(line, highlights) {
  const nodes = [];
  let from = 0;
  for (const { col, text } of highlights) {
    const at = line.lastIndexOf(text, col - 1);
    if (at < from || text === "") continue;
    nodes.push(...visible(line.slice(from, at)), h("mark", {}, visible(text)));
    from = at + text.length;
  }
  return nodes.concat(visible(line.slice(from)));
}
