// Python under node: `node run.mjs PYODIDE ARCHIVE PROGRAM`, as a page of the site starts it.
import fs from "node:fs";
import { pathToFileURL } from "node:url";

const [pyodide, archive, program] = process.argv.slice(2);
const say = (text) => fs.writeSync(1, `${text}\n`);
const { loadPyodide } = await import(pathToFileURL(`${pyodide}/pyodide.mjs`).href);
const quiet = { messageCallback: () => {} };
const python = await loadPyodide({
  indexURL: `${pyodide}/`, stdout: say, stderr: say, env: { HOME: "/home/pyodide", MPLBACKEND: "Agg" },
});
await python.loadPackage("numpy", quiet);
python.unpackArchive(new Uint8Array(fs.readFileSync(archive)), "zip");
const code = fs.readFileSync(program, "utf8");
try {
  await python.loadPackagesFromImports(code, quiet);
  python.runPython(code);
} catch (error) {
  say(String(error.message).slice(-3000));
  process.exit(1);
}
