// Runs networks for the tests: each line of input names a folder and its inputs, each line of output has the results.
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const nets = new Map();
const bytes = (data) => Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64");

async function net(folder, relaxed) {
  const key = `${folder} ${relaxed}`;
  if (!nets.has(key)) {
    const { load } = await import(pathToFileURL(`${folder}/net.js`));
    nets.set(key, await load(undefined, { relaxed }));
  }
  return nets.get(key);
}

function value({ kind, base64, shape, number }) {
  if (kind === undefined) return number;
  const buffer = Uint8Array.from(Buffer.from(base64, "base64")).buffer;
  return { data: new globalThis[kind](buffer), shape };
}

for await (const line of createInterface({ input: process.stdin })) {
  const { folder, inputs, drop, relaxed } = JSON.parse(line);
  let answer;
  try {
    const values = Object.fromEntries(Object.entries(inputs).map(([name, item]) => [name, value(item)]));
    const outputs = (await net(folder, relaxed)).run(values);
    answer = { outputs: Object.entries(outputs).map(([name, { data, shape }]) => ({ name, shape, base64: bytes(data) })) };
  } catch (error) {
    answer = { error: error.message, kind: error.name };
  }
  if (drop) nets.delete(`${folder} ${relaxed}`);
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
