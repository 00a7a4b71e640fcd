// Values of calls as JSON. Bytes, times and large integers keep their types: docs/daemon-protocol.md describes how.

const maxDepth = 128;

/** Returns a value as JSON. A TypeError or RangeError says which part of it cannot be sent. */
export function encode(value: unknown): string {
  return JSON.stringify(plain(value, "", 0));
}

function refused(place: string, why: string): TypeError {
  return new TypeError(place ? `${place}: ${why}` : why);
}

/** Returns a value in which everything that JSON lacks is tagged. place names it in an error. */
function plain(value: unknown, place: string, depth: number): unknown {
  switch (typeof value) {
    case "boolean":
      return value;
    case "string":
      if (!isWellFormed(value)) throw refused(place, "the text contains half of a surrogate pair");
      return value;
    case "number":
      if (Object.is(value, -0)) return { $float: "-0" };
      return Number.isFinite(value) && (!Number.isInteger(value) || Number.isSafeInteger(value)) ? value : { $float: String(value) };
    case "bigint":
      if (value < -(2n ** 63n) || value >= 2n ** 64n) throw new RangeError(`${place ? place + ": " : ""}the integer does not fit into 64 bits`);
      return { $int: String(value) };
    case "function":
    case "symbol":
      throw refused(place, `a ${typeof value} cannot be sent`);
  }
  if (value === null || value === undefined) return null;
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw refused(place, "the date is invalid");
    return { $time: value.toISOString() };
  }
  if (value instanceof ArrayBuffer) return { $bytes: Buffer.from(value).toString("base64") };
  if (value instanceof Uint8Array) return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  if (depth >= maxDepth) throw refused(place.slice(0, 60), `it is nested deeper than ${maxDepth}, or contains itself`);
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as ArrayLike<unknown>, (item, at) => plain(item, `${place}[${at}]`, depth + 1));
  if (value instanceof Map || value instanceof Set || value instanceof Promise) throw refused(place, `a ${value.constructor.name} cannot be sent: use an object or an array`);
  if (typeof (value as { toJSON?: unknown }).toJSON === "function") return plain((value as { toJSON(): unknown }).toJSON(), place, depth + 1);
  const fields: [string, unknown][] = [];
  for (const [name, item] of Object.entries(value)) if (item !== undefined) fields.push([name, plain(item, place ? `${place}.${name}` : name, depth + 1)]);
  const object = Object.fromEntries(fields);
  return fields.length === 1 && fields[0]![0].startsWith("$") ? { $object: object } : object;
}

function isWellFormed(text: string): boolean {
  return !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/.test(text);
}

/** Returns the value that parsed JSON stands for. It changes the parsed objects. */
export function decode(value: any): any {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) {
    for (let at = 0; at < value.length; at++) value[at] = decode(value[at]);
    return value;
  }
  const names = Object.keys(value);
  const tag = names[0];
  if (names.length === 1 && tag!.startsWith("$")) {
    if (tag === "$object") return fields(value[tag]);
    return untagged(tag!, value[tag!]);
  }
  return fields(value);
}

function fields(object: any): any {
  for (const name of Object.keys(object)) object[name] = decode(object[name]); // also of an own __proto__
  return object;
}

function untagged(tag: string, text: string): unknown {
  if (tag === "$bytes") return new Uint8Array(Buffer.from(text, "base64"));
  if (tag === "$int") return BigInt(text);
  if (tag === "$float") return Number(text);
  if (tag === "$time") return new Date(text);
  throw new TypeError(`unknown tag ${JSON.stringify(tag)}`);
}
