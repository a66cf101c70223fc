// Bundles configurable-http-proxy with all it needs into hub_spawner/chp. It reads its own package.json
// and its error pages from where it stands, so these keep their places; the licences of all that is inside go along.

import { cp, mkdir, readFile, readdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { build } from "esbuild";

const here = import.meta.dirname;
const source = path.join(here, "node_modules", "configurable-http-proxy");
const target = path.join(here, "..", "..", "hub_spawner", "chp");

await rm(target, { recursive: true, force: true });
await mkdir(path.join(target, "bin"), { recursive: true });

const { metafile } = await build({
  absWorkingDir: here,
  entryPoints: [path.join(source, "bin", "configurable-http-proxy")],
  outfile: path.join(target, "bin", "configurable-http-proxy.mjs"),
  bundle: true,
  minify: true,
  platform: "node",
  target: "node20",
  format: "esm",
  metafile: true,
  // what is still CommonJS inside asks for `require`
  banner: { js: 'import { createRequire as bundleRequire } from "node:module"; globalThis.require ??= bundleRequire(import.meta.url);' },
});

const { name, version, license } = JSON.parse(await readFile(path.join(source, "package.json"), "utf8"));
await writeFile(path.join(target, "package.json"), JSON.stringify({ name, version, license, type: "module" }, null, 2) + "\n");
await cp(path.join(source, "lib", "error"), path.join(target, "bin", "error"), { recursive: true });

const packages = new Set(
  Object.keys(metafile.inputs)
    .map((input) => input.match(/^.*node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[0])
    .filter(Boolean),
);
const licences = [];
for (const folder of [...packages].sort()) {
  const { name, version, license } = JSON.parse(await readFile(path.join(here, folder, "package.json"), "utf8"));
  const file = (await readdir(path.join(here, folder))).find((entry) => /^licen[cs]e/i.test(entry));
  const text = file ? await readFile(path.join(here, folder, file), "utf8") : `Licence: ${license}\n`;
  licences.push(`${name} ${version}\n\n${text.trim()}\n`);
}
await writeFile(path.join(target, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
