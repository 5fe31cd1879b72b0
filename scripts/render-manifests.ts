/**
 * Writes deploy/kubernetes/carillon.yaml: the chart with deploy/kubernetes/values.yaml, for people who
 * install without Helm. A test compares it with a fresh rendering.
 */
import { writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { clientProgram } from "../test/kubernetes/binaries.ts";
import { run } from "../test/kubernetes/run.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const HEADER =
  "# Rendered from charts/carillon with deploy/kubernetes/values.yaml; do not edit:\n# node scripts/render-manifests.ts\n";

/** The file's whole text. Holds no Secret: values.yaml names existing ones. */
export async function renderManifests(
  helm: (args: readonly string[]) => Promise<string>,
): Promise<string> {
  const args = ["template", "carillon", `${ROOT}charts/carillon`, "--namespace", "carillon"];
  const text = await helm([...args, "--values", `${ROOT}deploy/kubernetes/values.yaml`]);
  // Helm's label would be a lie, and tools that look for Helm's releases would believe it.
  return (
    HEADER +
    text.replaceAll("app.kubernetes.io/managed-by: Helm", "app.kubernetes.io/managed-by: kubectl")
  );
}

if (import.meta.main) {
  const program = await clientProgram("helm", (line) => process.stderr.write(`${line}\n`));
  if (program === undefined) throw new Error("helm is not on the PATH, and Go cannot build it");
  const file = `${ROOT}deploy/kubernetes/carillon.yaml`;
  await writeFile(file, await renderManifests((args) => run(program, args)));
  console.log(`wrote ${file}`);
}
