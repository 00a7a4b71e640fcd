// What became of code that was run: one object, which counts everything that it leaves out.
import { writeFile } from "node:fs/promises";
import { extname } from "node:path";
import type { CodeError } from "./error.ts";

const maxRenderedChars = 20_000; // of render(), by default: what a model should get at most
const imageTypes = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const fileTypes: Record<string, string> = {
  ".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
  ".pdf": "application/pdf", ".html": "text/html", ".htm": "text/html", ".json": "application/json", ".md": "text/markdown", ".tex": "text/latex", ".txt": "text/plain",
};

/** One thing to show, in one or more types. */
export class Display {
  /** By MIME type: text, or bytes. */
  data: Record<string, string | Uint8Array> = {};
  title = "";
  id = "";
  /** It shows the value of the code. */
  isValue = false;
  /** The bytes of each type that is not in data. */
  leftOut: Record<string, number> = {};

  /** The MIME type of the image, or undefined if it has none that is a file of pixels. */
  get imageType(): string | undefined {
    return imageTypes.find((mime) => this.data[mime] instanceof Uint8Array);
  }

  /** The image, as the bytes of a PNG, JPEG, GIF or WebP file. */
  get image(): Uint8Array | undefined {
    return this.imageType === undefined ? undefined : (this.data[this.imageType] as Uint8Array);
  }

  /** Writes the type that the ending of path names, such as .png, .svg or .html, and returns that type. */
  async save(path: string): Promise<string> {
    const mime = fileTypes[extname(path).toLowerCase()];
    if (mime === undefined || this.data[mime] === undefined) throw new TypeError(`${path}: the display has ${Object.keys(this.data).join(", ") || "nothing"}, and no type for the ending "${extname(path)}"`);
    await writeFile(path, this.data[mime]);
    return mime;
  }
}

/** What became of code that was run. */
export class Result {
  readonly turn: number;
  /** "" if the turn is not over. */
  outcome: "" | "ok" | "error" | "interrupted" | "ended" = "";
  /** What the code has written to both streams, in order. It has neither the echo of the value, nor the traceback. */
  text = "";
  /** The part of text from standard error. */
  stderr = "";
  /** The echo of the last value. */
  value: string | undefined;
  displays: Display[] = [];
  error: CodeError | undefined;
  /** The code was interrupted because timeoutMs were over. */
  timedOut = false;
  /** Messages of the session: its sandbox, denied access, limits, why the worker before has ended. */
  notices: string[] = [];
  /** How long the turn ran. */
  durationMs = 0;
  /** Bytes of text, value and traceback that were too much for maxBytes, or that the session has dropped. */
  leftOut = 0;
  /** Displays that are missing or are not whole. */
  leftOutDisplays = 0;

  constructor(turn: number) {
    this.turn = turn;
  }

  /** The images of the displays, as the bytes of PNG, JPEG, GIF or WebP files. */
  get images(): Uint8Array[] {
    return this.displays.flatMap((display) => display.image ?? []);
  }

  /** The code has ended without an error. */
  get ok(): boolean {
    return this.error === undefined;
  }

  /** Throws the error of the code if there is one. Otherwise it returns the result. */
  check(): this {
    if (this.error) throw this.error;
    return this;
  }

  /**
   * Parses the printed text as JSON, or the value if nothing was printed. A Python string that contains
   * JSON counts, too. The error is a SyntaxError if it is not JSON, or if output was left out.
   */
  json(): any {
    if (this.leftOut > 0) throw new SyntaxError(`${this.leftOut} bytes of the output were left out, so it is no whole JSON; run the code with a larger maxBytes`);
    if (this.text.trim() !== "" || this.value === undefined) return JSON.parse(this.text);
    try {
      return JSON.parse(this.value);
    } catch (error) {
      const quoted = unquote(this.value);
      if (quoted === undefined) throw error;
      return JSON.parse(quoted);
    }
  }

  /** Returns all of it as text for a model: at most maxChars characters, with a mark where some are left out. */
  render(maxChars = maxRenderedChars): string {
    const parts = [this.text];
    if (this.leftOut) parts.push(`[${this.leftOut} bytes of output left out]`);
    if (this.value) parts.push(this.value);
    for (const display of this.displays) if (display.image || !display.isValue || this.value === undefined) parts.push(describe(display));
    if (this.leftOutDisplays) parts.push(`[${this.leftOutDisplays} displays left out or not whole]`);
    if (this.error) parts.push(this.error.traceback || `[${this.error}]`);
    if (this.error?.ended) parts.push(`[the interpreter ended, and its variables are lost: ${this.error.message}]`);
    if (this.timedOut) parts.push("[interrupted: the time was over]");
    for (const notice of this.notices) parts.push(`[${notice}]`);
    return shorten(parts.filter((part) => part !== "").map((part) => (part.endsWith("\n") ? part : part + "\n")).join(""), maxChars);
  }
}

/** Returns the text of a Python string literal without a prefix, or undefined. */
function unquote(literal: string): string | undefined {
  const inside = /^(['"])(.*)\1$/s.exec(literal);
  if (!inside) return undefined;
  const named: Record<string, string> = { n: "\n", t: "\t", r: "\r" };
  return inside[2]!.replace(/\\(x[0-9a-f]{2}|u[0-9a-f]{4}|U[0-9a-f]{8}|[^])/g, (whole, code: string) => {
    if (code.length > 1) return String.fromCodePoint(parseInt(code.slice(1), 16));
    return named[code] ?? (`\\'"`.includes(code) ? code : whole);
  });
}

/** Returns a display as text: its own text if it has some, otherwise its types and sizes. */
function describe(display: Display): string {
  const plain = display.data["text/plain"];
  if (!display.image && typeof plain === "string") return plain;
  const sizes = Object.entries(display.data).map(([mime, data]) => [mime, byteSize(data)] as const).concat(Object.entries(display.leftOut));
  const parts = sizes.filter(([mime]) => mime !== "text/plain").map(([mime, bytes]) => `${mime} of ${bytes} bytes`);
  return `[${[...(display.title ? [display.title] : []), ...parts].join(", ")}]`;
}

/** Returns the size of data of a display, in bytes. */
export function byteSize(data: string | Uint8Array): number {
  return typeof data === "string" ? Buffer.byteLength(data) : data.length;
}

/** Returns text with at most max characters: its beginning, a mark with a number, and its end. */
function shorten(text: string, max: number): string {
  if (text.length <= max) return text;
  const mark = (count: number): string => `[… ${count} characters left out …]`;
  const room = max - mark(text.length).length - 2;
  if (room <= 0) return mark(text.length).slice(0, Math.max(0, max));
  let tailAt = text.length - Math.floor(room / 3); // the end has the value and the error
  let head = room - (text.length - tailAt);
  if (isLowSurrogate(text, head)) head--;
  if (isLowSurrogate(text, tailAt)) tailAt++;
  return `${text.slice(0, head)}\n${mark(tailAt - head)}\n${text.slice(tailAt)}`;
}

function isLowSurrogate(text: string, at: number): boolean {
  return (text.charCodeAt(at) & 0xfc00) === 0xdc00;
}
