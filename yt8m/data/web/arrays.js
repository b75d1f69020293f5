// Reads NumPy's arrays: .npy (numpy.lib.format, versions 1 to 3), and .npz, which is a ZIP archive of them.

export class WrongFile extends Error {} // its message tells the user what is wrong with a file

// The types of NumPy that are read: bytes of a value, and how DataView gives it.
const TYPES = {
  u1: [1, (view, place) => view.getUint8(place)],
  f2: [2, (view, place, isLittle) => ofHalf(view.getUint16(place, isLittle))],
  f4: [4, (view, place, isLittle) => view.getFloat32(place, isLittle)],
  f8: [8, (view, place, isLittle) => view.getFloat64(place, isLittle)],
};

// The value of the bits of a float16 (IEEE 754 binary16).
function ofHalf(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// {name: array} of a file; the only array of an .npy file has the name "". An array is {shape, values, isBytes}, with
// the values as a Float32Array in C order.
export async function arraysOf(file) {
  const content = await file.arrayBuffer();
  if (file.name.toLowerCase().endsWith(".npy")) return { "": arrayOf(content, file.name) };
  const arrays = {};
  for (const [name, read] of entriesOf(content, file.name)) {
    arrays[name.replace(/\.npy$/, "")] = arrayOf(await read(), `${file.name}: ${name}`);
  }
  return arrays;
}

function arrayOf(content, name) {
  const bytes = new Uint8Array(content), view = new DataView(content);
  if (bytes.length < 12 || String.fromCharCode(...bytes.subarray(1, 6)) !== "NUMPY" || bytes[0] !== 0x93) {
    throw new WrongFile(`${name} is not an .npy file: it does not begin as one.`);
  }
  const [start, length] = bytes[6] === 1 ? [10, view.getUint16(8, true)] : [12, view.getUint32(8, true)];
  const header = new TextDecoder().decode(bytes.subarray(start, start + length));
  const [, order, type] = header.match(/'descr': '([<>|=])(\w+)'/) ?? [];
  const [, isFortran] = header.match(/'fortran_order': (True|False)/) ?? [];
  const [, sides] = header.match(/'shape': \(([\d, ]*)\)/) ?? [];
  if (!TYPES[type]) {
    const found = type ?? header.match(/'descr': (.*?), 'fortran/)?.[1] ?? "values of an unknown type";
    throw new WrongFile(`${name} holds ${found}; expected uint8, float16, float32 or float64 (u1, f2, f4, f8).`);
  }
  const shape = sides.split(",").map((side) => side.trim()).filter(Boolean).map(Number);
  const count = shape.reduce((product, side) => product * side, 1), [size, valueAt] = TYPES[type];
  if (bytes.length - start - length !== count * size) {
    throw new WrongFile(`${name} is cut or damaged: it should have ${count} values of ${size} bytes.`);
  }
  const values = new Float32Array(count);
  for (let place = 0; place < count; place++) {
    values[place] = valueAt(view, start + length + place * size, order !== ">");
  }
  return { shape, values: isFortran === "True" ? inRows(values, shape) : values, isBytes: type === "u1" };
}

// The values of an array in Fortran's order, whose first index changes fastest, in C's order.
function inRows(values, shape) {
  const strides = shape.map((_, axis) => shape.slice(0, axis).reduce((product, side) => product * side, 1));
  return values.map((_, place) => {
    let from = 0;
    for (let axis = shape.length - 1, rest = place; axis >= 0; axis--) {
      from += (rest % shape[axis]) * strides[axis];
      rest = Math.floor(rest / shape[axis]);
    }
    return values[from];
  });
}

// Yields [name, function that reads it] for the files in a ZIP archive (PKWARE's APPNOTE, 4.3).
function* entriesOf(content, name) {
  const view = new DataView(content), damaged = new WrongFile(`${name} is not an .npz file, or it is damaged.`);
  let end = view.byteLength - 22;
  while (end >= 0 && view.getUint32(end, true) !== 0x06054b50) end--;
  if (end < 0) throw damaged;
  let place = view.getUint32(end + 16, true);
  for (let number = view.getUint16(end + 10, true); number > 0; number--) {
    if (place + 46 > end || view.getUint32(place, true) !== 0x02014b50) throw damaged;
    const nameLength = view.getUint16(place + 28, true);
    const entry = new TextDecoder().decode(new Uint8Array(content, place + 46, nameLength));
    const [method, size] = [view.getUint16(place + 10, true), view.getUint32(place + 20, true)];
    const header = view.getUint32(place + 42, true);
    yield [entry, () => unpacked(content, header, size, method, `${name}: ${entry}`)];
    place += 46 + nameLength + view.getUint16(place + 30, true) + view.getUint16(place + 32, true);
  }
}

async function unpacked(content, header, size, method, name) {
  const view = new DataView(content), damaged = new WrongFile(`${name} is damaged.`);
  if (header + 30 > content.byteLength) throw damaged;
  const start = header + 30 + view.getUint16(header + 26, true) + view.getUint16(header + 28, true);
  if (start + size > content.byteLength) throw damaged;
  const packed = content.slice(start, start + size);
  if (method === 0) return packed;
  if (method !== 8) throw new WrongFile(`${name} is packed by method ${method} of ZIP; expected numpy.savez's.`);
  try {
    return await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).arrayBuffer();
  } catch {
    throw damaged;
  }
}
