// The features of one video, in the form in which the model takes them: joined frames, float32 [T, D].

import { WrongFile } from "./arrays.js";

// Features of a file of arrays; `features` are those of the model: name, size, and range of the values that bytes
// stand for. Raises WrongFile if they are not the model's.
export function joined(arrays, features, file) {
  const parts = matched(arrays, features, file);
  const counts = parts.map((part) => (part.shape.length === 2 ? part.shape[0] : 1));
  if (counts.some((count) => count !== counts[0] || count === 0)) {
    throw new WrongFile(`${file}: the features have ${counts.join(" and ")} frames; expected at least one, as many of each.`);
  }
  const width = features.reduce((sum, feature) => sum + feature.size, 0);
  const frames = new Float32Array(counts[0] * width);
  let column = 0;
  for (const [index, { size, range }] of features.entries()) {
    const { values, isBytes, first = 0, stride = size } = parts[index];
    const valueOf = isBytes ? dequantized(range) : (value) => value;
    for (let row = 0; row < counts[0]; row++) {
      for (let place = 0; place < size; place++) {
        frames[row * width + column + place] = valueOf(values[row * stride + first + place]);
      }
    }
    column += size;
  }
  if (!frames.every(Number.isFinite)) throw new WrongFile(`${file}: a value is not a finite number.`);
  return frames;
}

// q * span/255 + span/512 + low, as YouTube-8M's features are read.
export const dequantized = ([low, high]) => (byte) => (byte * (high - low)) / 255 + (high - low) / 512 + low;

// The array of each feature. A file with one array as wide as all features together has them side by side.
function matched(arrays, features, file) {
  const all = Object.values(arrays), width = features.reduce((sum, feature) => sum + feature.size, 0);
  const isOf = (array, size) => array && [1, 2].includes(array.shape.length) && array.shape.at(-1) === size;
  if (all.length === 1 && isOf(all[0], width)) {
    let first = 0;
    return features.map(({ size }) => ({ ...all[0], first: (first += size) - size, stride: width }));
  }
  const found = features.map(({ name }) => arrays[name] ?? arrays[name.replace(/^mean_/, "")] ?? arrays[`mean_${name}`]);
  if (found.every((array, index) => isOf(array, features[index].size))) return found;
  const shapes = Object.entries(arrays).map(([name, array]) => `${name} [${array.shape.join(", ")}]`.trim());
  throw new WrongFile(`${file} has ${shapes.join(", ") || "no array"}.\nExpected ${expected(features)}.`);
}

// What the user may give, in words.
export function expected(features) {
  const width = features.reduce((sum, feature) => sum + feature.size, 0);
  const names = features.map(({ name, size }) => `${name} [frames, ${size}] or [${size}]`);
  const joinedNames = features.map(({ name }) => name).join(" and ");
  const order = features.length > 1 ? `, ${joinedNames} side by side,` : "";
  return `an .npy file with an array [frames, ${width}] or [${width}]${order} or an .npz file with ${names.join(" and ")}`;
}
