// How a film is divided into windows, as yt8m.records.film_windows does it.

// A cut is a change of at least so many times the median change, and the typical distance between two frames.
const CUT = 2.5, CUT_OF_TYPICAL = 0.5;

// The windows [first frame, frame after the last one] of `count` frames. Each overlaps the next one by half, and the
// last one ends with the last frame; but a window has no cut inside, and a scene in which no window lies gets its own.
export function filmWindows(count, size, cuts = []) {
  const length = Math.min(size, count), step = Math.max(1, Math.floor(length / 2)), starts = [];
  for (let start = 0; start < count - length; start += step) starts.push(start);
  starts.push(count - length);
  const ends = [0, ...cuts, count], inOneScene = (start) => !cuts.some((cut) => start < cut && cut < start + length);
  const kept = starts.filter(inOneScene);
  for (let scene = 0; scene + 1 < ends.length; scene++) {
    const [first, last] = [ends[scene], ends[scene + 1]];
    const has = kept.some((start) => first <= start && start + length <= last);
    if (!has) kept.push(Math.max(first, Math.floor((first + last - length) / 2)));
  }
  kept.sort((a, b) => a - b);
  return kept.map((start) => [start, Math.min(start + length, ends.find((end) => end > start))]);
}

// The frames with which new scenes begin, without frame 0. `frames` are the joined frames, float32 [T, width], and
// `sizes` the numbers of values of the features.
export function findCuts(frames, sizes) {
  const width = sizes.reduce((sum, size) => sum + size, 0), count = frames.length / width;
  if (count < 2) return [];
  const squares = new Float64Array(count - 1);
  let column = 0, varying = 0;
  for (const size of sizes) {
    const variance = varianceOf(frames, count, width, column, size);
    if (variance > 0) {
      varying++;
      for (let row = 0; row + 1 < count; row++) {
        let sum = 0;
        for (let place = row * width + column; place < row * width + column + size; place++) {
          sum += Math.fround(frames[place + width] - frames[place]) ** 2;
        }
        squares[row] += sum / variance;
      }
    }
    column += size;
  }
  const changes = squares.map(Math.sqrt), least = Math.max(CUT * median(changes), CUT_OF_TYPICAL * Math.sqrt(2 * varying));
  return [...changes.keys()].filter((row) => changes[row] >= least && changes[row] > 0).map((row) => row + 1);
}

// The sum of the variances of some columns.
function varianceOf(frames, count, width, column, size) {
  let variance = 0;
  for (let place = column; place < column + size; place++) {
    let sum = 0, squares = 0;
    for (let row = 0; row < count; row++) sum += frames[row * width + place];
    for (let row = 0; row < count; row++) squares += (frames[row * width + place] - sum / count) ** 2;
    variance += squares / count;
  }
  return variance;
}

function median(values) {
  const sorted = values.slice().sort(), middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
