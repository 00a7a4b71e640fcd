// The check whether the program at a socket is the daemon of this user. A sandboxed session runs as the same
// user, so the owner of a socket says little. A daemon proves that it has the user's key, which a
// sandboxed session cannot read. docs/daemon-protocol.md has the rules.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readlinkSync, readSync, realpathSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";

const keyName = "daemon.key";
const keyBytes = 32;

/** The challenge for one new connection to a socket, and the check of its answer. */
export class Proof {
  private readonly address: string;
  private readonly state: string | undefined;
  private readonly nonce = randomBytes(24).toString("base64url");

  constructor(path: string, state: string | undefined) {
    const whole = resolve(path);
    this.address = whole;
    this.state = state;
    try {
      this.address = join(realpathSync(dirname(whole)), basename(whole));
    } catch {} // the directory does not exist, so no daemon listens there
  }

  /** Returns the line to send. */
  question(): string {
    return JSON.stringify({ type: "prove", nonce: this.nonce }) + "\n";
  }

  /** Returns why an answer is not a valid proof, or "". */
  fault(answer: any): string {
    if (answer?.ok === false) return `it answers ${JSON.stringify(String(answer.error ?? "").slice(0, 200))}`;
    const { mac, address, client } = answer?.data ?? {};
    if (typeof mac !== "string" || typeof address !== "string" || typeof client !== "string") return "its answer is not a proof";
    let key: Buffer;
    try {
      key = readKey([...(this.state ? [this.state] : []), `/tmp/turnstone-${process.geteuid!()}`]);
    } catch (error) {
      return (error as Error).message;
    }
    const wanted = Buffer.from(createHmac("sha256", key).update(["turnstone daemon 1", this.nonce, client, address].join("\n")).digest("hex"));
    const given = Buffer.from(mac);
    if (given.length !== wanted.length || !timingSafeEqual(given, wanted)) return "it does not have your key; if it is yours, it has another XDG_STATE_HOME than this program";
    if (address !== this.address) return `it is your daemon at ${address}, which is another address`;
    if (client !== ownName()) return "your daemon sees a different process than this one: a program in between forwarded the challenge, or this is a container whose processes the daemon cannot see";
    return "";
  }
}

/** Returns the ID of this process and of its PID namespace, which only Linux has. */
function ownName(): string {
  let space = "";
  try {
    space = readlinkSync("/proc/self/ns/pid").replace(/\D/g, "");
  } catch {}
  return `${process.pid}@${space}`;
}

/** Returns this user's key. An error says why no key can be trusted. */
function readKey(directories: string[]): Buffer {
  for (const directory of directories) {
    const path = join(directory, keyName);
    let fd: number;
    try {
      // Without O_NONBLOCK, opening a named pipe of that name would block.
      fd = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
    } catch (error) {
      if (["ENOENT", "ENOTDIR", "EACCES"].includes((error as NodeJS.ErrnoException).code ?? "")) continue;
      throw new Error(`${path} cannot be used as the key: ${(error as Error).message}`);
    }
    try {
      const found = fstatSync(fd), above = statSync(directory);
      const own = process.geteuid!();
      if (!found.isFile() || found.uid !== own || found.mode & 0o077) throw new Error(`${path} is not a regular file that only you can read; remove it`);
      if (above.uid !== own || above.mode & 0o022) throw new Error(`other users can write to ${directory}; run chmod go-w on it`);
      const text = Buffer.alloc(4 * keyBytes);
      const hex = text.toString("latin1", 0, readSync(fd, text, 0, text.length, 0)).trim();
      const key = Buffer.from(hex, "hex");
      if (key.length !== keyBytes || hex.length !== 2 * keyBytes) throw new Error(`${path} does not contain a key; remove it`);
      return key;
    } finally {
      closeSync(fd);
    }
  }
  throw new Error(`there is no ${keyName} in ${directories.join(" or ")}; your daemon creates it, unless it has another XDG_STATE_HOME`);
}
