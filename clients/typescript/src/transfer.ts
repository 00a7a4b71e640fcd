// Files of a session's working directory: put, get, list and remove.
import { randomBytes } from "node:crypto";
import { open, rename, rm, type FileHandle } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import * as zlib from "node:zlib";
import type { CallOptions } from "./connection.ts";
import { TurnstoneError } from "./error.ts";
import type { FileList, Methods } from "./wire.ts";

const pieceBytes = 1 << 20; // the daemon takes and sends no more at once
const windowCalls = 4; // calls under way at the same time, so that a copy does not wait for each answer

/** Missing before Node.js 20.15. The daemon checks a file only if it gets a checksum. */
const crc32 = (zlib as { crc32?: (data: Uint8Array, value: number) => number }).crc32;

type FilePart = Omit<Methods["file/get"]["result"], "data"> & { data: Buffer };

/** What the functions need of a session: its name and the calls of its connection. */
export interface TransferSession {
  readonly name: string;
  call<M extends keyof Methods>(method: M, params: Methods[M]["params"], options?: CallOptions): Promise<Methods[M]["result"]>;
}

export interface PutOptions {
  /** The path in the working directory; by default the name of the local file. */
  to?: string;
  /** Replace a file of that name. Otherwise it is an error of kind "file_exists". */
  overwrite?: boolean;
  /** Create missing directories of the path. */
  parents?: boolean;
  /** Called after each piece with the number of bytes that have arrived. */
  onProgress?: (bytes: number) => void;
  /** Gives up the transfer. */
  signal?: AbortSignal;
}

/**
 * Puts a local file, or data, into the working directory. The file appears when it is complete. Of its
 * attributes only the right to execute is kept.
 */
export async function put(session: TransferSession, source: string | Uint8Array | AsyncIterable<Uint8Array>, options: PutOptions = {}): Promise<void> {
  const file = typeof source === "string" ? await open(source, "r") : undefined;
  try {
    const path = options.to ?? (typeof source === "string" ? basename(resolve(source)) : "");
    if (path === "") throw new TypeError("name the file in the session with the option to");
    const executable = file !== undefined && process.platform !== "win32" && ((await file.stat()).mode & 0o100) !== 0;
    const first = { session: session.name, path, transfer: randomBytes(16).toString("hex") };
    const asked = { ...(options.overwrite ? { overwrite: true } : {}), ...(executable ? { executable } : {}), ...(options.parents ? { parents: true } : {}) };
    try {
      await sendPieces(session, piecesOf(file ?? (source as Uint8Array | AsyncIterable<Uint8Array>)), { ...first, ...asked }, options);
    } catch (error) {
      await session.call("file/put", { ...first, abort: true }).catch(() => {}); // otherwise the session gives it up itself, later
      throw error;
    }
  } finally {
    await file?.close();
  }
}

async function sendPieces(session: TransferSession, pieces: AsyncIterable<Buffer>, params: Methods["file/put"]["params"], options: PutOptions): Promise<void> {
  const sent = new Window<Methods["file/put"]["result"]>((progress) => options.onProgress?.(progress.bytes));
  let [offset, checksum] = [0, 0];
  try {
    for await (const data of pieces) {
      options.signal?.throwIfAborted();
      const last = data.length < pieceBytes;
      if (crc32) checksum = crc32(data, checksum);
      const end = last ? { last, ...(crc32 ? { crc32: checksum.toString(16).padStart(8, "0") } : {}) } : {};
      await sent.add(session.call("file/put", { ...params, offset, ...end }, { buffer: data }));
      if (offset === 0) await sent.settle(); // the session begins the transfer with the first piece
      offset += data.length;
    }
    await sent.settle();
  } finally {
    await sent.abandon();
  }
}

/** The calls of a copy that are under way. Their results are handled in order. */
class Window<R> {
  private calls: Promise<R>[] = [];
  private readonly handle: (result: R) => void | Promise<void>;

  constructor(handle: (result: R) => void | Promise<void>) {
    this.handle = handle;
  }

  /** Adds a call, and waits until a further one may be made. */
  async add(call: Promise<R>): Promise<void> {
    call.catch(() => {}); // it is awaited later
    this.calls.push(call);
    await this.settle(windowCalls - 1);
  }

  /** Waits until at most this many calls have no result. */
  async settle(left = 0): Promise<void> {
    while (this.calls.length > left) await this.handle(await this.calls.shift()!);
  }

  /** Waits for the calls that are left, whatever becomes of them. */
  async abandon(): Promise<void> {
    await Promise.allSettled(this.calls.splice(0));
  }
}

/** Yields whole pieces, and at the end a shorter one, which may be empty. */
async function* piecesOf(source: FileHandle | Uint8Array | AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let queued: Buffer[] = [];
  let size = 0;
  for await (const chunk of chunksOf(source)) {
    for (let at = 0; at < chunk.length; ) {
      const part = Buffer.from(chunk.subarray(at, at + pieceBytes - size));
      queued.push(part);
      at += part.length;
      if ((size += part.length) === pieceBytes) {
        yield Buffer.concat(queued);
        [queued, size] = [[], 0];
      }
    }
  }
  yield Buffer.concat(queued);
}

async function* chunksOf(source: FileHandle | Uint8Array | AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  if (source instanceof Uint8Array) {
    yield source;
  } else if ("read" in source && "fd" in source) {
    for (;;) {
      const { bytesRead, buffer } = await source.read(Buffer.alloc(pieceBytes), 0, pieceBytes, null);
      if (bytesRead === 0) return;
      yield buffer.subarray(0, bytesRead);
    }
  } else {
    yield* source as AsyncIterable<Uint8Array>;
  }
}

export interface GetOptions {
  /** Called after each piece with the number of bytes that have arrived. */
  onProgress?: (bytes: number) => void;
  /** Gives up the transfer. */
  signal?: AbortSignal;
}

/**
 * Returns the content of a file of the working directory. An error of kind "file_changed" means that the
 * file was changed while it was read.
 */
export async function get(session: TransferSession, path: string, options: GetOptions = {}): Promise<Uint8Array> {
  const parts: Buffer[] = [];
  await receive(session, path, async (data) => void parts.push(data), options);
  return Buffer.concat(parts);
}

/** Writes a file of the working directory to a local file, which is replaced once the content is complete. */
export async function getFile(session: TransferSession, path: string, to: string, options: GetOptions = {}): Promise<void> {
  const temporary = join(dirname(to), ".get-" + randomBytes(8).toString("hex"));
  const file = await open(temporary, "wx", 0o666);
  try {
    const first = await receive(session, path, async (data) => {
      for (let at = 0; at < data.length; ) at += (await file.write(data, at)).bytesWritten;
    }, options);
    if (first.executable) {
      const mode = (await file.stat()).mode & 0o777;
      await file.chmod(mode | ((mode & 0o444) >> 2));
    }
    await file.close();
    await rename(temporary, to);
  } catch (error) {
    await file.close().catch(() => {});
    await rm(temporary, { force: true });
    throw error;
  }
}

async function receive(session: TransferSession, path: string, write: (data: Buffer) => Promise<void>, options: GetOptions): Promise<FilePart> {
  const read = async (offset: number): Promise<FilePart> => {
    let data: Buffer = Buffer.alloc(0);
    const part = await session.call("file/get", { session: session.name, path, offset, buffer: true }, { buffered: (bytes) => (data = bytes) });
    return { ...part, data };
  };
  const first = await read(0);
  const size = first.data.length; // of each part but the last
  let offset = 0;
  const parts = new Window<FilePart>(async (part) => {
    options.signal?.throwIfAborted();
    const rest = first.bytes - offset;
    if (part.id !== first.id || part.data.length < Math.min(rest, Math.max(size, 1))) {
      throw new TurnstoneError("file_changed", `${path} was changed while it was read, after ${offset} of ${first.bytes} bytes; read it again`);
    }
    const data = part.data.subarray(0, rest);
    await write(data);
    offset += data.length;
    options.onProgress?.(offset);
  });
  try {
    await parts.add(Promise.resolve(first));
    for (let at = size; size > 0 && at < first.bytes; at += size) await parts.add(read(at));
    await parts.settle();
    return first;
  } finally {
    await parts.abandon();
  }
}

/**
 * Lists a directory by name; "" is the working directory, and "session:" the session's own one. The path
 * of each file can be used in the other calls. If more is true, the directory has more than the 10 000
 * listed names.
 */
export function listFiles(session: TransferSession, path = ""): Promise<FileList> {
  return session.call("file/list", { session: session.name, ...(path === "" ? {} : { path }) });
}

/** Removes a file or a link, but no directory. */
export async function removeFile(session: TransferSession, path: string): Promise<void> {
  await session.call("file/remove", { session: session.name, path });
}
