// Highlighted code. Prism returns tokens, whose text is inserted as text.
import { h, visible } from "./dom.js";

// The regular expressions of a grammar can be slow on unusual text. Such text stays plain.
const most = 20000, widest = 1000;

export function highlighted(code, language) {
  const box = h("code", { dir: "ltr" });
  const grammar = window.Prism?.languages?.[language];
  if (!grammar || code.length > most || code.split("\n").some((line) => line.length > widest)) {
    box.append(...visible(code));
    return box;
  }
  add(box, window.Prism.tokenize(code, grammar));
  return box;
}

function add(box, tokens) {
  for (const token of Array.isArray(tokens) ? tokens : [tokens]) {
    if (typeof token === "string") { box.append(...visible(token)); continue; }
    const span = h("span", { class: "k-" + token.type });
    add(span, token.content);
    box.append(span);
  }
}
