// Markdown and formulas as elements. No HTML is parsed: marked gives tokens, of which this file makes
// elements, and Temml makes elements of MathML by itself. HTML in Markdown stays text.
import { h, visible } from "./dom.js";
import { Marked } from "/static/vendor/marked.js";

const maxFormula = 8000; // characters; a longer formula stays source
const maxDepth = 30; // of lists and quotes in each other; deeper ones stay source
const maxElements = 20000; // of one text; the rest stays source
const formulaElements = 10; // that a formula counts for
const maxMarks = 2000; // delimiters in one paragraph, for which the lexer needs time by their square

// formula returns TeX as MathML, or as source if it cannot be shown.
export function formula(tex, display) {
  const place = h(display ? "div" : "span", { class: "formula" });
  try {
    if (tex.length > maxFormula) throw new RangeError("long");
    globalThis.temml.render(tex, place, { displayMode: display, trust: false, maxExpand: 500, maxSize: [50, 500], throwOnError: true });
  } catch {
    place.replaceChildren(h("code", {}, visible(tex)));
  }
  return place;
}

const blockDelimiters = [/^\$\$([^]*)\$\$$/, /^\\\[([^]*)\\\]$/];

// latex returns a result of the type text/latex. Its delimiters say how its formula is set.
export function latex(text) {
  const tex = text.trim(), inline = /^\$([^$]+)\$$/.exec(tex);
  if (inline) return formula(inline[1], /^\s*\\displaystyle/.test(inline[1]));
  const block = blockDelimiters.map((d) => d.exec(tex)).find(Boolean);
  return formula(block ? block[1] : tex, true);
}

// Formulas are taken out before the rules of Markdown see their backslashes.
const mathRule = (name, level, start, rule, display) => ({
  name, level, start: (source) => source.indexOf(start),
  tokenizer(source) {
    const found = rule.exec(source);
    return found ? { type: "math", raw: found[0], text: found[1], display } : undefined;
  },
});

const lexer = new Marked({ extensions: [
  mathRule("mathBlock", "block", "$$", /^\$\$([^$]{1,8000})\$\$[ \t]*(?:\n|$)/, true),
  mathRule("mathLine", "inline", "$$", /^\$\$([^$\n]{1,2000})\$\$/, true),
  mathRule("math", "inline", "$", /^\$([^\s$](?:[^$\n]{0,500}[^\s$])?)\$(?!\d)/, false),
] });

// markdown returns the elements of a text. It throws an error if the text is too complex.
export function markdown(text) {
  if (text.split(/\n[ \t]*\n/).some((paragraph) => paragraph.length > maxMarks && paragraph.match(/[*_$`[\]<!~]/g)?.length > maxMarks)) throw new RangeError("complex");
  left = maxElements;
  return h("div", { class: "markdown" }, lexer.lexer(text).flatMap((token) => nodesOf(token, 0)));
}

let left = 0; // elements that the text may still become

const sizeOf = (t) => ({ math: formulaElements, list: t.items?.length, table: t.rows?.length * t.header?.length }[t.type] ?? 1);

const wrappers = { strong: "strong", em: "em", del: "del", blockquote: "blockquote", paragraph: "p" };

function nodesOf(t, depth) {
  if (depth > maxDepth || (left -= sizeOf(t)) < 0) return visible(t.raw);
  const all = (tokens) => (tokens ?? []).flatMap((inner) => nodesOf(inner, depth + 1));
  const cells = (row, name) => h("tr", {}, row.map((cell) => h(name, { class: cell.align ? "to-" + cell.align : undefined }, all(cell.tokens))));
  switch (t.type) {
    case "space": case "def": return [];
    case "math": return [formula(t.text, t.display)];
    case "text": return t.tokens ? all(t.tokens) : visible(unescaped(t.text));
    case "escape": return visible(unescaped(t.text));
    case "heading": return [h("h" + Math.min(6, t.depth + 2), {}, all(t.tokens))];
    case "list": return [h(t.ordered ? "ol" : "ul", { start: t.ordered && t.start > 1 ? t.start : undefined }, t.items.map((item) => h("li", {}, item.task ? h("input", { type: "checkbox", checked: item.checked, disabled: true, "aria-label": item.checked ? "done" : "not done" }) : null, all(item.tokens))))];
    case "checkbox": return [];
    case "code": return [h("pre", {}, h("code", {}, visible(t.text)))];
    case "codespan": return [h("code", {}, visible(unescaped(t.text)))];
    case "br": return [h("br")];
    case "hr": return [h("hr")];
    case "link": return /^https?:\/\//i.test(t.href) ? [h("a", { href: t.href, rel: "noopener noreferrer", target: "_blank", title: t.href }, all(t.tokens))] : all(t.tokens);
    case "image": return [h("em", {}, "[picture: ", visible(t.text || t.href), "]")]; // nothing is loaded
    case "table": return [h("table", {}, h("thead", {}, cells(t.header, "th")), h("tbody", {}, t.rows.map((row) => cells(row, "td"))))];
  }
  return wrappers[t.type] ? [h(wrappers[t.type], {}, all(t.tokens))] : visible(t.raw);
}

// unescaped undoes the escapes of marked, which expects that its texts become HTML.
const unescaped = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&amp;", "&");
