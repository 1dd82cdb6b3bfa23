// Measures one network for `benchmarks.wasm`: node wasm_node.mjs FOLDER ORT_FOLDER ROUNDS. Writes JSON.
import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";

const ARRAYS = { float32: Float32Array, int64: BigInt64Array, int32: Int32Array };
const WARMUP = 3;
const [folder, peer, rounds] = process.argv.slice(2);

async function numbers(file, Kind) {
  const bytes = await readFile(`${folder}/${file}`);
  return new Kind(bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length));
}

const { load } = await import(pathToFileURL(`${folder}/net.js`));
const ort = await import(pathToFileURL(`${peer}/dist/ort.wasm.min.mjs`));
ort.env.wasm.numThreads = 1;

const begin = performance.now();
const net = await load();
const loaded = performance.now() - begin;
const session = await ort.InferenceSession.create(await readFile(`${folder}/net.onnx`), { graphOptimizationLevel: "all" });
const inputs = {}, feeds = {};
for (const { name, dtype, shape } of net.inputs) {
  inputs[name] = await numbers(`input.${name}`, ARRAYS[dtype]);
  feeds[name] = new ort.Tensor(dtype, inputs[name], shape);
}
const candidates = { ours: async () => net.run(inputs), peer: () => session.run(feeds) };
for (let k = 0; k < WARMUP; k++) for (const run of Object.values(candidates)) await run();
const times = { ours: [], peer: [] };
for (let k = 0; k < rounds; k++) {
  for (const [who, run] of Object.entries(candidates)) {
    const start = performance.now();
    await run();
    times[who].push(performance.now() - start);
  }
}

// The bits of our outputs beside those of the native kernels, and the largest difference to the peer's.
const ours = net.run(inputs), theirs = Object.values(await session.run(feeds));
let different = 0, apart = 0, largest = 0;
for (const [k, [name, { data }]] of Object.entries(ours).entries()) {
  const expected = await numbers(`output.${name}`, data.constructor);
  data.forEach((value, i) => {
    if (!Object.is(value, expected[i])) different++;
    if (typeof value === "number") {
      apart = Math.max(apart, Math.abs(value - theirs[k].data[i]));
      largest = Math.max(largest, Math.abs(value));
    }
  });
}
const median = (xs) => xs.sort((a, b) => a - b)[xs.length >> 1] / 1e3;
process.stdout.write(JSON.stringify({
  ours: median(times.ours), peer: median(times.peer), load: loaded / 1e3, different, apart: apart / largest,
}));
process.exit(0);
