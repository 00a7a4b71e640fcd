// Makes the package of a release, in a new directory for npm publish:
//
//     npm install && node pack.mjs v1.2.3 DIRECTORY
//
// The version is that of the tag. The program is an optional dependency of the same version, so that one
// npm install is enough.
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [tag, out] = process.argv.slice(2);
if (!/^v\d+\.\d+\.\d+(-rc\.\d+)?$/.test(tag ?? "") || !out) {
  console.error("usage: node pack.mjs v1.2.3 DIRECTORY");
  process.exit(2);
}
const here = dirname(fileURLToPath(import.meta.url));
const compiler = process.env.TURNSTONE_TSC ?? createRequire(import.meta.url).resolve("typescript/bin/tsc");
mkdirSync(out); // which must not exist yet
execFileSync(process.execPath, [compiler, "--project", here, "--outDir", join(out, "dist")], { stdio: "inherit" });
const version = tag.slice(1);
const { scripts, devDependencies, ...about } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));
writeFileSync(join(out, "package.json"), JSON.stringify({ ...about, version, optionalDependencies: { "turnstone-repl": version } }, null, 2) + "\n");
cpSync(join(here, "README.md"), join(out, "README.md"));
cpSync(join(here, "..", "..", "LICENSE"), join(out, "LICENSE"));
