// Where the daemon of this user listens, however the user has logged in. docs/daemon.md has the
// order. The command and the other clients keep to the same one.
import { closeSync, constants, fstatSync, openSync, readFileSync, readlinkSync, readSync, statSync, type Stats } from "node:fs";
import { connect as dial, type Socket } from "node:net";
import { hostname, userInfo } from "node:os";
import { dirname, isAbsolute, join } from "node:path";
import { TurnstoneError } from "./error.ts";
import { Proof } from "./proof.ts";

const maxPath = 107; // of a Unix socket, in bytes; the system's own bound may be lower
const maxNote = 4 << 10; // of the daemon's note, in bytes
const askTime = 2_000; // how long a socket has to answer, in milliseconds
const maxAnswer = 16 << 10; // of that, in bytes
const bootLength = 8; // how much of the boot's name is in that of the note

/** Where the daemon of this user listens, or where one would. On Windows TURNSTONE_SOCKET must name its pipe. */
export async function defaultSocket(): Promise<string> {
  const named = process.env["TURNSTONE_SOCKET"];
  if (named) return named;
  if (process.platform === "win32") throw new TurnstoneError("unreachable", "on Windows, TURNSTONE_SOCKET must name the pipe of the daemon, which repl daemon status prints");
  const usual = [...loginSockets(), ...ownSockets()];
  const noted = notes();
  for (const path of new Set([...noted.map((note) => note.socket), ...usual])) if (await answers(path)) return path;
  return noted.find((note) => note.sure)?.socket ?? usual[0]!;
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
  const host = hostName(), state = stateDirectory();
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
    // It is another user's, after su or sudo. An account without a name has no other.
    home = orNothing(() => userInfo().homedir) ?? home;
  }
  return isAbsolute(home) ? join(home, ".local", "state", "turnstone") : undefined;
}

/** This host, this boot of it and its namespace of processes; only Linux has them. */
function hostName(): string | undefined {
  return orNothing(() => {
    const boot = readFileSync("/proc/sys/kernel/random/boot_id", "latin1").slice(0, bootLength);
    const space = readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
    return `${hostname().slice(0, 64).replace(/[^A-Za-z0-9.]/g, "_")}-${boot}-${space}`;
  });
}

/** The sockets that a daemon of this user which lives has noted, and of each whether no session can have. */
function notes(): { socket: string; sure: boolean }[] {
  const host = hostName(), state = stateDirectory();
  if (!host) return [];
  return [state, dirname(ownSockets()[0]!)].flatMap((directory) => {
    const socket = directory && orNothing(() => noteAt(directory, `daemon-${host}.json`));
    return socket ? [{ socket, sure: directory === state }] : [];
  });
}

function noteAt(directory: string, name: string): string | undefined {
  const found = statSync(directory);
  if (!found.isDirectory() || !isPrivate(found)) return undefined;
  // A pipe in its place would be waited for.
  const fd = openSync(join(directory, name), constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const file = fstatSync(fd);
    if (!file.isFile() || !isPrivate(file)) return undefined;
    const text = Buffer.alloc(maxNote);
    const note = JSON.parse(text.toString("utf8", 0, readSync(fd, text, 0, maxNote, 0)));
    return startTicks(note.pid) === note.start_ticks && typeof note.socket === "string" && isAbsolute(note.socket) ? note.socket : undefined;
  } finally {
    closeSync(fd);
  }
}

/** When a live process of this user started, in clock ticks since the boot. */
function startTicks(pid: number): number | undefined {
  const directory = `/proc/${Number(pid)}`;
  const stat = readFileSync(`${directory}/stat`, "latin1");
  const fields = stat.slice(stat.lastIndexOf(")") + 1).trim().split(" "); // the state is field 3, and this field 22
  return isOwn(statSync(directory)) && fields[0] !== "Z" ? Number(fields[19]) : undefined;
}

/** Whether a daemon of this user listens at a socket: a killed one leaves its own behind. */
async function answers(path: string): Promise<boolean> {
  if (!isOwnSocket(path)) return false;
  const asked = dial(path);
  try {
    return (await faultOf(path, asked, askTime)) === "";
  } finally {
    asked.destroy();
  }
}

/**
 * Why the program at the other end of a new connection is not known to be a daemon of this user, or "".
 * Nothing else is sent before. The owner of a pipe of Windows cannot be asked for here.
 */
export async function faultOf(path: string, connection: Socket, time: number): Promise<string> {
  if (process.platform === "win32") return "";
  const proof = new Proof(path, stateDirectory());
  const parts: Buffer[] = [];
  return new Promise((resolve) => {
    const told = (fault: string): void => {
      clearTimeout(timer);
      connection.off("data", read).off("error", failed).off("close", hungUp);
      resolve(fault);
    };
    const timer = setTimeout(() => told("it does not answer"), time);
    const failed = (error: Error): void => told(error.message);
    const hungUp = (): void => told("it has hung up");
    const read = (bytes: Buffer): void => {
      parts.push(bytes);
      const line = Buffer.concat(parts);
      if (!line.includes(10) && line.length < maxAnswer) return;
      const answer = orNothing(() => JSON.parse(line.toString())); // what is behind the line makes no sense
      told(proof.fault(answer));
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
