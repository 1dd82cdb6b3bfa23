// Runs a network that minitvm compiled to WebAssembly. The files net.wasm and net.weights.bin belong to it, and
// net.plain.wasm, for engines without relaxed SIMD.
//
//     import { load } from "./net.js";
//     const net = await load();                              // or load("folder of the files/", { progress })
//     const { scores } = net.run({ image: pixels });         // pixels is a Float32Array
//     scores.data, scores.shape
//
// net.inputs and net.outputs are lists of { name, dtype, shape }; a null in a shape is a size that your inputs decide.
// For such an input, pass { data, shape }. A float16 or bfloat16 is the Uint16Array of its bits.

/** @typedef {{ name: string, dtype: string, shape: (number | null)[] }} Tensor */
/** @typedef {{ data: any, shape: number[] }} Value */

const NET = {};

const ARRAYS = {
  bool: Uint8Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
  uint32: Uint32Array, int64: BigInt64Array, uint64: BigUint64Array, float16: Uint16Array, bfloat16: Uint16Array,
  float32: Float32Array, float64: Float64Array,
};
const PAGE = 65536; // bytes of a page of memory
const MOST_BYTES = 65536 * PAGE;
const ALIGNMENT = 64;
const FIRST_FIGURE = 2; // in the table of figures; before it are two numbers for an error

/** An error of the caller: an input of the wrong shape or dtype, or a size that the network does not accept. */
export class NetError extends Error {
  constructor(text) {
    super(`${NET.name}: ${text}`);
    this.name = "NetError";
  }
}

const aligned = (bytes, to = ALIGNMENT) => Math.ceil(bytes / to) * to;
const product = (shape) => shape.reduce((a, b) => a * b, 1);
const dimText = (dim) => (typeof dim === "string" ? `"${dim}"` : dim ?? "?");
const shapeText = (shape) => `(${shape.map(dimText).join(", ")}${shape.length === 1 ? "," : ""})`;
// The name of a typed array's kind is the same in all frames of a page, whereas its class is not.
const kindOf = (value) => (ArrayBuffer.isView(value) ? value[Symbol.toStringTag] : value?.constructor?.name ?? typeof value);
// A module with one instruction of relaxed SIMD (GoogleChromeLabs/wasm-feature-detect).
const RELAXED = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253,
  15, 65, 2, 253, 15, 253, 128, 2, 11);
const isNode = typeof process !== "undefined" && Boolean(process.versions?.node);

async function response(url) {
  if (url.protocol === "file:" && isNode) {
    const { readFile } = await import("node:fs/promises");
    return new Response(await readFile(url));
  }
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${answer.status} ${answer.statusText}`);
  return answer;
}

/** The result of `action`, which reads a file: if it fails, an error that names the file. */
async function reading(url, action) {
  try {
    return await action();
  } catch (error) {
    const why = error.code === "ENOENT" ? "there is no such file" : error.cause?.message || error.message;
    throw new NetError(`cannot read ${url}: ${why}`);
  }
}

/** The URL of the folder: a page completes a relative one from its own URL, node from the current directory. */
async function folderOf(url) {
  let base = import.meta.url;
  if (typeof location !== "undefined") base = location.href;
  else if (isNode) base = (await import("node:url")).pathToFileURL(`${process.cwd()}/`);
  let folder;
  try {
    folder = new URL(url, base);
  } catch {
    throw new NetError(`"${url}" is no URL of a folder`);
  }
  if (!folder.pathname.endsWith("/")) folder.pathname += "/";
  return folder;
}

/** Read the weights into memory as they arrive. */
async function stream(url, target, progress) {
  const reader = await reading(url, async () => (await response(url)).body.getReader());
  let received = 0;
  for (;;) {
    const { done, value } = await reading(url, () => reader.read());
    if (done) break;
    if (received + value.length > target.length) received = target.length + 1;
    if (received > target.length) break;
    target.set(value, received);
    received += value.length;
    progress?.(received, target.length);
  }
  if (received !== target.length) {
    throw new NetError(`${url.pathname} has ${received > target.length ? "more than" : received} bytes, wanted ${target.length}`);
  }
}

/**
 * Load the network. `url` is the folder of its files, by default that of this file. A relative URL begins at the page,
 * or at node's current directory. `progress(received, total)` is called while the weights arrive, with numbers of
 * bytes. `relaxed` is whether to use relaxed SIMD, by default if the engine has it.
 * @param {string | URL} [url]
 * @param {{ progress?: (received: number, total: number) => void, relaxed?: boolean }} [options]
 */
export async function load(url = new URL("./", import.meta.url), { progress, relaxed = WebAssembly.validate(RELAXED) } = {}) {
  const module = NET.modules[relaxed ? 0 : 1];
  if (module === undefined) throw new NetError("there is no code for engines without relaxed SIMD");
  const folder = await folderOf(url);
  const file = new URL(module.code, folder);
  const code = await reading(file, async () => (await response(file)).arrayBuffer());
  const net = await Net.create(code, module);
  if (net.weights.length) await stream(new URL(NET.weights, folder), net.weights, progress);
  net.reset();
  return net;
}

class Net {
  name = NET.name;
  /** @type {Tensor[]} */ inputs = NET.inputs.map(({ name, dtype, shape }) => ({
    name, dtype, shape: (shape ?? []).map((dim) => (typeof dim === "number" ? dim : null)),
  }));
  /** @type {Tensor[]} */ outputs = NET.outputs.map(({ name, dtype, shape }) => ({ name, dtype, shape }));
  #memory; #exports; #end; #places; #sizes; #figures; #plans = new Map();

  /** Compile and instantiate the module, and lay out the memory that does not depend on sizes. */
  static async create(code, { code: file, dataBytes, stackBytes }) {
    const net = new Net();
    const counts = NET.inputs.length + NET.outputs.length + NET.states.length;
    const words = {
      places: counts + NET.constants.length + NET.arenas.length,
      sizes: NET.sizes.length,
      figures: FIRST_FIGURE + NET.figures,
    };
    const stack = aligned(dataBytes);
    let end = aligned(stack + stackBytes);
    const top = end;
    const starts = {};
    for (const name of ["places", "sizes", "figures"]) {
      starts[name] = end;
      end = aligned(end + 8 * words[name]);
    }
    const states = NET.states.map((spec) => {
      const start = end;
      end = aligned(end + product(spec.shape) * ARRAYS[spec.dtype].BYTES_PER_ELEMENT);
      return start;
    });
    const weights = end;
    const constants = NET.constants.map(([offset]) => weights + offset);
    const total = NET.constants.length ? aligned(NET.constants.at(-1)[0] + NET.constants.at(-1)[1]) : 0;
    end += total;
    try {
      net.#memory = new WebAssembly.Memory({ initial: Math.ceil(end / PAGE), maximum: MOST_BYTES / PAGE });
    } catch {
      throw new NetError(`the engine has no memory for this network: ${end} bytes`);
    }
    const host = { fmod: (a, b) => a % b, fmodf: (a, b) => a % b };
    const pointer = new WebAssembly.Global({ value: "i32", mutable: true }, top);
    const imports = { env: { ...host, __linear_memory: net.#memory, __stack_pointer: pointer } };
    try {
      net.#exports = (await WebAssembly.instantiate(code, imports)).instance.exports;
    } catch (error) {
      throw new NetError(`this engine does not load ${file}: ${error.message}`);
    }
    net.#end = end;
    net.#places = starts.places;
    net.#sizes = starts.sizes;
    net.#figures = starts.figures;
    const places = net.#words(starts.places, words.places);
    const first = NET.inputs.length + NET.outputs.length;
    [...states, ...constants].forEach((place, k) => { places[first + k] = BigInt(place); });
    net.#weightsAt = [weights, total];
    net.#statesAt = states;
    return net;
  }
  #weightsAt; #statesAt;

  #words(start, count) {
    return new BigInt64Array(this.#memory.buffer, start, count);
  }

  #view(spec, start, shape) {
    return new ARRAYS[spec.dtype](this.#memory.buffer, start, product(shape));
  }

  /** The bytes of all weights, in the memory of the module. */
  get weights() {
    return new Uint8Array(this.#memory.buffer, ...this.#weightsAt);
  }

  /** Give all states, such as the caches of a language model, the values that they have before the first run. */
  reset() {
    NET.states.forEach(({ dtype, shape, first }, k) => {
      const state = new Uint8Array(this.#memory.buffer, this.#statesAt[k], product(shape) * ARRAYS[dtype].BYTES_PER_ELEMENT);
      state.fill(0);
      if (first !== undefined) {
        const [offset, bytes] = NET.constants[first];
        state.set(this.weights.subarray(offset, offset + bytes));
      }
    });
  }

  /**
   * Run the network once. Returns an object of { data, shape } by the names of outputs; the arrays are copies.
   * @param {Record<string, any>} inputs typed arrays or { data, shape }, by name; numbers for scalars
   * @returns {Record<string, Value>}
   */
  run(inputs = {}) {
    if (inputs === null || typeof inputs !== "object" || Array.isArray(inputs) || ArrayBuffer.isView(inputs)) {
      throw new NetError(`run takes an object with an array for each input, found ${kindOf(inputs)}`);
    }
    const values = this.#checked(inputs);
    const plan = this.#plan(values);
    values.forEach((value, k) => {
      if (!value.isScalar) this.#view(value.spec, plan.inputs[k], value.shape).set(value.data);
    });
    this.#requireBounds(plan, values);
    NET.outputs.forEach((spec, k) => {
      if (spec.inout) this.#view(spec, plan.outputs[k], spec.shape).set(this.#typed(spec, inputs[spec.name]));
    });
    this.#require(this.#exports.run(this.#places, this.#sizes, this.#figures));
    return this.#results(plan);
  }

  /** The caller's inputs with their shapes; the sizes that follow from them are written into the table of sizes. */
  #checked(inputs) {
    const known = [...NET.inputs, ...NET.outputs.filter((spec) => spec.inout)].map((spec) => spec.name);
    for (const name of Object.keys(inputs)) {
      if (!known.includes(name)) throw new NetError(`there is no input ${name}\n  inputs: ${known.join(", ")}`);
    }
    const sizes = this.#words(this.#sizes, NET.sizes.length);
    const values = NET.inputs.map((spec) => {
      const value = inputs[spec.name];
      if (value === undefined || value === null) throw new NetError(`input ${spec.text} is missing`);
      return "scalar" in spec ? this.#scalar(spec, value) : this.#tensor(spec, value);
    });
    const bound = new Set(values.filter((value) => value.isScalar).map((value) => value.spec.scalar));
    for (const isFactor of [false, true]) {
      for (const { spec, shape } of values.filter((value) => !value.isScalar)) {
        spec.shape.forEach((dim, axis) => {
          if (!Array.isArray(dim) || bound.has(dim[0]) || (dim[1] > 1) !== isFactor) return;
          bound.add(dim[0]);
          sizes[dim[0]] = BigInt(Math.floor(shape[axis] / dim[1]));
        });
      }
    }
    return values;
  }

  #scalar(spec, value) {
    if (typeof value !== "number" && typeof value !== "bigint" && typeof value !== "boolean") {
      throw new NetError(`input ${spec.text} is a number, found ${kindOf(value)}`);
    }
    const word = new DataView(this.#memory.buffer, this.#sizes + 8 * spec.scalar, 8);
    if (spec.dtype.includes("float")) word.setFloat64(0, Number(value), true);
    else if (Number.isInteger(Number(value))) word.setBigInt64(0, BigInt.asIntN(64, BigInt(value)), true);
    else throw new NetError(`input ${spec.text} is a whole number, found ${value}`);
    return { spec, isScalar: true };
  }

  #typed(spec, value) {
    const data = ArrayBuffer.isView(value) ? value : value?.data ?? value;
    if (data === undefined || data === null) throw new NetError(`input ${spec.name} is missing`);
    const wanted = ARRAYS[spec.dtype].name;
    const isBytes = spec.dtype === "uint8" && kindOf(data) === "Uint8ClampedArray";
    if (!ArrayBuffer.isView(data) || (kindOf(data) !== wanted && !isBytes)) {
      throw new NetError(`input ${spec.text ?? spec.name}: wanted a ${wanted}, found ${kindOf(data)}`);
    }
    return data;
  }

  #tensor(spec, value) {
    const data = this.#typed(spec, value);
    const fixed = spec.shape.every((dim) => typeof dim === "number");
    const shape = value.shape ?? (fixed ? spec.shape : undefined);
    if (shape === undefined) throw new NetError(`input ${spec.text} has an open size\n  try: { data, shape }`);
    if (!Array.isArray(shape)) throw new NetError(`input ${spec.text}: wanted a shape that is an array, found ${kindOf(shape)}`);
    const fits = shape.length === spec.shape.length && shape.every((n, k) => Number.isInteger(n) && n >= 0
      && (typeof spec.shape[k] !== "number" || spec.shape[k] === n));
    if (!fits) throw new NetError(`input ${spec.name} has shape ${shapeText(shape)}\n  wanted: ${spec.text}`);
    if (data.length !== product(shape)) {
      throw new NetError(`input ${spec.text} has ${data.length} elements\n  wanted: ${product(shape)}, shape ${shapeText(shape)}`);
    }
    return { spec, data, shape };
  }

  /** Where inputs, outputs and arenas are at these sizes; the addresses are written into the table of places. */
  #plan(values) {
    const sizes = this.#words(this.#sizes, NET.sizes.length);
    const key = sizes.join();
    const known = this.#plans.get(key);
    const shapes = values.map((value) => value.shape ?? []);
    if (known && known.shapes === JSON.stringify(shapes)) {
      this.#point(known);
      return known;
    }
    this.#require(this.#exports.measure(this.#sizes, this.#figures));
    const figures = [...this.#words(this.#figures + 8 * FIRST_FIGURE, NET.figures)].map(Number);
    for (const { spec, shape } of values.filter((value) => !value.isScalar)) {
      const wanted = figures.splice(0, shape.length);
      if (wanted.some((dim, k) => dim !== shape[k])) {
        throw new NetError(`input ${spec.name} has shape ${shapeText(shape)}\n  wanted: ${spec.text}, here ${shapeText(wanted)}`);
      }
    }
    let end = this.#end;
    const room = (bytes, alignment = ALIGNMENT) => {
      const start = aligned(end, Math.max(alignment, ALIGNMENT));
      end = start + Math.max(bytes, 0);
      return start;
    };
    const bytes = (spec) => ARRAYS[spec.dtype].BYTES_PER_ELEMENT;
    const plan = {
      shapes: JSON.stringify(shapes),
      inputs: values.map(({ spec, shape }) => (shape ? room(product(shape) * bytes(spec)) : 0)),
      outputs: figures.splice(0, NET.outputs.length).map((count, k) => room(count * bytes(NET.outputs[k]))),
      arenas: figures.splice(0, NET.arenas.length).map((size, k) => room(size, NET.arenas[k])),
      bounds: NET.bounds.map(() => figures.splice(0, 2)),
    };
    if (end > MOST_BYTES) throw new NetError(`these inputs need ${end} bytes of memory; WebAssembly has ${MOST_BYTES}`);
    const missing = Math.ceil(end / PAGE) - this.#memory.buffer.byteLength / PAGE;
    if (missing > 0) {
      try {
        this.#memory.grow(missing);
      } catch {
        throw new NetError(`the engine has no memory for these inputs: ${end} bytes`);
      }
    }
    if (this.#plans.size > 16) this.#plans.clear();
    this.#plans.set(key, plan);
    this.#point(plan);
    return plan;
  }

  #point({ inputs, outputs, arenas }) {
    const first = inputs.length + outputs.length + NET.states.length + NET.constants.length;
    const places = this.#words(this.#places, first + arenas.length);
    [...inputs, ...outputs].forEach((place, k) => { places[k] = BigInt(place); });
    arenas.forEach((place, k) => { places[first + k] = BigInt(place); });
  }

  #requireBounds(plan, values) {
    NET.bounds.forEach(({ kind, index, name, where }, k) => {
      const [low, high] = plan.bounds[k];
      const spec = kind === "input" ? NET.inputs[index] : NET.states[index];
      const data = kind === "input" ? values[index].data : this.#view(spec, this.#statesAt[index], spec.shape);
      const wrong = data.find((number) => number < low || number > high);
      if (wrong !== undefined) {
        throw new NetError(`${where}: ${name} has the element ${wrong}\n  wanted: ${low} to ${high}`);
      }
    });
  }

  #results(plan) {
    this.#require(this.#exports.shapes(this.#sizes, this.#figures));
    const figures = [...this.#words(this.#figures + 8 * FIRST_FIGURE, NET.figures)].map(Number);
    return Object.fromEntries(NET.outputs.map((spec, k) => {
      const shape = figures.splice(0, spec.shape.length);
      if (shape.some((dim) => dim < 0)) throw new NetError(`${spec.name} would have shape ${shapeText(shape)}, from ${spec.text}`);
      return [spec.name, { data: this.#view(spec, plan.outputs[k], shape).slice(), shape }];
    }));
  }

  #require(code) {
    if (code === 0) return;
    const [found, most] = this.#words(this.#figures, FIRST_FIGURE);
    throw new NetError(NET.errors[code - 1].replaceAll("{found}", found).replaceAll("{most}", most));
  }
}
