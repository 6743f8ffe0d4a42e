// SPDX-License-Identifier: MIT
//
// A language model in node-llama-cpp with its distributed CUDA backend, as an application would use
// it: loads a model with all layers on the GPU, evaluates a prompt, says greedy tokens as they come.
//
//   node client.mjs --npm DIR --model FILE --prompt FILE [--tokens N] [--context N] [--save FILE]
//                   [--verbose]
//
// --npm: the folder with node_modules. --save: the tokens as a line of JSON. Never builds anything, never
// downloads anything, never falls back to another device: without CUDA it ends with status 1.
import fs from "node:fs";
import path from "node:path";
import process from "node:process";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

function fail(text) {
    process.stdout.write("\n");
    console.error(`client: ${text}`);
    process.exit(1);
}

function options() {
    try {
        const {values} = parseArgs({options: {
            npm: {type: "string"},
            model: {type: "string"},
            prompt: {type: "string"},
            tokens: {type: "string", default: "64"},
            context: {type: "string"},
            save: {type: "string"},
            verbose: {type: "boolean", default: false}
        }});

        for (const name of ["npm", "model", "prompt"]) {
            if (values[name] == null)
                fail(`--${name} is needed`);
        }
        return {...values, tokens: Number(values.tokens)};
    } catch (err) {
        return fail(err.message);
    }
}

const o = options();
const say = (text) => console.log(text);
const {getLlama, LlamaLogLevel} =
    await import(pathToFileURL(path.resolve(o.npm, "node_modules/node-llama-cpp/dist/index.js")).href);

// What the log says about devices and where the layers went; errors always.
function onLog(level, message) {
    const error = level === LlamaLogLevel.error || level === LlamaLogLevel.fatal;

    if (o.verbose || error || /Device \d+:|offloaded|CUDA\d+ (model|KV|compute) buffer/.test(message))
        say(`  log: ${message.trim()}`);
}

async function load() {
    try {
        return await getLlama({
            gpu: "cuda", build: "never", usePrebuiltBinaries: true, skipDownload: true,
            logLevel: LlamaLogLevel.debug, logger: onLog, vramPadding: 0
        });
    } catch (err) {
        return fail(`no CUDA: ${err.message}`);
    }
}

const llama = await load();
const devices = await llama.getGpuDeviceNames();
const vram = await llama.getVramState();
if (llama.gpu !== "cuda" || llama.buildType !== "prebuilt" || devices.length === 0)
    fail(`no CUDA device (gpu ${llama.gpu}, build ${llama.buildType}, devices ${devices.length})`);
say(`device: ${devices.join(", ")}, ${Math.floor(vram.free / 2 ** 20)} of ${Math.floor(vram.total / 2 ** 20)} MiB free`);

const model = await llama.loadModel({modelPath: o.model, gpuLayers: "max"})
    .catch((err) => fail(`cannot load ${o.model}: ${err.message}`));
const text = fs.readFileSync(o.prompt, "utf8").trimEnd();
const prompt = [model.tokens.bos, ...model.tokenize(text)];
const context = await model.createContext({
    contextSize: o.context == null ? prompt.length + o.tokens : Number(o.context),
    batchSize: 512, sequences: 1, flashAttention: true
}).catch((err) => fail(`cannot create a context: ${err.message}`));
say(`model: ${path.basename(o.model)}, ${model.fileInsights.totalLayers} layers, ` +
    `${model.gpuLayers} of them on the GPU`);
if (model.gpuLayers < model.fileInsights.totalLayers)
    fail("not all layers are on the GPU");

const tokens = [];
const sequence = context.getSequence();
const start = performance.now();
let first = start;

say(`prompt: ${prompt.length} tokens: ...${text.slice(-60)}`);
try {
    // The text of a token may depend on the one before it (bytes of one letter).
    let said = "";

    for await (const token of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
        if (tokens.length === 0)
            first = performance.now();
        tokens.push(token);
        const all = model.detokenize(tokens, false, prompt.slice(-8));
        if (!all.endsWith("\ufffd") || tokens.length === o.tokens) {
            process.stdout.write(all.slice(said.length));
            said = all;
        }
        if (tokens.length === o.tokens)
            break;
    }
} catch (err) {
    fail(`token ${tokens.length}: ${err.message}`);
}
const end = performance.now();
const rate = (n, ms) => (n / (ms / 1000)).toFixed(1);

say("");
say(`cuda: prompt ${prompt.length} tokens, ${rate(prompt.length, first - start)} tokens/s; ` +
    `decoding ${tokens.length} tokens, ${rate(tokens.length - 1, end - first)} tokens/s`);
if (o.save != null)
    fs.writeFileSync(o.save, JSON.stringify({prompt, tokens}) + "\n");
await context.dispose();
await model.dispose();
await llama.dispose();
