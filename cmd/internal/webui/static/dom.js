// Elements and texts. Text is always inserted as text: nothing in this or any other file of the web
// UI parses HTML.

// h makes an element. Names that begin with "on" set listeners, "class" and names with a dash set
// attributes, and all other names set properties.
export function h(name, properties, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "class") element.className = value;
    else if (key.includes("-") || key === "role" || key === "for") element.setAttribute(key, value === true ? "" : value);
    else element[key] = value;
  }
  element.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return element;
}

export function clear(element) {
  element.replaceChildren();
  return element;
}

// duration formats a time span: "12 ms", "3.1 s", "4 min 10 s", "2 h 5 min".
export function duration(ms) {
  if (ms < 1000) return Math.round(ms) + " ms";
  if (ms < 60000) return (ms < 10000 ? (ms / 1000).toFixed(1) : Math.round(ms / 1000)) + " s";
  const s = Math.floor(ms / 1000), m = Math.floor(s / 60), hours = Math.floor(m / 60), days = Math.floor(hours / 24);
  if (hours === 0) return m + " min" + (s % 60 ? " " + (s % 60) + " s" : "");
  if (days === 0) return hours + " h" + (m % 60 ? " " + (m % 60) + " min" : "");
  return days + " d" + (hours % 24 ? " " + (hours % 24) + " h" : "");
}

// size formats a number of bytes: "812 B", "4.2 kB", "31 MB".
export function size(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  while (n >= 1000 && i < units.length - 1) { n /= 1000; i++; }
  return (i === 0 || n >= 10 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
}

export function count(n, word, words = word + "s") {
  return n.toLocaleString("en") + " " + (n === 1 ? word : words);
}

// clock formats a time of day, with the date unless it is today.
export function clock(at) {
  const d = new Date(at), time = d.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  if (d.toDateString() === new Date().toDateString()) return time;
  return d.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) + " " + time;
}

// Characters that are invisible, or reverse the order of other characters.
const deceptive = /[\u2028\u2029\ufff9-\ufffb]|(?![\u200c\u200d\ufe0e\ufe0f])\p{Default_Ignorable_Code_Point}/u;
const deceptiveAll = new RegExp("(" + deceptive.source + ")", "u");

// visible returns nodes for a text, in which such characters are shown by their code point.
export function visible(text) {
  if (!deceptive.test(text)) return [document.createTextNode(text)];
  return text.split(deceptiveAll).filter(Boolean).map((part) =>
    deceptive.test(part) ? h("span", { class: "unseen", title: "an invisible character" }, "U+" + part.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")) : document.createTextNode(part));
}

// closing makes a menu close with Esc, or when the focus leaves it.
export function closing(menu) {
  menu.addEventListener("focusout", (e) => { if (!menu.contains(e.relatedTarget)) menu.open = false; });
  menu.addEventListener("keydown", (e) => { if (e.key === "Escape") shut(menu); });
  return menu;
}

// shut closes a menu, and leaves the focus where the user opened it.
export function shut(menu) {
  menu.firstChild.focus({ preventScroll: true });
  menu.open = false;
}

// holdFocus runs a change that replaces the controls of a place. If one of them had the focus, the one of
// its name has it afterwards, or the one at its position, or else what otherwise returns.
export function holdFocus(place, change, otherwise) {
  const controls = () => [...place.querySelectorAll("button, a")], used = document.activeElement, at = controls().indexOf(used);
  const had = place.contains(used);
  change();
  if (!had || place.contains(document.activeElement)) return;
  const now = controls(), same = now.filter((one) => one.textContent === used.textContent);
  (same.length === 1 ? same[0] : now[at] ?? now.at(-1) ?? otherwise()).focus({ preventScroll: true });
}

// say shows the user a message for a moment. Screen readers announce it.
export function say(text, kind = "note") {
  let area = document.getElementById("toasts");
  if (!area) document.body.append(area = h("div", { id: "toasts", role: "status", "aria-live": "polite" }));
  const toast = h("div", { class: "toast " + kind }, text);
  area.append(toast);
  while (area.children.length > 4) area.firstChild.remove();
  setTimeout(() => toast.remove(), kind === "bad" ? 12000 : 4000);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
    say("Copied " + what + ".");
  } catch {
    say("The browser does not let this page copy.", "bad");
  }
}

const settleTime = 500; // ms

// hasty reports whether a click came so soon after a change that the user may have meant what was there
// before, and says so. Keys have a focus, which no change moves.
export function hasty(click, changed) {
  const early = click.detail > 0 && click.timeStamp - changed < settleTime;
  if (early) say("This had just moved or appeared. Click again if you mean it.");
  return early;
}

// typing reports whether a key event belongs to a field that the user types into.
export function typing(event) {
  const t = event.target;
  return t instanceof HTMLElement && (t.isContentEditable || t.closest("input, textarea, select, dialog") !== null);
}
