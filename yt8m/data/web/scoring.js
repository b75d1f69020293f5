// The model in onnxruntime-web, which computes in a thread of its own, and the scores of parts of a video.

import * as ort from "./onnxruntime/onnxruntime-web.js";
import { filmWindows, findCuts } from "./films.js";

export { ort };

const PARTS_AT_ONCE = 64;

// Prepares onnxruntime-web. One thread, because several need headers that not every web server sends.
export async function start() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.proxy = true;
  ort.env.wasm.wasmBinary = await fetched("onnxruntime/onnxruntime-web.wasm");
}

export async function fetched(path) {
  // Asks the server whether the file has changed: one of an earlier export would not fit the others.
  const response = await fetch(path, { cache: "no-cache" });
  if (!response.ok) throw new Error(`${path}: the server answers ${response.status}`);
  return response.arrayBuffer();
}

export class Model {
  // `about` is page.json.
  constructor(about, session) {
    this.about = about;
    this.session = session;
    this.width = about.features.reduce((sum, feature) => sum + feature.size, 0);
  }

  static async load(about) {
    return new Model(about, await ort.InferenceSession.create(await fetched("model.onnx")));
  }

  // The scores of the video and of its parts, for its frames, float32 [T, width]. `windowSeconds` is the length of the
  // windows of a film, of which the best one counts for each class; 0 for a video that was scored as a whole.
  async scores(frames, secondsOfPart) {
    const count = frames.length / this.width, { per_second: perSecond, film } = this.about;
    const [size, longest] = film ?? [0, count];
    const cuts = count > longest ? findCuts(frames, this.about.features.map((feature) => feature.size)) : [];
    const whole = count > longest ? await this.bestOf(frames, filmWindows(count, size, cuts)) : await this.meansOf(frames, count);
    const windowSeconds = count > longest ? size / perSecond : 0;
    const spans = this.partsOf(count, secondsOfPart);
    const overTime = { starts: spans.map(([first]) => first / perSecond), scores: [] };
    if (spans.length > 1) overTime.scores = await this.scoresOf(frames, spans);
    return { whole, windowSeconds, overTime };
  }

  // The scores of a video as a whole. One that is longer than the records of the training may be is scored in parts of
  // their length; its scores are the means of theirs, weighted by their frames.
  async meansOf(frames, count) {
    const windows = parts(count, this.about.window), ofWindows = await this.scoresOf(frames, windows);
    return ofWindows[0].map((_, index) =>
      windows.reduce((sum, [first, last], row) => sum + ofWindows[row][index] * (last - first), 0) / count);
  }

  // The score of each class in its best window. Only the scores of a few windows are kept at a time.
  async bestOf(frames, windows) {
    let best = null;
    for (let first = 0; first < windows.length; first += PARTS_AT_ONCE) {
      for (const scores of await this.scoresOf(frames, windows.slice(first, first + PARTS_AT_ONCE))) {
        best = best ? best.map((score, index) => Math.max(score, scores[index])) : scores;
      }
    }
    return best;
  }

  // The parts of the timeline of `count` frames.
  partsOf(count, seconds) {
    return withLongEnd(parts(count, Math.max(1, Math.round(seconds * this.about.per_second))));
  }

  // A Float32Array of scores for each part [first frame, frame after the last one].
  async scoresOf(frames, spans) {
    const rows = [];
    for (let first = 0; first < spans.length; first += PARTS_AT_ONCE) {
      const some = spans.slice(first, first + PARTS_AT_ONCE), lengths = some.map(([from, to]) => to - from);
      const longest = Math.max(...lengths), values = new Float32Array(some.length * longest * this.width);
      some.forEach(([from, to], row) =>
        values.set(frames.subarray(from * this.width, to * this.width), row * longest * this.width));
      const { scores } = await this.session.run({
        frames: new ort.Tensor("float32", values, [some.length, longest, this.width]),
        num_frames: new ort.Tensor("int32", Int32Array.from(lengths), [some.length]),
      });
      const classes = scores.dims[1];
      some.forEach((_, row) => rows.push(scores.data.slice(row * classes, (row + 1) * classes)));
    }
    return rows;
  }
}

// `count` frames in parts of `size`; the last one may be shorter.
function parts(count, size) {
  return Array.from({ length: Math.ceil(count / size) }, (_, part) => [part * size, Math.min((part + 1) * size, count)]);
}

// The parts, the last one joined to the one before it if it has less than half its length.
function withLongEnd(spans) {
  const [first, last] = [spans[0], spans.at(-1)];
  if (spans.length < 2 || 2 * (last[1] - last[0]) >= first[1]) return spans;
  return [...spans.slice(0, -2), [spans.at(-2)[0], last[1]]];
}
