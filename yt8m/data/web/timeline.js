// The table of the scores over time: a row for each of the highest classes, a column for each part of the video.

const ROWS = 12;
const LEAST = 0.05; // a class that never scores more has no row, unless it is the best class of a part

// The classes of the rows: the best one of each part, and those with the highest scores, highest first.
export function classesOfRows(scores) {
  const highest = scores[0].map((_, index) => Math.max(...scores.map((part) => part[index])));
  const order = [...highest.keys()].sort((a, b) => highest[b] - highest[a] || a - b);
  const winners = new Set(scores.map((part) => part.indexOf(Math.max(...part))));
  const winning = order.filter((index) => winners.has(index)).slice(0, ROWS);
  const others = order.filter((index) => !winners.has(index) && highest[index] >= LEAST);
  const chosen = new Set([...winning, ...others.slice(0, ROWS - winning.length)]);
  return order.filter((index) => chosen.has(index));
}

export function clock(second) {
  const whole = Math.floor(second), seconds = String(whole % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60) % 60, hours = Math.floor(whole / 3600);
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${seconds}` : `${minutes}:${seconds}`;
}

// Fills the table. `pictures` are canvases, one of each part, or none.
// `isTagOf(index, scores)` says whether a class is a tag of a part with these scores of all classes.
export function showTimeline(table, { starts, scores }, names, pictures, isTagOf = () => false) {
  const heads = starts.map((start) => cell("th", clock(start), "col"));
  table.tHead.replaceChildren(row([document.createElement("td"), ...heads]));
  const rows = classesOfRows(scores).map((index) =>
    row([cell("th", names[index], "row"), ...scores.map((part) => bar(part[index], isTagOf(index, part)))]));
  const shown = pictures.map((picture) => {
    const made = document.createElement("td");
    made.append(picture);
    return made;
  });
  if (shown.length) rows.unshift(row([cell("th", "video", "row"), ...shown]));
  table.tBodies[0].replaceChildren(...rows);
}

function row(cells) {
  const made = document.createElement("tr");
  made.append(...cells);
  return made;
}

function cell(tag, text, scope) {
  const made = document.createElement(tag);
  made.textContent = text;
  made.scope = scope;
  return made;
}

function bar(score, isMarked) {
  const made = document.createElement("td"), box = document.createElement("span");
  const height = document.createElement("i"), text = document.createElement("b");
  box.className = isMarked ? "score chosen" : "score";
  if (isMarked) box.title = "a tag";
  height.style.height = `${Math.round(100 * score)}%`;
  text.textContent = score.toFixed(2);
  box.append(height, text);
  made.append(box);
  return made;
}
