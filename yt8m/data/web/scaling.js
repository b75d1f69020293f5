// Scales pictures as FFmpeg's swscale does, by the kernel that the extractor declares: the same in every browser.

// Weight of a pixel at a distance in pixels (of the smaller of the two pictures), and the distance from which on it is 0.
const KERNELS = {
  bilinear: [1, (distance) => 1 - distance],
  bicubic: [2, cubic],
  lanczos: [3, (distance) => sinc(distance) * sinc(distance / 3)],
};
const SHARPNESS = -0.6; // the parameter `a` of the cubic kernel (Keys 1981); swscale's default

function cubic(distance) {
  if (distance < 1) return ((SHARPNESS + 2) * distance - (SHARPNESS + 3)) * distance ** 2 + 1;
  return SHARPNESS * (((distance - 5) * distance + 8) * distance - 4);
}

const sinc = (value) => (value === 0 ? 1 : Math.sin(Math.PI * value) / (Math.PI * value));

// The square of a picture {data: RGBA, width, height} as bytes RGB: the whole picture, or, with a shorter side, the
// middle of the picture scaled to it.
export function square({ data, width, height }, { picture_size: size, shorter_side: side, interpolation }) {
  const factor = side / Math.min(width, height);
  const across = side ? Math.max(size, Math.round(width * factor)) : size;
  const down = side ? Math.max(size, Math.round(height * factor)) : size;
  const columns = taps(width, across, size, interpolation), rows = taps(height, down, size, interpolation);
  const narrow = new Float32Array(height * size * 3);
  for (let row = 0, place = 0; row < height; row++) {
    for (const { first, weights } of columns) {
      let red = 0, green = 0, blue = 0, from = (row * width + first) * 4;
      for (const weight of weights) {
        red += weight * data[from];
        green += weight * data[from + 1];
        blue += weight * data[from + 2];
        from += 4;
      }
      narrow[place++] = red;
      narrow[place++] = green;
      narrow[place++] = blue;
    }
  }
  const scaled = new Uint8ClampedArray(size * size * 3), stride = size * 3; // it rounds
  for (const [row, { first, weights }] of rows.entries()) {
    for (let column = 0; column < stride; column++) {
      let sum = 0;
      for (let tap = 0; tap < weights.length; tap++) sum += weights[tap] * narrow[(first + tap) * stride + column];
      scaled[row * stride + column] = sum;
    }
  }
  return scaled;
}

// For the middle `wanted` of `to` places: the pixels out of `from` that each is made of, as {first, weights}.
function taps(from, to, wanted, interpolation) {
  const left = Math.floor((to - wanted) / 2), step = from / to, width = Math.max(1, step);
  return Array.from({ length: wanted }, (_, index) => {
    const middle = (left + index + 0.5) * step - 0.5;
    return interpolation === "area" && step > 1 ? covered(middle, step, from) : weighted(middle, width, from, interpolation);
  });
}

function weighted(middle, width, from, interpolation) {
  const [reach, kernel] = KERNELS[interpolation] ?? KERNELS.bilinear;
  const weightAt = (place) => {
    const distance = Math.abs(place - middle) / width;
    return distance < reach ? kernel(distance) : 0;
  };
  return gathered(Math.ceil(middle - reach * width), Math.floor(middle + reach * width), weightAt, from);
}

// The mean of the pixels, by how much of each is covered.
function covered(middle, step, from) {
  const [start, end] = [middle - step / 2, middle + step / 2];
  const weightAt = (place) => Math.max(0, Math.min(place + 0.5, end) - Math.max(place - 0.5, start));
  return gathered(Math.ceil(start - 0.5), Math.floor(end + 0.5), weightAt, from);
}

// Weights that sum to 1; those of places outside of the picture go to its first or last pixel.
function gathered(low, high, weightAt, from) {
  const inside = (place) => Math.min(Math.max(place, 0), from - 1), first = inside(low);
  const weights = new Float64Array(inside(high) - first + 1);
  let sum = 0;
  for (let place = low; place <= high; place++) {
    weights[inside(place) - first] += weightAt(place);
    sum += weightAt(place);
  }
  return { first, weights: weights.map((weight) => weight / sum) };
}
