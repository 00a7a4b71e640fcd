// Discovery of the user's daemon, which works from every login of the user. docs/daemon-protocol.md has the
// search order. The command and the other clients use the same one.
import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, readSync, statSync, type Stats } from "node:fs";
import { connect as dial, type Socket } from "node:net";
import { hostname, userInfo } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { TurnstoneError } from "./error.ts";
import { Proof } from "./proof.ts";

const maxPath = 107; // of a Unix socket, in bytes; the system's own bound may be lower
const maxNoteBytes = 4 << 10; // of the daemon's note, a small file that names its socket
const probeTimeout = 2_000; // for the answer of a socket, in milliseconds
const maxAnswerBytes = 16 << 10;
const bootIDLength = 8; // characters of the boot ID in the name of the note

/** Returns the socket of this user's daemon, or where a new daemon would listen. On Windows TURNSTONE_SOCKET must name its pipe. */
export async function defaultSocket(): Promise<string> {
  const named = process.env["TURNSTONE_SOCKET"];
  if (named) return named;
  if (process.platform === "win32") throw new TurnstoneError("unreachable", "on Windows, TURNSTONE_SOCKET must name the pipe of the daemon, which repl daemon status prints");
  const defaults = [...loginSockets(), ...ownSockets()];
  const notes = readNotes();
  for (const path of new Set([...notes.map((note) => note.socket), ...defaults])) if (await answers(path)) return path;
  return notes.find((note) => note.trusted)?.socket ?? defaults[0]!;
}

function loginSockets(): string[] {
  for (const run of [process.env["XDG_RUNTIME_DIR"] ?? "", `/run/user/${process.geteuid!()}`]) {
    if (isAbsolute(run) && isOwnDirectory(run)) return [join(run, "turnstone", "daemon.sock")].filter(fits);
  }
  return [];
}

function ownSockets(): string[] {
  const name = join(`turnstone-${process.getuid!()}`, "daemon.sock");
  const path = join(process.env["TMPDIR"] ?? "", name);
  const sockets = [isAbsolute(path) && fits(path) ? path : join("/tmp", name)];
  const host = hostID(), state = stateDirectory();
  if (host && state) sockets.push(...[join(state, `run-${host}`, "daemon.sock")].filter(fits));
  return sockets;
}

function fits(path: string): boolean {
  return Buffer.byteLength(path) <= maxPath;
}

function stateDirectory(): string | undefined {
  const state = process.env["XDG_STATE_HOME"] ?? "";
  if (isAbsolute(state)) return join(state, "turnstone");
  let home = process.env["HOME"] ?? "";
  if (!isOwnDirectory(home)) {
    // After su or sudo, HOME may belong to another user. An account without a name has no other home directory.
    home = orNothing(() => userInfo().homedir) ?? home;
  }
  return isAbsolute(home) ? join(home, ".local", "state", "turnstone") : undefined;
}

/** Returns a name for this host, its boot and its PID namespace. Only Linux has all three. */
function hostID(): string | undefined {
  return orNothing(() => {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, bootIDLength);
    const space = readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
    return `${hostname().slice(0, 64).replace(/[^A-Za-z0-9.]/g, "_")}-${boot}-${space}`;
  });
}

/** Returns the sockets in the notes of this user's live daemons. A note is trusted if no session can have written it. */
function readNotes(): { socket: string; trusted: boolean }[] {
  const host = hostID(), state = stateDirectory();
  if (!host) return [];
  return [state, dirname(ownSockets()[0]!)].flatMap((directory) => {
    const socket = directory && orNothing(() => readNote(directory, `daemon-${host}.json`));
    return socket ? [{ socket, trusted: directory === state }] : [];
  });
}

function readNote(directory: string, name: string): string | undefined {
  const found = statSync(directory);
  if (!found.isDirectory() || !isPrivate(found)) return undefined;
  // Without O_NONBLOCK, opening a named pipe of that name would block.
  const fd = openSync(join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const file = fstatSync(fd);
    if (!file.isFile() || !isPrivate(file)) return undefined;
    const text = Buffer.alloc(maxNoteBytes);
    const note = JSON.parse(text.toString("utf8", 0, readSync(fd, text, 0, maxNoteBytes, 0)));
    return startTicks(note.pid) === note.start_ticks && typeof note.socket === "string" && isAbsolute(note.socket) ? note.socket : undefined;
  } finally {
    closeSync(fd);
  }
}

/** Returns when a live process of this user started, in clock ticks since the boot. */
function startTicks(pid: number): number | undefined {
  const directory = `/proc/${Number(pid)}`;
  const stat = readFileSync(`${directory}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 1).trim().split(" "); // the state is field 3, and this field 22
  return isOwn(statSync(directory)) && fields[0] !== "Z" ? Number(fields[19]) : undefined;
}

/** Reports whether a daemon of this user listens at a socket. A killed daemon leaves its socket behind. */
async function answers(path: string): Promise<boolean> {
  if (!isOwnSocket(path)) return false;
  const connection = dial(path);
  try {
    return (await faultOf(path, connection, probeTimeout)) === "";
  } finally {
    connection.destroy();
  }
}

/**
 * Returns why the program at the other end of a new connection is not proved to be this user's daemon, or "".
 * Nothing else is sent before this check. Node.js cannot ask for the owner of a Windows pipe.
 */
export async function faultOf(path: string, connection: Socket, timeout: number): Promise<string> {
  if (process.platform === "win32") return "";
  const proof = new Proof(path, stateDirectory());
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    const finish = (fault: string): void => {
      clearTimeout(timer);
      connection.off("data", read).off("error", failed).off("close", hungUp);
      resolve(fault);
    };
    const timer = setTimeout(() => finish("it does not answer"), timeout);
    const failed = (error: Error): void => finish(error.message);
    const hungUp = (): void => finish("it hung up");
    const read = (bytes: Buffer): void => {
      parts.push(bytes);
      const line = Buffer.concat(parts);
      if (!line.includes(10) && line.length < maxAnswerBytes) return;
      const answer = orNothing(() => JSON.parse(line.toString())); // bytes after the line make it invalid
      finish(proof.fault(answer));
    };
    connection.on("data", read).on("error", failed).on("close", hungUp);
    connection.write(proof.question());
  });
}

function isOwnSocket(path: string): boolean {
  return isOwnDirectory(dirname(path)) && (orNothing(() => statSync(path).isSocket() && isOwn(statSync(path))) ?? false);
}

function isOwnDirectory(path: string): boolean {
  return orNothing(() => statSync(path).isDirectory() && isOwn(statSync(path))) ?? false;
}

function isOwn(found: Stats): boolean {
  return found.uid === process.geteuid!();
}

function isPrivate(found: Stats): boolean {
  return isOwn(found) && (found.mode & 0o022) === 0;
}

function orNothing<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}
