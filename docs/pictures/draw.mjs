// Each *.d2 of this folder as *.svg: `make pictures`. Light or dark is the reader's system's choice.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { D2 } from "@terrastruct/d2";

const folder = new URL(".", import.meta.url);
const d2 = new D2();
for (const name of readdirSync(folder).filter((name) => name.endsWith(".d2"))) {
  const text = readFileSync(new URL(name, folder));
  const { diagram, renderOptions } = await d2.compile(text.toString(), { layout: "dagre", themeID: 0, darkThemeID: 200, pad: 8 });
  const svg = await d2.render(diagram, { ...renderOptions, noXMLTag: true });
  const digest = createHash("sha256").update(text).digest("hex");
  writeFileSync(new URL(name.replace(/d2$/, "svg"), folder), `${svg.trimEnd()}\n<!-- ${name} ${digest} -->\n`);
}
process.exit(0); // its worker would wait for more
