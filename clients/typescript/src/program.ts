// Finds the program repl.
import { accessSync, constants, statSync } from "node:fs";
import { createRequire } from "node:module";
import { delimiter, isAbsolute, join, resolve } from "node:path";
import { TurnstoneError } from "./error.ts";

const packageName = "turnstone-repl";
const programName = process.platform === "win32" ? "repl.exe" : "repl";

/** Returns the path of the program: the given one, TURNSTONE_REPL, that of the npm package, or the one in PATH. */
export function findProgram(given?: string): string {
  const named = given || process.env["TURNSTONE_REPL"];
  if (named) {
    const path = /[\\/]/.test(named) ? resolve(named) : findInPath(named);
    if (path && isProgram(path)) return path;
    throw new TurnstoneError("unreachable", `${given ? "the option repl" : "TURNSTONE_REPL"} is ${JSON.stringify(named)}, which is not a program`);
  }
  const found = findInPackages() ?? findInPath(programName);
  if (found) return found;
  throw new TurnstoneError("unreachable", `the program repl is missing: npm install ${packageName}, put it into PATH, or name it with the option repl or TURNSTONE_REPL`);
}

/** Returns the program from the npm package for this platform, next to this package or to the caller's program. */
function findInPackages(): string | undefined {
  const wanted = `@${packageName}/${process.platform}-${process.arch}/bin/${programName}`;
  for (const base of [import.meta.url, join(process.cwd(), "package.json")]) {
    const required = createRequire(base);
    const path = located(required, wanted) ?? viaPackage(required, wanted);
    if (path && isProgram(path)) return path;
  }
  return undefined;
}

/** Returns the program as a dependency of the package turnstone-repl: pnpm hides it from others. */
function viaPackage(required: NodeJS.Require, wanted: string): string | undefined {
  const top = located(required, `${packageName}/package.json`);
  return top && located(createRequire(top), wanted);
}

function located(required: NodeJS.Require, path: string): string | undefined {
  try {
    return required.resolve(path);
  } catch {
    return undefined;
  }
}

function findInPath(name: string): string | undefined {
  const names = process.platform === "win32" && !/\.exe$/i.test(name) ? [name + ".exe"] : [name];
  const directories = (process.env["PATH"] ?? process.env["Path"] ?? "").split(delimiter).filter(isAbsolute);
  return directories.flatMap((directory) => names.map((each) => join(directory, each))).find(isProgram);
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
