// The features of a video file: the browser decodes it, and networks of pictures compute them.

import { WrongFile } from "./arrays.js";
import { dequantized } from "./features.js";
import { square } from "./scaling.js";
import { fetched, ort } from "./scoring.js";

const AT_ONCE = 8; // pictures that a network gets, if it takes any number
const SIDE = 96; // the shorter side of a thumbnail, in pixels
const FRAME = 1 / 30; // seconds of the last frame, roughly: the browser does not say the frame rate
const ROUNDING = 0.005; // seconds by which half a row may be too short, because containers round times
const AFTER = 0.001; // seconds that are added to a time, so that a frame that begins just then is shown

// A network of page.json.
export class Network {
  constructor(facts, session) {
    Object.assign(this, facts);
    this.session = session;
  }

  static async load(facts) {
    return new Network(facts, await ort.InferenceSession.create(await fetched(facts.file)));
  }

  // The features of pictures (bytes RGB of squares), a Float32Array for each.
  async featuresOf(pictures) {
    const batch = this.batch || pictures.length, rows = [];
    for (let first = 0; first < pictures.length; first += batch) {
      const some = pictures.slice(first, first + batch), filled = [...some];
      while (filled.length < batch) filled.push(some[0]);
      const { [this.output]: found } = await this.session.run({ [this.input]: this.tensor(filled) });
      some.forEach((_, row) => rows.push(this.stored(this.pooled(found, row))));
    }
    return rows;
  }

  tensor(pictures) {
    const [size, pixels] = [this.picture_size, this.picture_size ** 2], values = new (this.is_bytes ? Uint8Array : Float32Array)(pictures.length * pixels * 3);
    const scale = this.deviation.map((one) => 255 * one), shift = this.mean.map((one, colour) => one / this.deviation[colour]);
    const [toPixel, toColour] = this.colours_first ? [1, pixels] : [3, 1];
    pictures.forEach((picture, index) => {
      for (let place = 0; place < pixels * 3; place++) {
        const colour = place % 3, to = index * pixels * 3 + ((place - colour) / 3) * toPixel + colour * toColour;
        values[to] = this.is_bytes ? picture[place] : picture[place] / scale[colour] - shift[colour];
      }
    });
    const shape = this.colours_first ? [pictures.length, 3, size, size] : [pictures.length, size, size, 3];
    return new ort.Tensor(this.is_bytes ? "uint8" : "float32", values, shape);
  }

  // One vector of an output [N, size], [N, patches, size] or [N, size, 1, 1].
  pooled({ dims, data }, row) {
    const count = data.length / dims[0], own = data.slice(row * count, (row + 1) * count);
    if (dims.length !== 3) return own;
    const [, patches, size] = dims;
    if (this.pooling === "first") return own.slice(0, size);
    return own.slice(0, size).map((_, place) => {
      let sum = 0;
      for (let patch = 0; patch < patches; patch++) sum += own[patch * size + place];
      return sum / patches;
    });
  }

  // The values as records give them back: those that are stored as bytes are rounded and clipped.
  stored(values) {
    if (!this.range) return values;
    const [low, high] = this.range, valueOf = dequantized(this.range);
    return values.map((value) => {
      const byte = Math.round((value - low - (high - low) / 512) * (255 / (high - low)));
      return valueOf(Math.min(Math.max(byte, 0), 255));
    });
  }
}

// The greatest common divisor.
function divisor(first, second) {
  return second ? divisor(second, first % second) : first;
}

// A video file in the browser's own player, which is not shown.
class Video {
  constructor(file) {
    this.name = file.name;
    this.player = document.createElement("video");
    this.player.muted = this.player.playsInline = true;
    this.player.preload = "auto";
    this.canvas = document.createElement("canvas");
    this.context = this.canvas.getContext("2d", { willReadFrequently: true });
    this.address = URL.createObjectURL(file);
  }

  async open() {
    await this.until("loadeddata", () => (this.player.src = this.address));
    const { videoWidth: width, videoHeight: height, duration } = this.player;
    if (!width) throw this.undecodable();
    if (!Number.isFinite(duration)) throw new WrongFile(`${this.name} does not say how long it is: write it again by a video editor or FFmpeg.`);
    [this.canvas.width, this.canvas.height] = [width, height];
  }

  // What was unusual. The player scales pixels that are not square itself; only the frame says how it is stored.
  notes() {
    if (typeof VideoFrame === "undefined") return [];
    const frame = new VideoFrame(this.player, { timestamp: 0 }), { width, height } = frame.visibleRect;
    const [across, down] = [frame.displayWidth * height, frame.displayHeight * width], shared = divisor(across, down);
    frame.close();
    return across === down ? [] : [`non-square pixels (${across / shared}:${down / shared})`];
  }

  // Waits for an event of the player that `begin` leads to.
  until(event, begin) {
    return new Promise((resolve, reject) => {
      this.player.addEventListener(event, resolve, { once: true });
      this.player.onerror = () => reject(this.undecodable());
      begin();
    });
  }

  undecodable() {
    return new WrongFile(`${this.name} has no pictures that this browser can decode: it is damaged, no video, or of another format.\n`
      + "Most browsers decode MP4 with H.264, and WebM.");
  }

  // How many rows a video has. By whole rows, the last one counts if half of it is there; otherwise it is the row that is
  // nearest to the time of the last frame.
  rows(perSecond, countsWhole) {
    const { duration } = this.player;
    if (countsWhole) return Math.max(1, Math.floor((duration + ROUNDING) * perSecond + 0.5));
    return Math.floor(Math.max(0, duration - FRAME) * perSecond + 0.5) + 1;
  }

  // The picture that is shown at a second, {data: RGBA, width, height}.
  async picture(second) {
    const place = Math.min(second + AFTER, this.player.duration);
    await this.until("seeked", () => (this.player.currentTime = place));
    const { width, height } = this.canvas;
    this.context.drawImage(this.player, 0, 0, width, height);
    return this.context.getImageData(0, 0, width, height);
  }

  thumbnail() {
    const made = document.createElement("canvas"), { width, height } = this.canvas;
    const scale = SIDE / Math.min(width, height);
    [made.width, made.height] = [Math.round(scale * width), Math.round(scale * height)];
    made.getContext("2d").drawImage(this.canvas, 0, 0, made.width, made.height);
    made.setAttribute("aria-hidden", "true");
    return made;
  }

  close() {
    this.player.onerror = null;
    this.player.removeAttribute("src");
    this.player.load();
    URL.revokeObjectURL(this.address);
  }
}

// The frames of a video, float32 [T, width], and a thumbnail of each part that `partsOf(T)` gives as [first, last]. It
// calls `tell(share)` on its way, and returns null as soon as that is false. `notes` are texts on what was unusual.
export async function framesOf(file, networks, { per_second: perSecond, counts_whole: countsWhole }, partsOf, tell) {
  const video = new Video(file), rows = [], thumbnails = [];
  try {
    await video.open();
    const notes = video.notes();
    const count = video.rows(perSecond, countsWhole), middles = partsOf(count).map(([first, last]) => Math.floor((first + last) / 2));
    const take = async (waiting) => {
      const found = [];
      for (const [index, network] of networks.entries()) found.push(await network.featuresOf(waiting.map((all) => all[index])));
      waiting.forEach((_, row) => rows.push(found.flatMap((features) => [...features[row]])));
    };
    let waiting = [];
    for (let row = 0; row < count; row++) {
      if (!tell(row / count)) return null;
      const picture = await video.picture(row / perSecond);
      if (middles.includes(row)) thumbnails.push(video.thumbnail());
      waiting.push(networks.map((network) => square(picture, network)));
      if (waiting.length === AT_ONCE || row === count - 1) {
        await take(waiting);
        waiting = [];
      }
    }
    return { frames: Float32Array.from(rows.flat()), thumbnails, notes };
  } finally {
    video.close();
  }
}
